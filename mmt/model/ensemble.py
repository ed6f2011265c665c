"""`Ensemble`: several models that predict each token together, by the mean of their probabilities.

The models may have different shapes; their vocabularies are the same.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mmt.model.config import Config
from mmt.model.transformer import Transformer


@flax.struct.dataclass
class Members:
    """The encoded sources, or the caches, of all models: `CrossKV` or `KVCache` of each."""

    of_each: tuple[Any, ...]

    def padded(self, length: int) -> "Members":
        """Returns the sources, filled up with padding to `length` tokens."""
        return Members(tuple(each.padded(length) for each in self.of_each))

    def take(self, rows: Int[Array, "R"], *others: "Members") -> "Members":
        """Returns rows of this and `others`, concatenated."""
        batches = zip(*(batch.of_each for batch in (self, *others)), strict=True)
        return Members(tuple(first.take(rows, *rest) for first, *rest in batches))

    def reorder(self, parents: Int[Array, "B beams"]) -> "Members":
        """Returns the caches in which hypothesis (b, i) continues the old one parents[b, i]."""
        return Members(tuple(each.reorder(parents) for each in self.of_each))


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Models whose probabilities are averaged; a search calls its methods as a Transformer's.

    The parameters are a tuple, those of each model. The logits are log-probabilities:
    log(1/n sum_i softmax(logits_i)), over the pieces of the vocabulary.

    Attributes:
        models: the models.
        pieces: number of logits of each model that count; the others have no piece.
    """

    models: tuple[Transformer, ...]
    pieces: int

    @property
    def config(self) -> Config:
        """Returns the configuration of the first model, whose special tokens are those of all."""
        return self.models[0].config

    def apply(self, variables: Any, *inputs: Any, method: str = "__call__", **options: Any) -> Any:
        """Calls a method of every model: as `Transformer.apply`, without dropout."""
        if method == "decode_step":
            return self._decode_step(variables["params"], *inputs)
        results: list[Any] = [
            model.apply({"params": params}, *of_model, method=method, **options)
            for model, params, of_model in zip(
                self.models, variables["params"], self._split(inputs), strict=True
            )
        ]
        return self._mean(results) if method == "__call__" else Members(tuple(results))

    def _split(self, inputs: Sequence[Any]) -> list[list[Any]]:
        """Returns the inputs of each model; those that are not `Members` are the same for all."""
        return [
            [each.of_each[i] if isinstance(each, Members) else each for each in inputs]
            for i in range(len(self.models))
        ]

    def _decode_step(
        self, params: Any, tokens: Int[Array, "N"], cross_kv: Members, cache: Members
    ) -> tuple[Float[Array, "N V"], Members]:
        results: list[Any] = [
            model.apply({"params": of_model}, tokens, *state, method="decode_step")
            for model, of_model, *state in zip(
                self.models, params, cross_kv.of_each, cache.of_each, strict=True
            )
        ]
        logits, caches = zip(*results, strict=True)
        return self._mean(logits), Members(caches)

    def _mean(self, logits: Sequence[Array]) -> Array:
        """Returns the logarithm of the mean probability of each piece."""
        log_probabilities = [
            jax.nn.log_softmax(each[..., : self.pieces].astype(jnp.float32)) for each in logits
        ]
        mean = jax.nn.logsumexp(jnp.stack(log_probabilities), axis=0)
        return mean - jnp.log(float(len(logits)))
