"""`Config`: sizes and options of a model. Gin files bind it as `transformer.Config`."""

from dataclasses import dataclass, field

import jax.numpy as jnp

from mmt import checked
from mmt.checked import within
from mmt.model import layers
from mmt.model.moe import MoeConfig

# Activations saved for the backward pass: all; matrix products other than attention's scores;
# matrix products with weights other than the experts' (T5X's "minimal"); only the input of a block.
# Costs: benchmarks/memory.py.
REMAT = ("none", "dots", "minimal", "full")
ROUTING = ("token", "language", "none")
_MAX_DEPTH = 10_000  # layers of a stack, since parameter names are listed layer by layer


@dataclass(frozen=True)
class Config:
    """Sizes and options of a `Transformer`. Raises ValueError for a value that is not allowed."""

    # source vocabulary; also the target's where target_vocab_size is 0
    vocab_size: int = field(metadata=within(1))
    # 0: both sides share one vocabulary and one embedding table
    target_vocab_size: int = field(default=0, metadata=within(0))
    emb_dim: int = field(default=512, metadata=within(1))
    num_heads: int = field(default=6, metadata=within(1))
    head_dim: int = field(default=64, metadata=within(1))
    mlp_dim: int = field(default=1024, metadata=within(1))
    encoder_layers: int = field(default=8, metadata=within(0, _MAX_DEPTH))
    decoder_layers: int = field(default=8, metadata=within(0, _MAX_DEPTH))
    mlp_activations: tuple[str, ...] = ("gelu", "linear")
    dropout_rate: float = field(default=0.0, metadata=within(0, 1, below=True))
    # dropout inside the MLPs that are not experts; None: dropout_rate
    activation_dropout: float | None = field(default=None, metadata=within(0, 1, below=True))
    # dropout of whole source embeddings (Sennrich and Zhang 2019, section 3.2)
    source_word_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    # dropout of whole embeddings of the decoder's input
    target_word_dropout: float = field(default=0.0, metadata=within(0, 1, below=True))
    # logits are products with the target embedding, scaled by emb_dim^-0.5
    tied_logits: bool = False
    relative_buckets: int = 32  # of T5's relative position bias
    relative_max_distance: int = 128
    relative_bias_per_layer: bool = False  # UMT5: each layer has a separate bias
    # special tokens: padding, end, and the decoder's first input
    pad_id: int = field(default=0, metadata=within(0))
    eos_id: int = field(default=1, metadata=within(0))
    start_id: int = field(default=0, metadata=within(0))
    dtype: str = "float32"  # of activations; parameters are float32 (float64 with jax_enable_x64)
    remat: str = "dots"  # one of REMAT
    # blocks of layers in an iteration of the scan over layers: all of them are faster on a CPU, and
    # compile longer
    unroll: int = field(default=1, metadata=within(1))
    # False: separate parameters for every block (`stack.unscanned`), for decoding only
    scan_layers: bool = True
    # 0: dense; else the last layer of every block of moe_period layers has experts
    moe_period: int = field(default=0, metadata=within(0))
    moe: MoeConfig = MoeConfig()
    # input of the routers, one of ROUTING: the token's vector ("token") or the example's language;
    # "none": the stack has no experts
    encoder_routing: str = "token"
    decoder_routing: str = "token"
    # languages of the data, if a stack routes by language; else 0
    languages: int = field(default=0, metadata=within(0))

    @property
    def target_vocabulary(self) -> int:
        """Returns the size of the target vocabulary, which may be shared with the source."""
        return self.target_vocab_size or self.vocab_size

    def __post_init__(self) -> None:
        checked.check(self)
        max_depth = max(self.encoder_layers, self.decoder_layers)
        if self.moe_period > max_depth:
            raise ValueError(
                f"Config.moe_period = {self.moe_period}: no layer of {self.encoder_layers} + "
                f"{self.decoder_layers} has experts; allowed: 0 to {max_depth}"
            )
        if not 4 <= self.relative_buckets < 2 * self.relative_max_distance:
            raise ValueError(
                f"Config.relative_buckets = {self.relative_buckets}; allowed: 4 to twice "
                f"relative_max_distance, which is {self.relative_max_distance}"
            )
        float64 = ("float64",) if jnp.zeros(0).dtype == "float64" else ()  # jax_enable_x64
        checked.one_of(self, "dtype", self.dtype, ("float32", "bfloat16", *float64))
        checked.one_of(self, "remat", self.remat, REMAT)
        for name in self.mlp_activations or ("",):
            checked.one_of(self, "mlp_activations", name, tuple(layers.ACTIVATIONS))
        self._check_routing()

    def routing_table(self, stack: str) -> int:
        """Returns the rows of the routing tables of a stack: 0 unless it routes by language."""
        return self.languages if getattr(self, f"{stack}_routing") == "language" else 0

    def has_experts(self, stack: str) -> bool:
        """Returns whether the layers that `moe_period` names have experts in a stack."""
        return self.moe_period > 0 and getattr(self, f"{stack}_routing") != "none"

    def _check_routing(self) -> None:
        by_language = False
        if self.moe_period and not (self.has_experts("encoder") or self.has_experts("decoder")):
            raise ValueError(
                f"Config.moe_period = {self.moe_period} with encoder_routing and decoder_routing = "
                "none: no layer has experts; allowed: a moe_period of 0, or experts in a stack"
            )
        for stack in ("encoder", "decoder"):
            name, depth = f"{stack}_routing", getattr(self, f"{stack}_layers")
            checked.one_of(self, name, getattr(self, name), ROUTING)
            if getattr(self, name) != "language":
                continue
            by_language = True
            if not 0 < self.moe_period <= depth:
                raise ValueError(
                    f"Config.{name} = language, but no layer of the {stack} has experts; allowed: "
                    f"a moe_period of 1 to {depth} (it is {self.moe_period}), or token"
                )
        if by_language != bool(self.languages):
            allowed = "1 or more, the number of languages of the data" if by_language else "0"
            raise ValueError(
                f"Config.languages = {self.languages} with encoder_routing = "
                f"{self.encoder_routing} and decoder_routing = {self.decoder_routing}; "
                f"allowed: {allowed}"
            )
