"""`Transformer`: the T5 1.1 encoder-decoder, dense or with mixture-of-experts layers.

Decoding calls `encode`, `cross_kv` and `empty_cache`, then `decode_step` once per token. Losses,
beams, meshes and training live elsewhere.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from mmt.model import layers
from mmt.model.config import Config
from mmt.model.kv_cache import CrossKV, KVCache, empty_cache
from mmt.model.stack import Context, Stack


class Transformer(nn.Module):
    """The encoder-decoder. Sources are padded with `pad_id`; targets start with `start_id`.

    logits = model.apply({"params": params}, source, shifted_target)            # teacher forced

    encoded = model.apply(variables, source, method="encode")                   # decoding
    cross_kv = model.apply(variables, encoded, source, method="cross_kv")
    cache = model.apply(variables, rows, length, method="empty_cache")
    logits, cache = model.apply(variables, tokens, cross_kv, cache, method="decode_step")

    A model that routes by language also needs the language ids: of every target token (`__call__`),
    or of every row (`encode`, `cross_kv`). Other models ignore them.
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
        decoder_alignment: Int[Array, "B T"] | None = None,
        decoder_language_ids: Int[Array, "B T"] | None = None,
        enable_dropout: bool = False,
    ) -> Float[Array, "B T V"]:
        """Returns teacher-forced logits in float32.

        Positions are not needed: attention stays within a segment, where differences of indices
        equal differences of positions.

        Args:
            encoder_input_tokens: source tokens.
            decoder_input_tokens: target tokens, shifted right by the start token.
            encoder_segment_ids, decoder_segment_ids: of packed rows, 1, 2, ... per example and 0
                for padding.
            decoder_alignment: index of the aligned token in the source row, or -1, to sow the loss
                of guided cross-attention (`stack.alignment_nll`).
            decoder_language_ids: of target tokens. A source token has the language of its segment.
            enable_dropout: True in training: dropout, expert capacity and router noise, from the
                random stream 'dropout'.
        """
        segments = self._encoder_segments(encoder_input_tokens, encoder_segment_ids)
        targets = self._decoder_segments(decoder_input_tokens, decoder_segment_ids)
        if decoder_language_ids is None and self.is_initializing():
            decoder_language_ids = jnp.zeros_like(decoder_input_tokens)
        languages = self._if_routed("encoder", decoder_language_ids)
        if languages is not None:
            languages = _source_languages(segments, targets, languages)
        encoded = self._encode(encoder_input_tokens, segments, languages, enable_dropout)
        length = jnp.arange(decoder_input_tokens.shape[1])
        context = Context(
            positions=(length, length),
            mask=_segment_mask(targets, targets) & (length[:, None] >= length[None, :]),
            padding_mask=targets > 0,
            source=encoded,
            cross_mask=_segment_mask(targets, segments),
            alignment=decoder_alignment,
            language_ids=self._if_routed("decoder", decoder_language_ids),
        )
        x = self._target_table()(decoder_input_tokens)
        x, _ = self.decoder(x, context, enable_dropout=enable_dropout)
        return self._logits(x)

    def encode(
        self,
        encoder_input_tokens: Int[Array, "B S"],
        *,
        encoder_segment_ids: Int[Array, "B S"] | None = None,
        language_ids: Int[Array, "B"] | None = None,
        enable_dropout: bool = False,
    ) -> Float[Array, "B S D"]:
        """Returns the encoder's normalised output, for rows of one language each."""
        segments = self._encoder_segments(encoder_input_tokens, encoder_segment_ids)
        languages = self._if_routed("encoder", language_ids)
        if languages is not None:
            languages = languages[:, None]
        return self._encode(encoder_input_tokens, segments, languages, enable_dropout)

    def cross_kv(
        self,
        encoded: Float[Array, "B S D"],
        encoder_input_tokens: Int[Array, "B S"],
        language_ids: Int[Array, "B"] | None = None,
    ) -> CrossKV:
        """Returns cross-attention keys and values of every decoder layer, and the padding mask."""
        keys: Any
        values: Any
        keys, values = self.decoder.cross_kv(encoded)
        mask = encoder_input_tokens != self.config.pad_id
        if not self.config.scan_layers:
            keys, values = tuple(keys), tuple(values)
        return CrossKV(keys, values, mask, self._if_routed("decoder", language_ids))

    def empty_cache(self, rows: int, max_length: int, beams: int = 1) -> KVCache:
        """Returns an empty cache for `rows` x `beams` hypotheses of at most `max_length` tokens."""
        return empty_cache(self.config, rows, max_length, beams)

    def decode_step(
        self, tokens: Int[Array, "N"], cross_kv: CrossKV, cache: KVCache
    ) -> tuple[Float[Array, "N V"], KVCache]:
        """Returns logits of the tokens that follow `tokens`, and the cache extended by `tokens`.

        N = B * beams: the beams of one sentence are adjacent, and `cross_kv` has B rows. The cache
        takes `max_length` steps; further steps are undefined.
        """
        beams = 1 if cache.ancestors is None else cache.ancestors.shape[1]
        positions = jnp.arange(cache.keys[0].shape[2]) // beams
        languages = cross_kv.language_ids
        if languages is not None:
            languages = jnp.repeat(languages, tokens.shape[0] // languages.shape[0])[:, None]
        context = Context(
            positions=(cache.length[None], positions),
            mask=cache.visible(),
            padding_mask=jnp.ones((tokens.shape[0], 1), bool),
            source=cross_kv,
            cross_mask=cross_kv.mask[:, None, None, :],
            language_ids=languages,
        )
        x, updated = self.decoder(self._target_table()(tokens[:, None]), context, cache=cache)
        assert updated is not None
        return self._logits(x)[:, 0], updated._replace(length=cache.length + 1)

    def _encode(
        self,
        tokens: Int[Array, "B S"],
        segments: Int[Array, "B S"],
        language_ids: Int[Array, "B #S"] | None,
        enable_dropout: bool,
    ) -> Float[Array, "B S D"]:
        length = jnp.arange(tokens.shape[1])
        context = Context(
            (length, length),
            mask=_segment_mask(segments, segments),
            padding_mask=segments > 0,
            language_ids=language_ids,
        )
        x = self.source_embed(tokens)
        return self.encoder(x, context, enable_dropout=enable_dropout)[0]

    def _if_routed(self, stack: str, language_ids: Array | None) -> Array | None:
        """Returns the language ids if the stack routes by language, else None."""
        if not self.config.routing_table(stack):
            return None
        if language_ids is None:
            raise ValueError(
                f"the {stack} routes by language (Config.{stack}_routing), and the model was "
                "called without language ids"
            )
        return language_ids

    def _encoder_segments(self, tokens: Array, segments: Array | None) -> Array:
        return (tokens != self.config.pad_id).astype(jnp.int32) if segments is None else segments

    def _decoder_segments(self, tokens: Array, segments: Array | None) -> Array:
        """Returns the segment ids; without any, all tokens but padding are one segment.

        Position 0 holds the start token, which may equal the padding id.
        """
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
    """Returns the parameter tree as `jax.ShapeDtypeStruct`; allocates nothing."""
    return nn.unbox(boxed_shapes(model))


def boxed_shapes(model: Transformer) -> Any:
    """Returns `parameter_shapes` boxed with logical axis names, as `sharding.Layout` reads them."""
    tokens = jnp.zeros((1, 8), jnp.int32)
    return jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)["params"]


def _source_languages(
    segments: Int[Array, "B S"], targets: Int[Array, "B T"], language_ids: Int[Array, "B T"]
) -> Int[Array, "B S"]:
    """Returns the language of every source token, from the target tokens of its segment."""
    same_segment = segments[:, :, None] == targets[:, None, :]
    return jnp.max(jnp.where(same_segment, language_ids[:, None, :], 0), axis=-1)


def _segment_mask(queries: Array, keys: Array) -> Array:
    """Returns the mask [B 1 Q S] of equal segments, from segments [B Q] and [B S]."""
    return queries[:, None, :, None] == keys[:, None, None, :]
