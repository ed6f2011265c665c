"""The T5 1.1 encoder-decoder of `layers`, dense or with the experts of `moe`.

Both stacks scan over blocks of layers, so that compile time does not grow with depth; decoding is
`encode`, `memory`, `empty_cache` and then `decode_step` once per token. Losses, beams, meshes and
training live elsewhere.
"""

import difflib
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from mmt.model import layers
from mmt.model.moe import MoeConfig, MoeMlp

Stacked = tuple[Float[Array, "L B H S K"], Float[Array, "L B H S K"]]


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
    tied_logits: bool = False  # logits by the target embedding, scaled by emb_dim^-0.5
    dtype: str = "float32"  # of activations; parameters are float32
    remat: bool = False  # keep only a block's input for the backward pass, recompute the rest
    moe_period: int = 0  # 0: dense; else the last layer of every block of moe_period has experts
    moe: MoeConfig = MoeConfig()

    def __post_init__(self) -> None:
        for name in ("vocab_size", "emb_dim", "num_heads", "head_dim", "mlp_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"Config.{name} = {getattr(self, name)}; allowed: 1 or more")
        for name in ("target_vocab_size", "encoder_layers", "decoder_layers", "moe_period"):
            if getattr(self, name) < 0:
                raise ValueError(f"Config.{name} = {getattr(self, name)}; allowed: 0 or more")
        if not 0.0 <= self.dropout_rate < 1.0:
            raise ValueError(f"Config.dropout_rate = {self.dropout_rate}; allowed: 0 <= rate < 1")
        _one_of("dtype", self.dtype, ("float32", "bfloat16"))
        for name in self.mlp_activations or ("",):
            _one_of("mlp_activations", name, tuple(layers.ACTIVATIONS))


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


class Transformer(nn.Module):
    """Encoder-decoder. Token 0 is padding, and the decoder's start symbol.

    logits = model.apply({"params": params}, source, shifted_target)            # teacher forced

    encoded = model.apply(variables, source, method="encode")                   # decoding
    memory = model.apply(variables, encoded, source, method="memory")
    cache = model.apply(variables, rows, length, method="empty_cache")
    logits, cache = model.apply(variables, tokens, memory, cache, method="decode_step")
    """

    config: Config

    def setup(self) -> None:
        c, dtype = self.config, jnp.dtype(self.config.dtype)
        self.source_embed = layers.Embed(c.vocab_size, c.emb_dim, dtype)
        if c.target_vocab_size:
            self.target_embed = layers.Embed(c.target_vocab_size, c.emb_dim, dtype)
        self.encoder = Stack(c, decoder=False)
        self.decoder = Stack(c, decoder=True)
        if not c.tied_logits:
            self.logits = layers.Logits(c.target_vocab_size or c.vocab_size, dtype)

    def __call__(
        self,
        encoder_input_tokens: Int[Array, "B S"],
        decoder_input_tokens: Int[Array, "B T"],
        *,
        encoder_segment_ids: Int[Array, "B S"] | None = None,
        decoder_segment_ids: Int[Array, "B T"] | None = None,
        enable_dropout: bool = False,
    ) -> Float[Array, "B T V"]:
        """Teacher-forced logits, float32.

        Packed rows carry segment ids (1.. per example, 0 = padding). Positions are not needed:
        attention stays within a segment, where differences of indices are those of positions.
        `enable_dropout` is training: dropout, expert capacity and router noise (rng 'dropout').
        """
        segments = _encoder_segments(encoder_input_tokens, encoder_segment_ids)
        encoded = self.encode(
            encoder_input_tokens, encoder_segment_ids=segments, enable_dropout=enable_dropout
        )
        targets = _decoder_segments(decoder_input_tokens, decoder_segment_ids)
        length = jnp.arange(decoder_input_tokens.shape[1])
        context = Context(
            bias=self.decoder.relative_bias(length, length),
            mask=_same(targets, targets) & (length[:, None] >= length[None, :]),
            real=targets > 0,
            source=encoded,
            cross_mask=_same(targets, segments),
        )
        x = self._target_table()(decoder_input_tokens)
        x, _ = self.decoder(x, context, enable_dropout=enable_dropout)
        return self._logits(x)

    def encode(
        self,
        encoder_input_tokens: Int[Array, "B S"],
        *,
        encoder_segment_ids: Int[Array, "B S"] | None = None,
        enable_dropout: bool = False,
    ) -> Float[Array, "B S D"]:
        """The encoder's output, normalised."""
        segments = _encoder_segments(encoder_input_tokens, encoder_segment_ids)
        length = jnp.arange(encoder_input_tokens.shape[1])
        bias = self.encoder.relative_bias(length, length)
        context = Context(bias=bias, mask=_same(segments, segments), real=segments > 0)
        x = self.source_embed(encoder_input_tokens)
        return self.encoder(x, context, enable_dropout=enable_dropout)[0]

    def memory(
        self, encoded: Float[Array, "B S D"], encoder_input_tokens: Int[Array, "B S"]
    ) -> Memory:
        """Cross-attention keys and values of every decoder layer, and which are real tokens."""
        keys, values = self.decoder.memory(encoded)
        return Memory(keys, values, encoder_input_tokens != 0)

    def empty_cache(self, rows: int, max_length: int) -> KVCache:
        """A cache for `rows` hypotheses of at most `max_length` tokens."""
        c = self.config
        shape = (c.decoder_layers, rows, c.num_heads, max_length, c.head_dim)
        zeros = jnp.zeros(shape, jnp.dtype(c.dtype))
        return KVCache(zeros, zeros, jnp.zeros((), jnp.int32))

    def decode_step(
        self, tokens: Int[Array, "N"], memory: Memory, cache: KVCache
    ) -> tuple[Float[Array, "N V"], KVCache]:
        """Logits of the token that follows `tokens`, and the cache with `tokens` in it.

        N = B * beams rows, the beams of one sentence adjacent; `memory` has B rows. The cache takes
        `max_length` steps; what a further one would do is not defined.
        """
        positions = jnp.arange(cache.keys.shape[3])
        context = Context(
            bias=self.decoder.relative_bias(cache.length[None], positions),
            mask=(positions <= cache.length)[None, None, None, :],
            real=jnp.ones((tokens.shape[0], 1), bool),
            source=memory,
            cross_mask=memory.mask[:, None, None, :],
        )
        x, updated = self.decoder(self._target_table()(tokens[:, None]), context, cache=cache)
        assert updated is not None
        return self._logits(x)[:, 0], updated._replace(length=cache.length + 1)

    def _target_table(self) -> layers.Embed:
        return self.target_embed if self.config.target_vocab_size else self.source_embed

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        if self.config.tied_logits:
            logits = self._target_table().attend(x * self.config.emb_dim**-0.5)
        else:
            logits = self.logits(x)
        return nn.with_logical_constraint(logits, ("batch", "length", "vocab"))


class Context(NamedTuple):
    """What every layer of a stack is given alike."""

    bias: Float[Array, "1 H Q S"]
    mask: Bool[Array, "#B 1 #Q S"]
    real: Bool[Array, "B Q"]
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
        if self.decoder:
            self.cross_norm, self.cross_attention = layers.RMSNorm(dtype), attention()
        self.mlp_norm = layers.RMSNorm(dtype)
        self.mlp: nn.Module = (
            MoeMlp(c.mlp_dim, c.mlp_activations, dtype, c.moe)
            if self.experts
            else layers.Mlp(c.mlp_dim, c.mlp_activations, c.dropout_rate, dtype)
        )
        self.dropout = nn.Dropout(c.dropout_rate, broadcast_dims=(-2,))

    def __call__(self, carry: Carry, context: Context, enable_dropout: bool) -> Carry:
        """The layer's output in place of its input; its keys and values go into the cache."""
        x, cache, layer = carry

        def add(x: Array, y: Array) -> Array:
            y = x + self.dropout(y, deterministic=not enable_dropout)
            return nn.with_logical_constraint(y, ("batch", "length", "embed"))

        y = self.self_norm(x)
        keys, values = self.self_attention.project(y)
        if cache is not None:  # written first, then read: XLA then updates it in place
            at = (layer, 0, 0, cache.length, 0)
            cache = cache._replace(
                keys=jax.lax.dynamic_update_slice(cache.keys, keys[None], at),
                values=jax.lax.dynamic_update_slice(cache.values, values[None], at),
            )
            keys, values = cache.keys[layer], cache.values[layer]
        y = self.self_attention(
            y, (keys, values), mask=context.mask, bias=context.bias, enable_dropout=enable_dropout
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
        self.relative_bias = layers.RelativeBias(c.num_heads, bidirectional=not self.decoder)
        policies = jax.checkpoint_policies
        block = nn.remat(
            Block,
            static_argnums=(3,),
            policy=policies.nothing_saveable if c.remat else policies.dots_saveable,
        )
        over_layers = {
            "variable_axes": {"params": 0, "intermediates": 0},
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

    def __call__(
        self,
        x: Float[Array, "B Q D"],
        context: Context,
        *,
        cache: KVCache | None = None,
        enable_dropout: bool = False,
    ) -> tuple[Float[Array, "B Q D"], KVCache | None]:
        """The stack's output, normalised, and the cache with the layers' new keys and values."""
        x = nn.with_logical_constraint(x, ("batch", "length", "embed"))
        x = self.dropout(x, deterministic=not enable_dropout)
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


def _encoder_segments(tokens: Array, segments: Array | None) -> Array:
    return (tokens != 0).astype(jnp.int32) if segments is None else segments


def _decoder_segments(tokens: Array, segments: Array | None) -> Array:
    """Without segment ids all but padding is one segment; position 0 holds the start symbol."""
    return (tokens != 0).astype(jnp.int32).at[:, 0].set(1) if segments is None else segments


def _same(queries: Array, keys: Array) -> Array:
    """[B Q] and [B S] segments -> [B 1 Q S], True where they are the same."""
    return queries[:, None, :, None] == keys[:, None, None, :]


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(value, allowed, n=1, cutoff=0.0)[0]
        options = ", ".join(allowed)
        raise ValueError(f"Config.{name}: {value!r}; allowed: {options}; nearest: {near}")
