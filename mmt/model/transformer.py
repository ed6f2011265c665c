"""The T5 1.1 encoder-decoder of `layers`, dense or with the experts of `moe`.

Decoding is `encode`, `memory`, `empty_cache` and then `decode_step` once per token. Losses, beams,
meshes and training live elsewhere.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from mmt.model import layers
from mmt.model.config import Config
from mmt.model.stack import Context, KVCache, Memory, Stack


class Transformer(nn.Module):
    """Encoder-decoder. Sources are padded with `pad_id`; targets start with `start_id`.

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
            self.logits = layers.Logits(c.target_vocabulary, dtype)

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
        segments = self._encoder_segments(encoder_input_tokens, encoder_segment_ids)
        encoded = self.encode(
            encoder_input_tokens, encoder_segment_ids=segments, enable_dropout=enable_dropout
        )
        targets = self._decoder_segments(decoder_input_tokens, decoder_segment_ids)
        length = jnp.arange(decoder_input_tokens.shape[1])
        context = Context(
            positions=(length, length),
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
        segments = self._encoder_segments(encoder_input_tokens, encoder_segment_ids)
        length = jnp.arange(encoder_input_tokens.shape[1])
        context = Context((length, length), mask=_same(segments, segments), real=segments > 0)
        x = self.source_embed(encoder_input_tokens)
        return self.encoder(x, context, enable_dropout=enable_dropout)[0]

    def memory(
        self, encoded: Float[Array, "B S D"], encoder_input_tokens: Int[Array, "B S"]
    ) -> Memory:
        """Cross-attention keys and values of every decoder layer, and which are real tokens."""
        keys, values = self.decoder.memory(encoded)
        return Memory(keys, values, encoder_input_tokens != self.config.pad_id)

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
            positions=(cache.length[None], positions),
            mask=(positions <= cache.length)[None, None, None, :],
            real=jnp.ones((tokens.shape[0], 1), bool),
            source=memory,
            cross_mask=memory.mask[:, None, None, :],
        )
        x, updated = self.decoder(self._target_table()(tokens[:, None]), context, cache=cache)
        assert updated is not None
        return self._logits(x)[:, 0], updated._replace(length=cache.length + 1)

    def _encoder_segments(self, tokens: Array, segments: Array | None) -> Array:
        return (tokens != self.config.pad_id).astype(jnp.int32) if segments is None else segments

    def _decoder_segments(self, tokens: Array, segments: Array | None) -> Array:
        """Without segment ids all but padding is one segment; position 0 holds the start symbol."""
        if segments is not None:
            return segments
        return (tokens != self.config.pad_id).astype(jnp.int32).at[:, 0].set(1)

    def _target_table(self) -> layers.Embed:
        return self.target_embed if self.config.target_vocab_size else self.source_embed

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        if self.config.tied_logits:
            logits = self._target_table().attend(x * self.config.emb_dim**-0.5)
        else:
            logits = self.logits(x)
        return nn.with_logical_constraint(logits, ("batch", "length", "vocab"))


def parameter_shapes(model: Transformer) -> Any:
    """The tree of its parameters as `jax.ShapeDtypeStruct`; takes no memory."""
    return nn.unbox(boxed_shapes(model))


def boxed_shapes(model: Transformer) -> Any:
    """The same with the logical names of their axes, as `sharding.Layout` reads them."""
    tokens = jnp.zeros((1, 8), jnp.int32)
    return jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)["params"]


def _same(queries: Array, keys: Array) -> Array:
    """[B Q] and [B S] segments -> [B 1 Q S], True where they are the same."""
    return queries[:, None, :, None] == keys[:, None, None, :]
