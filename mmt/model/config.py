"""`Config`: the sizes and options of a model; gin files bind it as `transformer.Config`."""

from dataclasses import dataclass

import jax.numpy as jnp

from mmt import fields
from mmt.model import layers
from mmt.model.moe import MoeConfig

# Everything; products of matrices; of these those with weights that are not experts' (T5X's
# "minimal"); a block's input alone. What each costs: benchmarks/memory.py.
REMAT = ("none", "dots", "minimal", "full")
_DEEPEST = 10_000  # layers of a stack; names of parameters are listed layer by layer


@dataclass(frozen=True)
class Config:
    """Sizes and options of a `Transformer`. ValueError for a value that is not to be had."""

    vocab_size: int  # of the source, and of the target where target_vocab_size is 0
    target_vocab_size: int = 0  # 0: one vocabulary and one embedding table for both sides
    emb_dim: int = 512
    num_heads: int = 6
    head_dim: int = 64
    mlp_dim: int = 1024
    encoder_layers: int = 8
    decoder_layers: int = 8
    mlp_activations: tuple[str, ...] = ("gelu", "linear")
    dropout_rate: float = 0.0
    source_word_dropout: float = 0.0  # of whole embeddings (Sennrich and Zhang 2019, section 3.2)
    target_word_dropout: float = 0.0  # likewise of what the decoder is given
    tied_logits: bool = False  # logits by the target embedding, scaled by emb_dim^-0.5
    relative_buckets: int = 32  # of T5's bias by distance
    relative_max_distance: int = 128
    relative_bias_per_layer: bool = False  # UMT5: each layer its own bias, not one for the stack
    pad_id: int = 0  # of the tokens; so are the two below
    eos_id: int = 1
    start_id: int = 0  # what the decoder is given before the first token
    dtype: str = "float32"  # of activations; parameters are float32 (float64: as jax_enable_x64)
    remat: str = "dots"  # of REMAT: what is kept for the backward pass; the rest is recomputed
    moe_period: int = 0  # 0: dense; else the last layer of every block of moe_period has experts
    moe: MoeConfig = MoeConfig()

    def __post_init__(self) -> None:
        fields.check(self)
        for name in ("vocab_size", "emb_dim", "num_heads", "head_dim", "mlp_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"Config.{name} = {getattr(self, name)}; allowed: 1 or more")
        zero = ("target_vocab_size", "encoder_layers", "decoder_layers", "moe_period")
        for name in (*zero, "pad_id", "eos_id", "start_id"):
            if getattr(self, name) < 0:
                raise ValueError(f"Config.{name} = {getattr(self, name)}; allowed: 0 or more")
        for name in ("encoder_layers", "decoder_layers"):
            if getattr(self, name) > _DEEPEST:
                raise ValueError(f"Config.{name} = {getattr(self, name)}; allowed: 0 to {_DEEPEST}")
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
        for name in ("dropout_rate", "source_word_dropout", "target_word_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"Config.{name} = {getattr(self, name)}; allowed: 0 <= rate < 1")
        more = ("float64",) if jnp.zeros(0).dtype == "float64" else ()  # jax_enable_x64
        fields.one_of(self, "dtype", self.dtype, ("float32", "bfloat16", *more))
        fields.one_of(self, "remat", self.remat, REMAT)
        for name in self.mlp_activations or ("",):
            fields.one_of(self, "mlp_activations", name, tuple(layers.ACTIVATIONS))
