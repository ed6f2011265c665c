"""What a search may choose next: logits to logits, by what was said before, and by chance.

Each function is what its paper or Hugging Face's `generate` says, on rows that are independent of
each other. When and in which order they apply is `decode`'s.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32


def penalise(
    logprobs: Float[Array, "N V"], history: Int[Array, "N H"], length: Int[Array, ""], by: float
) -> Float[Array, "N V"]:
    """Log-probabilities of tokens among the first `length` of `history` times `by`.

    Keskar et al. 2019 (CTRL), section 4.1. On log-probabilities, as `generate` has it in beam
    search; on logits, as it has it elsewhere, the result would hang on a constant added to all.
    """
    rows, past = jnp.arange(len(history))[:, None], jnp.arange(history.shape[1]) < length
    tokens = jnp.where(past, history, logprobs.shape[-1])
    said = jnp.zeros(logprobs.shape, bool).at[rows, tokens].set(True, mode="drop")
    return jnp.where(said, logprobs * by, logprobs)


def repeats(
    history: Int[Array, "N H"], length: Int[Array, ""], *, ngram: int, vocabulary: int
) -> Bool[Array, "N V"]:
    """The tokens that would end an n-gram which is among the first `length` of `history` already.

    Paulus et al. 2017, section 2.5.
    """
    rows, size = jnp.arange(len(history))[:, None], history.shape[1]
    none = jnp.zeros((len(history), vocabulary), bool)
    if size < ngram:
        return none
    starts = jnp.arange(size - ngram + 1)
    same = jnp.broadcast_to(starts + ngram <= length, (len(history), len(starts)))
    for i in range(ngram - 1):
        last = jax.lax.dynamic_index_in_dim(history, length - ngram + 1 + i, axis=1)
        same &= history[:, i : i + len(starts)] == last
    ends = jnp.where(same, history[:, ngram - 1 :], vocabulary)
    return none.at[rows, ends].set(True, mode="drop")


def keep_likely(
    logits: Float[Array, "N V"], *, temperature: float, top_k: int, top_p: float
) -> Float[Array, "N V"]:
    """Logits divided by `temperature`; -inf for those that are not to be drawn.

    First all but the `top_k` best go (0: none; Fan et al. 2018), then of the rest all but the
    smallest set of the best whose probabilities sum up to `top_p` (Holtzman et al. 2020). Of equal
    ones all stay or go.
    """
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        worst = jax.lax.top_k(logits, top_k)[0][:, -1:]
        logits = jnp.where(logits >= worst, logits, -jnp.inf)
    if top_p < 1:
        probabilities = jax.nn.softmax(logits, axis=-1)
        worst = _worst_likely(probabilities, top_p)
        logits = jnp.where(probabilities >= worst, logits, -jnp.inf)
    return logits


def _worst_likely(probabilities: Float[Array, "N V"], top_p: float) -> Float[Array, "N 1"]:
    """The smallest number of each row which is such that larger probabilities sum up to less than
    `top_p`. By bisection, which costs a fraction of a sort: floats above 0 are in the order of
    their bits as integers, and it ends at the very number.
    """

    def as_float(bits: Int[Array, "N 1"]) -> Float[Array, "N 1"]:
        return jax.lax.bitcast_convert_type(bits, jnp.float32)

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        larger = jnp.where(probabilities > as_float(middle), probabilities, 0.0)
        enough = jnp.sum(larger, axis=-1, keepdims=True) < top_p
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
    none = jnp.zeros((len(probabilities), 1), jnp.int32)
    return as_float(jax.lax.fori_loop(0, 30, halve, (none, none + one))[1])


def draw(
    logits: Float[Array, "N V"], noise: UInt32[Array, "N 2"], step: Int[Array, ""]
) -> Int[Array, "N"]:
    """A token of each row by the softmax of its logits (Gumbel-max).

    noise: the row's own random key, as `jax.random.key_data` gives it. What a row draws in a step
    depends on its key, the step and its logits alone.
    """

    def gumbel(key: UInt32[Array, "2"]) -> Float[Array, "V"]:
        own = jax.random.fold_in(jax.random.wrap_key_data(key, impl="threefry2x32"), step)
        return jax.random.gumbel(own, logits.shape[-1:])

    return jnp.argmax(logits + jax.vmap(gumbel)(noise), axis=-1)
