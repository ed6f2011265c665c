"""`Config`: the sizes and options of a model; gin files bind it as `transformer.Config`."""

from dataclasses import dataclass, field

import jax.numpy as jnp

from mmt import checked
from mmt.checked import within
from mmt.model import layers
from mmt.model.moe import MoeConfig

# Everything; products of matrices; of these those with weights that are not experts' (T5X's
# "minimal"); a block's input alone. What each costs: benchmarks/memory.py.
REMAT = ("none", "dots", "minimal", "full")
_DEEPEST = 10_000  # layers of a stack; names of parameters are listed layer by layer


@dataclass(frozen=True)
class Config:
    """Sizes and options of a `Transformer`. ValueError for a value that is not to be had."""

    # of the source, and of the target where target_vocab_size is 0
    vocab_size: int = field(metadata=within(1))
    # 0: one vocabulary and one embedding table for both sides
    target_vocab_size: int = field(default=0, metadata=within(0))
    emb_dim: int = field(default=512, metadata=within(1))
    num_heads: int = field(default=6, metadata=within(1))
    head_dim: int = field(default=64, metadata=within(1))
    mlp_dim: int = field(default=1024, metadata=within(1))
    encoder_layers: int = field(default=8, metadata=within(0, _DEEPEST))
    decoder_layers: int = field(default=8, metadata=within(0, _DEEPEST))
    mlp_activations: tuple[str, ...] = ("gelu", "linear")
    dropout_rate: float = field(default=0.0, metadata=within(0, 1, below=True))
    # of whole embeddings (Sennrich and Zhang 2019, section 3.2)
    source_word_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    # likewise of what the decoder is given
    target_word_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    tied_logits: bool = False  # logits by the target embedding, scaled by emb_dim^-0.5
    relative_buckets: int = 32  # of T5's bias by distance
    relative_max_distance: int = 128
    relative_bias_per_layer: bool = False  # UMT5: each layer its own bias, not one for the stack
    pad_id: int = field(default=0, metadata=within(0))  # of the tokens; so are the two below
    eos_id: int = field(default=1, metadata=within(0))
    # what the decoder is given before the first token
    start_id: int = field(default=0, metadata=within(0))
    dtype: str = "float32"  # of activations; parameters are float32 (float64: as jax_enable_x64)
    remat: str = "dots"  # of REMAT: what is kept for the backward pass; the rest is recomputed
    # 0: dense; else the last layer of every block of moe_period has experts
    moe_period: int = field(default=0, metadata=within(0))
    moe: MoeConfig = MoeConfig()

    @property
    def target_vocabulary(self) -> int:
        """Returns the size of the target's vocabulary, its own or the one for both sides."""
        return self.target_vocab_size or self.vocab_size

    def __post_init__(self) -> None:
        checked.check(self)
        deepest = max(self.encoder_layers, self.decoder_layers)
        if self.moe_period > deepest:
            raise ValueError(
                f"Config.moe_period = {self.moe_period}: no layer of {self.encoder_layers} + "
                f"{self.decoder_layers} has experts; allowed: 0 to {deepest}"
            )
        if not 4 <= self.relative_buckets < 2 * self.relative_max_distance:
            raise ValueError(
                f"Config.relative_buckets = {self.relative_buckets}; allowed: 4 to twice "
                f"relative_max_distance, which is {self.relative_max_distance}"
            )
        more = ("float64",) if jnp.zeros(0).dtype == "float64" else ()  # jax_enable_x64
        checked.one_of(self, "dtype", self.dtype, ("float32", "bfloat16", *more))
        checked.one_of(self, "remat", self.remat, REMAT)
        for name in self.mlp_activations or ("",):
            checked.one_of(self, "mlp_activations", name, tuple(layers.ACTIVATIONS))
