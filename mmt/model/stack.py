"""The layers of the encoder and the decoder, scanned in blocks, so that compile time does not grow
with depth. Embeddings, logits and the order of calls are `transformer`'s.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from mmt.model import layers
from mmt.model.config import Config
from mmt.model.moe import MoeMlp

_KEPT = {  # by name of config.REMAT
    "none": jax.checkpoint_policies.everything_saveable,
    "dots": jax.checkpoint_policies.dots_saveable,
    "minimal": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}
Stacked = tuple[Float[Array, "L B H S K"], Float[Array, "L B H S K"]]


class Memory(NamedTuple):
    """What decoding needs of the source: cross keys and values of all decoder layers."""

    keys: Float[Array, "L B H S K"]
    values: Float[Array, "L B H S K"]
    mask: Bool[Array, "B S"]  # real tokens


class KVCache(NamedTuple):
    """Self-attention keys and values of the `length` tokens decoded so far."""

    keys: Float[Array, "L N H T K"]
    values: Float[Array, "L N H T K"]
    length: Int[Array, ""]


class Context(NamedTuple):
    """What every layer of a stack is given alike."""

    positions: tuple[Int[Array, "Q"], Int[Array, "S"]]  # of queries and keys
    mask: Bool[Array, "#B 1 #Q S"]
    real: Bool[Array, "B Q"]
    bias: Any = None  # of all layers' self-attention [1 H Q S]; None where each has its own
    source: Any = None  # of the decoder: the encoded source [B S D], or its `Memory`
    cross_mask: Any = None  # [B 1 #Q S]


class Carry(NamedTuple):
    """What goes from layer to layer: activations, the cache while decoding, the layer's number."""

    x: Float[Array, "B Q D"]
    cache: KVCache | None
    layer: Int[Array, ""]


class Layer(nn.Module):
    """Self-attention, cross-attention (decoder), MLP or experts; each normalised before, added."""

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
        self.mlp: nn.Module = (
            MoeMlp(c.moe.mlp_dim or c.mlp_dim, c.mlp_activations, dtype, c.moe)
            if self.experts
            else layers.Mlp(c.mlp_dim, c.mlp_activations, c.dropout_rate, dtype)
        )
        self.dropout = nn.Dropout(c.dropout_rate, broadcast_dims=(-2,))

    def __call__(self, carry: Carry, context: Context, enable_dropout: bool) -> Carry:
        """The layer's output in place of its input; its keys and values go into the cache."""
        x, cache, layer = carry

        def add(x: Array, y: Array) -> Array:
            y = x + self.dropout(y, deterministic=not enable_dropout)
            return nn.with_logical_constraint(y, ("batch", "length", "activation_embed"))

        y = self.self_norm(x)
        keys, values = self.self_attention.project(y)
        if cache is not None:  # written first, then read: XLA then updates it in place
            at = (layer, 0, 0, cache.length, 0)
            cache = cache._replace(
                keys=jax.lax.dynamic_update_slice(cache.keys, keys[None], at),
                values=jax.lax.dynamic_update_slice(cache.values, values[None], at),
            )
            keys, values = cache.keys[layer], cache.values[layer]
        own = self.config.relative_bias_per_layer
        bias = self.relative_bias(*context.positions) if own else context.bias
        y = self.self_attention(
            y, (keys, values), mask=context.mask, bias=bias, enable_dropout=enable_dropout
        )
        x = add(x, y)
        if self.decoder:
            if isinstance(context.source, Memory):
                memory = context.source.keys[layer], context.source.values[layer]
            else:
                memory = self.memory(context.source)
            y = self.cross_norm(x).reshape(memory[0].shape[0], -1, x.shape[-1])  # beams: queries
            y = self.cross_attention(
                y, memory, mask=context.cross_mask, enable_dropout=enable_dropout
            )
            x = add(x, y.reshape(x.shape))
        x = add(x, self.mlp(self.mlp_norm(x), context.real, enable_dropout))
        return Carry(x, cache, layer + 1)

    def memory(self, encoded: Float[Array, "B S D"]) -> layers.KeyValue:
        """Cross-attention keys and values."""
        return self.cross_attention.project(encoded)


class Block(nn.Module):
    """`size` layers, the last of them with experts if `experts`: what a stack repeats."""

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
        """As `Layer`; the None is what scan would stack."""
        for layer in self.layers:
            carry = layer(carry, context, enable_dropout)
        return carry, None

    def memory(self, encoded: Float[Array, "B S D"]):
        """Cross keys and values [size B H S K]; `encoded` is handed on, as scan wants it."""
        pairs = [layer.memory(encoded) for layer in self.layers]
        return encoded, jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)


class Stack(nn.Module):
    """All layers of the encoder or the decoder: scanned blocks, a rest, the final norm."""

    config: Config
    decoder: bool

    def setup(self) -> None:
        c = self.config
        depth = c.decoder_layers if self.decoder else c.encoder_layers
        size = max(c.moe_period, 1)
        self.scanned, rest = depth // size * size, depth % size
        if not c.relative_bias_per_layer:
            self.relative_bias = relative_bias(c, decoder=self.decoder)
        block = nn.remat(Block, static_argnums=(3,), policy=_KEPT[c.remat])
        over_layers = {
            "variable_axes": {"params": 0, "intermediates": 0, "routing": 0},
            "split_rngs": {"params": True, "dropout": True},
            "length": depth // size,
            "metadata_params": {nn.PARTITION_NAME: "layers"},
        }
        shared = {"in_axes": (nn.broadcast, nn.broadcast)}  # context, enable_dropout
        scan = nn.scan(block, methods={"__call__": over_layers | shared, "memory": over_layers})
        if self.scanned:
            self.blocks = scan(c, self.decoder, c.moe_period > 0, size)
        if rest:
            self.rest = block(c, self.decoder, False, rest)
        self.norm = layers.RMSNorm(jnp.dtype(c.dtype))
        self.dropout = nn.Dropout(c.dropout_rate, broadcast_dims=(-2,))
        words = c.target_word_dropout if self.decoder else c.source_word_dropout
        self.word_dropout = nn.Dropout(words, broadcast_dims=(-1,))

    def __call__(
        self,
        x: Float[Array, "B Q D"],
        context: Context,
        *,
        cache: KVCache | None = None,
        enable_dropout: bool = False,
    ) -> tuple[Float[Array, "B Q D"], KVCache | None]:
        """The stack's output, normalised, and the cache with the layers' new keys and values."""
        x = nn.with_logical_constraint(x, ("batch", "length", "activation_embed"))
        x = self.word_dropout(x, deterministic=not enable_dropout)
        x = self.dropout(x, deterministic=not enable_dropout)
        if not self.config.relative_bias_per_layer:
            context = context._replace(bias=self.relative_bias(*context.positions))
        carry = Carry(x, cache, jnp.zeros((), jnp.int32))
        for block in self._parts():
            carry, _ = block(carry, context, enable_dropout)
        x = self.dropout(self.norm(carry.x), deterministic=not enable_dropout)
        return x, carry.cache

    def memory(self, encoded: Float[Array, "B S D"]) -> Stacked:
        """Cross keys and values of all layers."""
        pairs = [block.memory(encoded)[1] for block in self._parts()]
        if self.scanned:  # [blocks layers ...] -> [layers ...]
            pairs[0] = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), pairs[0])
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pairs)

    def _parts(self) -> list[nn.Module]:
        return [getattr(self, name) for name in ("blocks", "rest") if hasattr(self, name)]


def relative_bias(config: Config, *, decoder: bool) -> layers.RelativeBias:
    """The bias of one layer or of all in a stack."""
    return layers.RelativeBias(
        config.num_heads,
        bidirectional=not decoder,
        buckets=config.relative_buckets,
        max_distance=config.relative_max_distance,
    )
