"""Transformations of next-token logits, and sampling from them.

Each function implements its paper, or Hugging Face's `generate`, on independent rows.
`mmt.decoding.beam_search` decides when and in which order they apply. Shapes use the alphabet of
`mmt.model`.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32


def apply_repetition_penalty(
    logprobs: Float[Array, "N V"],
    history: Int[Array, "N J"],
    length: Int[Array, ""],
    penalty: float,
) -> Float[Array, "N V"]:
    """Multiplies the log-probabilities of tokens that have already occurred by `penalty`.

    Keskar et al. 2019 (CTRL), section 4.1. It acts on log-probabilities, as in the beam search of
    `generate`. On logits the result would depend on a constant added to all of them.

    Args:
        logprobs: log-probabilities of the next token.
        history: tokens so far; only the first `length` of them count.
        length: number of tokens so far.
        penalty: above 1 makes repetitions less probable.
    """
    rows, past = jnp.arange(len(history))[:, None], jnp.arange(history.shape[1]) < length
    tokens = jnp.where(past, history, logprobs.shape[-1])
    occurred = jnp.zeros(logprobs.shape, bool).at[rows, tokens].set(True, mode="drop")
    return jnp.where(occurred, logprobs * penalty, logprobs)


def repeated_ngrams(
    history: Int[Array, "N J"], length: Int[Array, ""], *, ngram: int, vocabulary: int
) -> Bool[Array, "N V"]:
    """Returns a mask of the tokens that would repeat an n-gram of the first `length` tokens.

    Paulus et al. 2017, section 2.5. With ngram=2 and the history 5 6 5, it is True for 6 only.
    """
    rows, size = jnp.arange(len(history))[:, None], history.shape[1]
    none = jnp.zeros((len(history), vocabulary), bool)
    if size < ngram:
        return none
    starts = jnp.arange(size - ngram + 1)
    matches = jnp.broadcast_to(starts + ngram <= length, (len(history), len(starts)))
    for i in range(ngram - 1):
        last = jax.lax.dynamic_index_in_dim(history, length - ngram + 1 + i, axis=1)
        matches &= history[:, i : i + len(starts)] == last
    ends = jnp.where(matches, history[:, ngram - 1 :], vocabulary)
    return none.at[rows, ends].set(True, mode="drop")


def top_k_top_p_filter(
    logits: Float[Array, "N V"], *, temperature: float, top_k: int, top_p: float
) -> Float[Array, "N V"]:
    """Divides logits by `temperature` and sets those that must not be sampled to -inf.

    Top-k filtering (Fan et al. 2018) keeps the `top_k` largest logits; 0 keeps all. Nucleus
    filtering (Holtzman et al. 2020) then keeps the smallest set of the most probable remaining
    tokens whose probabilities sum to `top_p`. Tokens of equal probability are all kept or all
    removed.
    """
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        smallest = jax.lax.top_k(logits, top_k)[0][:, -1:]
        logits = jnp.where(logits >= smallest, logits, -jnp.inf)
    if top_p < 1:
        probabilities = jax.nn.softmax(logits, axis=-1)
        threshold = _nucleus_threshold(probabilities, top_p)
        logits = jnp.where(probabilities >= threshold, logits, -jnp.inf)
    return logits


def _nucleus_threshold(probabilities: Float[Array, "N V"], top_p: float) -> Float[Array, "N 1"]:
    """Returns the smallest x of each row such that probabilities above x sum to less than `top_p`.

    Bisection costs a fraction of a sort. Positive floats are ordered as their bits are as integers,
    so bisecting the bits ends at the exact number.
    """

    def as_float(bits: Int[Array, "N 1"]) -> Float[Array, "N 1"]:
        return jax.lax.bitcast_convert_type(bits, jnp.float32)

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        larger = jnp.where(probabilities > as_float(middle), probabilities, 0.0)
        below = jnp.sum(larger, axis=-1, keepdims=True) < top_p
        return jnp.where(below, low, middle + 1), jnp.where(below, middle, high)

    bits_of_one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
    zeros = jnp.zeros((len(probabilities), 1), jnp.int32)
    return as_float(jax.lax.fori_loop(0, 30, halve, (zeros, zeros + bits_of_one))[1])


def sample(
    logits: Float[Array, "N V"], noise: UInt32[Array, "N 2"], step: Int[Array, ""]
) -> Int[Array, "N"]:
    """Samples one token per row from the softmax of its logits, by the Gumbel-max trick.

    A row's token depends only on the key and logits of the row, and on the step.

    Args:
        logits: unnormalised log-probabilities; -inf excludes a token.
        noise: one random key per row, as `jax.random.key_data` returns it.
        step: number of tokens sampled before.
    """

    def gumbel(key: UInt32[Array, "2"]) -> Float[Array, "V"]:
        step_key = jax.random.fold_in(jax.random.wrap_key_data(key, impl="threefry2x32"), step)
        return jax.random.gumbel(step_key, logits.shape[-1:])

    return jnp.argmax(logits + jax.vmap(gumbel)(noise), axis=-1)
