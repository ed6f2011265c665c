"""Sampling filters equal loops in Python, and samples follow the probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from mmt.decoding import beam_search, sampling


def histories(seed=0, rows=40, size=9, vocabulary=5):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.integers(0, vocabulary, (rows, size)), jnp.int32)


@pytest.mark.parametrize("length", [0, 1, 4, 9])
@pytest.mark.parametrize("ngram", [1, 2, 3, 10])
def test_no_ngram_is_repeated(ngram, length):
    history = histories()
    repeated = sampling.repeated_ngrams(history, jnp.int32(length), ngram=ngram, vocabulary=5)
    for row, tokens in zip(np.asarray(repeated), history.tolist(), strict=True):
        decoded = tokens[:length]
        ngrams = {tuple(decoded[i : i + ngram]) for i in range(length - ngram + 1)}
        for token in range(5):
            now = tuple([*decoded, token][-ngram:])
            assert row[token] == (len(now) == ngram and now in ngrams)


@pytest.mark.parametrize("by", [1.5, 0.5])
def test_the_repetition_penalty_is_applied_to_earlier_tokens(by):
    history, length = histories(), 3
    logprobs = jax.nn.log_softmax(jax.random.normal(jax.random.key(0), (40, 7)))
    penalised = sampling.apply_repetition_penalty(logprobs, history, jnp.int32(length), by)
    for row, tokens in enumerate(history.tolist()):
        for token in range(7):
            expected = logprobs[row, token] * (by if token in tokens[:length] else 1)
            np.testing.assert_allclose(penalised[row, token], expected, rtol=1e-6)


def likely(logits, temperature, top_k, top_p):
    """Returns the distribution to sample from, in float64, one token after another."""
    weights = np.exp(np.float64(logits) / temperature)
    best = np.argsort(-weights)[: top_k or None]
    total, chosen, share = weights[best].sum(), [], 0.0
    for token in best:
        if share < top_p:
            chosen.append(token)
        share += weights[token] / total
    expected = np.zeros(len(logits))
    expected[chosen] = weights[chosen] / weights[chosen].sum()
    return expected


CHOICES = [(1.0, 0, 1.0), (0.6, 0, 1.0), (1.0, 5, 1.0), (1.0, 0, 0.7), (1.7, 8, 0.8), (1.0, 1, 1.0)]


@pytest.mark.parametrize("temperature, top_k, top_p", CHOICES)
def test_top_k_and_top_p_keep_the_likely_tokens(temperature, top_k, top_p):
    logits = np.random.default_rng(1).normal(size=(20, 30)).astype(np.float32) * 2
    filtered = sampling.top_k_top_p_filter(
        jnp.asarray(logits), temperature=temperature, top_k=top_k, top_p=top_p
    )
    for row, probabilities in zip(logits, np.asarray(jax.nn.softmax(filtered)), strict=True):
        np.testing.assert_allclose(probabilities, likely(row, temperature, top_k, top_p), atol=1e-6)


@pytest.mark.parametrize("top_p", [1e-6, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0])
def test_the_smallest_set_of_the_best_with_all_that_are_equal(top_p, sharpness):
    """Among 500 tokens with few different logits, some ruled out."""
    random = np.random.default_rng(3)
    logits = (random.integers(-9, 9, (50, 500)) * np.float32(sharpness)).astype(np.float32)
    logits[random.random(logits.shape) < 0.3] = -np.inf
    logits = jnp.asarray(logits)
    limited = sampling.top_k_top_p_filter(logits, temperature=1.0, top_k=0, top_p=top_p)
    for row, limited_row in zip(logits, np.asarray(limited), strict=True):
        weights = np.exp(np.float64(row) - row.max())
        weights /= weights.sum()
        better = np.array([weights[row > weight].sum() for weight in row])
        sure = np.abs(better - top_p) > 1e-5
        assert sure.mean() > 0.9
        stays = (better < top_p) & (weights > 1e-30)
        np.testing.assert_array_equal(limited_row[sure], np.where(stays, row, -np.inf)[sure])


@pytest.mark.parametrize("temperature, top_k, top_p", CHOICES[:5])
def test_sampling_draws_by_the_probabilities(temperature, top_k, top_p):
    """20,000 rows in two steps; the test rejects one in 10,000 correct samplers."""
    rows, logits = 20_000, jnp.asarray([1.0, -1.0, 0.5, 2.0, 0.0, 1.5, -0.5, 0.7, 1.1, 0.2])
    settings = beam_search.BeamSettings(
        2, beams=1, search_style="hf", pad=0, eos=1, temperature=temperature, top_k=top_k,
        top_p=top_p, token_scores=True,
    )  # fmt: skip
    noise = jax.random.bits(jax.random.key(7), (rows, 2), jnp.uint32)

    @jax.jit
    def run(noise):
        row_limits = beam_search.RowLimits(jnp.full(rows, 2), noise=noise)
        logits_of = lambda tokens, cache: (jnp.tile(logits, (rows, 1)), cache)  # noqa: E731
        return beam_search.beam_search(logits_of, (), limits=row_limits, settings=settings)

    hypotheses = run(noise)
    tokens = np.asarray(hypotheses.tokens[:, 0])
    first, second = tokens[:, 0], tokens[tokens[:, 0] != 1, 1]
    expected = likely(np.where(np.arange(10) == 0, -np.inf, logits), temperature, top_k, top_p)
    for drawn in (first, second):
        counts = np.bincount(drawn, minlength=10)
        assert not counts[expected == 0].any()
        possible = expected > 0
        test = scipy.stats.chisquare(counts[possible], expected[possible] * len(drawn))
        assert test.pvalue > 1e-4
    repeated = np.mean(first[first != 1] == second)  # steps are independent of each other
    going_on = np.where(np.arange(10) == 1, 0, expected)
    assert abs(repeated - (going_on / going_on.sum() * expected).sum()) < 0.02
    # the scores are the model's own, pad's share included
    np.testing.assert_allclose(
        hypotheses.token_scores[:, 0, 0], jax.nn.log_softmax(logits)[first], rtol=1e-4
    )
