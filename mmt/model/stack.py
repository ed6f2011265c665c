"""`Stack`: all layers of the encoder or the decoder, scanned in blocks.

Scanning keeps compile time independent of depth. Embeddings, logits and the order of calls are in
`mmt.model.transformer`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from mmt.model import layers
from mmt.model.config import Config
from mmt.model.kv_cache import CrossKV, KVCache
from mmt.model.moe import MoeMlp
from mmt.model.product import BATCHED_PRODUCT, PRODUCT

_POLICIES = jax.checkpoint_policies
_REMAT_POLICIES = {  # by name of config.REMAT
    "none": _POLICIES.everything_saveable,
    "dots": _POLICIES.save_from_both_policies(
        _POLICIES.dots_saveable, _POLICIES.save_only_these_names(PRODUCT, BATCHED_PRODUCT)
    ),
    "minimal": _POLICIES.save_from_both_policies(
        _POLICIES.dots_with_no_batch_dims_saveable, _POLICIES.save_only_these_names(PRODUCT)
    ),
    "full": _POLICIES.nothing_saveable,
}
Stacked = tuple[Float[Array, "L B H S K"], Float[Array, "L B H S K"]]


class Context(NamedTuple):
    """Inputs that all layers of a stack share.

    Attributes:
        positions: positions of queries and keys.
        mask: True where a query may attend to a key.
        padding_mask: True for tokens, False for padding.
        bias: relative position bias of all layers' self-attention [1 H Q S]; None where each layer
            has a separate one.
        source: in the decoder, the encoded source [B S D] or its `CrossKV`.
        cross_mask: in the decoder, the mask of cross-attention [B 1 #Q S].
        alignment: in the decoder, the aligned source position of every query [B Q] or -1, for which
            cross-attention sows its loss; or None.
        language_ids: of every token or row, if the stack routes by language.
    """

    positions: tuple[Int[Array, "Q"], Int[Array, "S"]]
    mask: Bool[Array, "#B 1 #Q S"]
    padding_mask: Bool[Array, "B Q"]
    bias: Any = None
    source: Any = None
    cross_mask: Any = None
    alignment: Any = None
    language_ids: Int[Array, "B #Q"] | None = None


class Carry(NamedTuple):
    """Values passed from layer to layer: activations, the cache while decoding, the layer index."""

    x: Float[Array, "B Q D"]
    cache: KVCache | None
    layer: Int[Array, ""] | int


class Layer(nn.Module):
    """A layer: self-attention, cross-attention (decoder), MLP or experts.

    Each is normalised before and added to its input: x + f(norm(x)).
    """

    config: Config
    decoder: bool
    experts: bool

    def setup(self) -> None:
        c, dtype = self.config, jnp.dtype(self.config.dtype)

        def attention() -> layers.Attention:
            return layers.Attention(c.num_heads, c.head_dim, c.dropout_rate, dtype, c.emb_dim)

        self.self_norm, self.self_attention = layers.RMSNorm(dtype), attention()
        if c.relative_bias_per_layer:
            self.relative_bias = relative_bias(c, decoder=self.decoder)
        if self.decoder:
            self.cross_norm, self.cross_attention = layers.RMSNorm(dtype), attention()
        self.mlp_norm = layers.RMSNorm(dtype)
        self.mlp: nn.Module
        if self.experts:
            self.mlp = MoeMlp(
                c.moe.mlp_dim or c.mlp_dim, c.mlp_activations, dtype, c.moe, c.dropout_rate,
                languages=c.routing_table("decoder" if self.decoder else "encoder"),
            )  # fmt: skip
        else:
            rate = c.dropout_rate if c.activation_dropout is None else c.activation_dropout
            self.mlp = layers.Mlp(c.mlp_dim, c.mlp_activations, rate, dtype)
        self.dropout = nn.Dropout(c.dropout_rate, broadcast_dims=(-2,))

    def __call__(self, carry: Carry, context: Context, enable_dropout: bool) -> Carry:
        """Returns the layer's output; its keys and values are written to the cache."""
        x, cache, layer = carry

        def add(x: Array, y: Array) -> Array:
            y = x + self.dropout(y, deterministic=not enable_dropout)
            return nn.with_logical_constraint(y, ("batch", "length", "activation_embed"))

        def beams_as_queries(y: Array, rows: int) -> Array:
            """Makes the beams of a sentence, [N 1 D], queries of one row: [B beams D]."""
            return y.reshape(rows, -1, y.shape[-1])

        y = self.self_norm(x)
        key_value = self.self_attention.project(y)
        if cache is not None:  # write before reading: XLA then updates the cache in place
            cache, key_value = cache.write(layer, *key_value)
            y = beams_as_queries(y, len(key_value[0]))
        bias = context.bias
        if self.config.relative_bias_per_layer:
            bias = self.relative_bias(*context.positions)
        y = self.self_attention(
            y, key_value, mask=context.mask, bias=bias, enable_dropout=enable_dropout
        )
        x = add(x, y.reshape(x.shape))
        if self.decoder:
            if isinstance(context.source, CrossKV):
                cross_kv = context.source.keys[layer], context.source.values[layer]
            else:
                cross_kv = self.cross_kv(context.source)
            y = beams_as_queries(self.cross_norm(x), len(cross_kv[0]))
            y = self.cross_attention(
                y, cross_kv, mask=context.cross_mask, alignment=context.alignment,
                enable_dropout=enable_dropout,
            )  # fmt: skip
            x = add(x, y.reshape(x.shape))
        arguments = self.mlp_norm(x), context.padding_mask, enable_dropout
        y = self.mlp(*arguments, context.language_ids) if self.experts else self.mlp(*arguments)
        return Carry(add(x, y), cache, layer + 1)

    def cross_kv(self, encoded: Float[Array, "B S D"]) -> layers.KeyValue:
        """Returns cross-attention keys and values."""
        return self.cross_attention.project(encoded)


class Block(nn.Module):
    """`size` layers, which a stack repeats; the last one has experts if `experts`."""

    config: Config
    decoder: bool
    experts: bool
    size: int

    def setup(self) -> None:
        self.layers = [
            Layer(self.config, self.decoder, self.experts and i == self.size - 1)
            for i in range(self.size)
        ]

    def __call__(self, carry: Carry, context: Context, enable_dropout: bool) -> tuple[Carry, None]:
        """Applies the layers. The second result is None: `nn.scan` would stack it."""
        for layer in self.layers:
            carry = layer(carry, context, enable_dropout)
        return carry, None

    def cross_kv(self, encoded: Float[Array, "B S D"]):
        """Returns `encoded`, the carry of `nn.scan`, and cross keys and values [size B H S K]."""
        pairs = [layer.cross_kv(encoded) for layer in self.layers]
        return encoded, jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)


class Stack(nn.Module):
    """All layers of the encoder or the decoder: scanned blocks, a remainder, the final norm.

    Layers that fill no block of `moe_period` follow unscanned. Their parameters are named 'rest'.
    Without `Config.scan_layers`, blocks have separate parameters, named 'block_0', 'block_1', ...;
    see `unscanned`.
    """

    config: Config
    decoder: bool

    def setup(self) -> None:
        c = self.config
        depth = c.decoder_layers if self.decoder else c.encoder_layers
        size, name = max(c.moe_period, 1), "decoder" if self.decoder else "encoder"
        self.scanned, remainder = depth // size * size, depth % size
        if not c.relative_bias_per_layer:
            self.relative_bias = relative_bias(c, decoder=self.decoder)
        block: Any = Block
        if c.scan_layers:  # other models are for decoding
            block = nn.remat(Block, static_argnums=(3,), policy=_REMAT_POLICIES[c.remat])
        over_layers = {
            "variable_axes": dict.fromkeys(
                ("params", "intermediates", "routing", "router", "attention"), 0
            ),
            "split_rngs": {"params": True, "dropout": True},
            "length": depth // size,
            "unroll": c.unroll,
            "metadata_params": {nn.PARTITION_NAME: "layers"},
        }
        scan_inputs = {"in_axes": (nn.broadcast, nn.broadcast)}  # context, enable_dropout
        scan = nn.scan(
            block, methods={"__call__": over_layers | scan_inputs, "cross_kv": over_layers}
        )
        experts = c.has_experts(name)
        if self.scanned and c.scan_layers:
            self.blocks = scan(c, self.decoder, experts, size)
        elif self.scanned:
            self.block = [block(c, self.decoder, experts, size) for _ in range(depth // size)]
        if remainder:  # parameters of existing checkpoints are named after the attribute
            self.rest = block(c, self.decoder, False, remainder)
        self.norm = layers.RMSNorm(jnp.dtype(c.dtype))
        self.dropout = nn.Dropout(c.dropout_rate, broadcast_dims=(-2,))
        word_dropout_rate = c.target_word_dropout if self.decoder else c.source_word_dropout
        self.word_dropout = nn.Dropout(word_dropout_rate, broadcast_dims=(-1,))

    def __call__(
        self,
        x: Float[Array, "B Q D"],
        context: Context,
        *,
        cache: KVCache | None = None,
        enable_dropout: bool = False,
    ) -> tuple[Float[Array, "B Q D"], KVCache | None]:
        """Returns the normalised output, and the cache with the layers' new keys and values."""
        x = nn.with_logical_constraint(x, ("batch", "length", "activation_embed"))
        x = self.word_dropout(x, deterministic=not enable_dropout)
        x = self.dropout(x, deterministic=not enable_dropout)
        if not self.config.relative_bias_per_layer:
            context = context._replace(bias=self.relative_bias(*context.positions))
        first = jnp.zeros((), jnp.int32) if self.config.scan_layers else 0
        carry = Carry(x, cache, first)
        for block in self._blocks():
            carry, _ = block(carry, context, enable_dropout)
        x = self.dropout(self.norm(carry.x), deterministic=not enable_dropout)
        return x, carry.cache

    def cross_kv(self, encoded: Float[Array, "B S D"]) -> Stacked:
        """Returns cross keys and values of all layers."""
        pairs = [block.cross_kv(encoded)[1] for block in self._blocks()]
        if hasattr(self, "blocks"):  # [blocks layers ...] -> [layers ...]
            pairs[0] = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), pairs[0])
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pairs)

    def _blocks(self) -> list[nn.Module]:
        scanned_and_rest = [
            getattr(self, name) for name in ("blocks", "rest") if hasattr(self, name)
        ]
        return [*getattr(self, "block", ()), *scanned_and_rest]


def unscanned(params: Any) -> Any:
    """Returns the parameters of a scanned model for the same model without `Config.scan_layers`.

    Decoding on a CPU is faster with them: a scan copies each layer's parameters in every step.
    """
    unstacked = dict(params)
    for name in {"encoder", "decoder"} & params.keys():
        stack = dict(params[name])
        blocks = stack.pop("blocks", {})
        count = max(map(len, jax.tree.leaves(blocks)), default=0)
        for i in range(count):
            stack[f"block_{i}"] = jax.tree.map(lambda leaf, i=i: leaf[i], blocks)
        unstacked[name] = stack
    return unstacked


def alignment_nll(intermediates: Mapping[str, Any], layer: int) -> Float[Array, "B T"]:
    """Returns the loss that a decoder layer's cross-attention sowed, see `layers.Attention`.

    Args:
        intermediates: the collection that `model.apply(..., mutable=["intermediates"])` returns.
        layer: index of the decoder layer; -1: the last one.

    Raises:
        ValueError: the decoder has no such layer.
    """
    nll_by_layer = _sown(intermediates["decoder"], "alignment_nll", rank=2)
    depth = len(nll_by_layer)
    if not -depth <= layer < depth:
        raise ValueError(f"no decoder layer {layer} to align; allowed: {-depth} to {depth - 1}")
    return nll_by_layer[layer]


def cross_attention(attention: Mapping[str, Any]) -> Float[Array, "L B T S"]:
    """Returns the cross-attention of every decoder layer, the mean over its heads.

    `attention` is the collection that `model.apply(..., mutable=["attention"])` returns.
    """
    return _sown(attention["decoder"], "weights", rank=3)


def _sown(decoder: Mapping[str, Any], name: str, *, rank: int) -> Float[Array, "L ..."]:
    """Returns the arrays that cross-attention sowed under `name` in all decoder layers.

    rank: of the array of one layer; those of scanned blocks have one more axis.
    """
    separate = (f"block_{i}" for i in range(len(decoder)))
    sown_parts = []
    for block in (decoder[part] for part in (*separate, "blocks", "rest") if part in decoder):
        by_layer = [block[f"layers_{i}"]["cross_attention"] for i in range(len(block))]
        sown = jnp.stack([leaves[name][0] for leaves in by_layer], axis=-rank - 1)
        sown_parts.append(sown.reshape(-1, *sown.shape[-rank:]))
    return jnp.concatenate(sown_parts)


def relative_bias(config: Config, *, decoder: bool) -> layers.RelativeBias:
    """Returns the relative position bias module of one layer, or of all layers of a stack."""
    return layers.RelativeBias(
        config.num_heads,
        bidirectional=not decoder,
        buckets=config.relative_buckets,
        max_distance=config.relative_max_distance,
    )
