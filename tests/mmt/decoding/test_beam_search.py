"""Beam search against exhaustive and plain searches in numpy, on made-up conditional tables."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.decoding import beam_search as decode
from mmt.decoding.beam_search import RowLimits, beam_search
from mmt.decoding.settings import BeamSettings

EOS, STATES = 1, 4001


class Toy:
    """A language model whose distribution depends on all earlier tokens, through `next_state`. Each
    row of a batch starts in its own state, so that rows have different distributions.
    """

    def __init__(self, vocabulary: int, *, sharpness: float = 1.0, seed: int = 0):
        random = np.random.default_rng(seed)
        self.table = random.normal(size=(STATES, vocabulary)) * sharpness

    def next_state(self, state, token):
        return (state * 7 + token + 1) % STATES

    def logprobs(self, state: int) -> np.ndarray:
        logits = self.table[state].astype(np.float32).astype(np.float64)
        return logits - np.logaddexp.reduce(logits)

    def search(
        self, rows, limits, settings: BeamSettings, *, least=None, prefixes=None
    ) -> decode.Hypotheses:
        """Runs `beam_search` under jit with token scores; the states are in the cache, with the
        rows as the last axis of a leaf.
        """
        settings = dataclasses.replace(settings, token_scores=True)
        table = jnp.asarray(self.table, jnp.float32)
        if prefixes is not None:
            prefixes = jnp.asarray([[*p, *[-1] * (3 - len(p))] for p in prefixes], jnp.int32)

        def step_fn(tokens, cache):
            # the start token leads from the row's number to its first state, whatever it is
            state = self.next_state(cache["state"][0], tokens)
            cache = {"state": state[None], "steps": cache["steps"] + 1, "twice": cache["twice"]}
            return table[state], cache

        @jax.jit
        def run(rows, asked):
            first = jnp.repeat(rows, settings.beams)[None]
            cache = {"state": first, "steps": jnp.int32(0), "twice": jnp.stack([first[0]] * 2)}
            return beam_search(step_fn, cache, limits=asked, settings=settings)

        least = None if least is None else jnp.asarray(least, jnp.int32)
        asked = RowLimits(jnp.asarray(limits, jnp.int32), least, prefixes)
        return jax.tree.map(np.asarray, run(jnp.asarray(rows, jnp.int32), asked))


def penalty(length: int, settings: BeamSettings) -> float:
    return {"gnmt": (5 + length) / 6, "length": length}[settings.penalty] ** settings.alpha


def following(toy: Toy, state: int, tokens: tuple, settings: BeamSettings, *, least=0, prefix=()):
    """{token: log-probability} of the tokens that may follow, the maximum length aside."""
    size = toy.table.shape[1]
    history = (settings.start, *tokens)
    logprobs = {
        token: logprob * (settings.repetition_penalty if token in history else 1)
        for token, logprob in enumerate(toy.logprobs(state))
    }
    if len(tokens) < len(prefix):
        return {prefix[len(tokens)]: logprobs[prefix[len(tokens)]]}

    def comes_again(token):
        n = settings.no_repeat_ngram
        now = (*history, token)
        ngrams = [now[i : i + n] for i in range(len(now) - n + 1)] if n else []
        return ngrams.count(now[-n:]) > 1

    words = [token for token in range(size) if token not in (settings.pad, EOS)]
    allowed = [word for word in words if not comes_again(word)]
    if len(tokens) + 1 >= least or not allowed:
        allowed.append(EOS)
    return {token: logprobs[token] for token in allowed}


def exhaustive(toy: Toy, row: int, limit: int, settings: BeamSettings, **options):
    """All sequences that end within `limit` tokens, best first: [(score, tokens)]."""
    words = range(2, toy.table.shape[1])
    sequences = []
    for length in range(limit):
        for sequence in itertools.product(words, repeat=length):
            state, total, tokens = toy.next_state(row, settings.start), 0.0, (*sequence, EOS)
            for i, token in enumerate(tokens):
                total += following(toy, state, tokens[:i], settings, **options).get(token, -np.inf)
                state = toy.next_state(state, token)
            if total > -np.inf:
                sequences.append((total / penalty(length + 1, settings), tokens))
    return sorted(sequences, reverse=True)


def plain_beam(toy: Toy, row: int, limit: int, settings: BeamSettings, **options):
    """T5X's or HF's search in lists: [(score, tokens)], best first. It ends early only where that
    can change the result.
    """
    live, finished = [(0.0, (), toy.next_state(row, settings.start))], []
    for step in range(1, limit + 1):
        grown = []
        for total, tokens, state in live:
            now = following(toy, state, tokens, settings, **options)
            if step == limit and settings.search_style == "t5x":
                now = {EOS: toy.logprobs(state)[EOS]}
            for token, logprob in now.items():
                following_state = toy.next_state(state, token)
                grown.append((total + logprob, (*tokens, token), following_state))
        grown = sorted(grown, reverse=True)[: 2 * settings.beams]
        for rank, (total, tokens, _) in enumerate(grown):
            ended = tokens[-1] == EOS
            if settings.search_style == "hf":
                ended = (ended or step == limit) and rank < settings.beams
            if ended:
                finished.append((total / penalty(step, settings), tokens))
        live = [hypothesis for hypothesis in grown if hypothesis[1][-1] != EOS][: settings.beams]
        kept = sorted(finished, reverse=True)[: settings.beams]
        enough = settings.early_stopping == "unlikely" and len(kept) == settings.beams
        if enough and (not live or live[0][0] / penalty(step, settings) <= kept[-1][0]):
            break
    return sorted(finished, reverse=True)


def own_tokens(tokens) -> list:
    """Up to the end token, or up to the padding of a hypothesis that has none."""
    tokens = list(tokens)
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else [t for t in tokens if t]


def assert_same(hypotheses: decode.Hypotheses, expected, settings: BeamSettings) -> None:
    for row, best in enumerate(expected):
        expected_tokens = [list(tokens) for _, tokens in best[: settings.nbest]]
        assert [own_tokens(tokens) for tokens in hypotheses.tokens[row]] == expected_tokens
        scores = [score for score, _ in best[: settings.nbest]]
        np.testing.assert_allclose(hypotheses.scores[row], scores, rtol=1e-5)
        for rank, tokens in enumerate(expected_tokens):
            length, each = len(tokens), hypotheses.token_scores[row, rank]
            assert not hypotheses.tokens[row, rank, length:].any() and not each[length:].any()
            total = hypotheses.scores[row, rank] * penalty(length, settings)
            np.testing.assert_allclose(each.sum(), total, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.8, 3.0])
def test_a_beam_that_holds_everything_finds_the_best_of_all_sequences(alpha):
    toy, rows, limits = Toy(5), [10, 20, 30, 40], [4, 4, 3, 1]
    settings = BeamSettings(4, beams=27, alpha=alpha, nbest=1)
    hypotheses = toy.search(rows, limits, settings)
    expected = [exhaustive(toy, *row, settings) for row in zip(rows, limits, strict=True)]
    assert_same(hypotheses, expected, settings)


def test_nbest_of_a_beam_that_holds_everything_is_exhaustive():
    toy, settings = Toy(5), BeamSettings(4, beams=27, alpha=0.8, nbest=27)
    hypotheses = toy.search([10, 20], [4, 4], settings)
    assert_same(hypotheses, [exhaustive(toy, row, 4, settings) for row in (10, 20)], settings)


@pytest.mark.parametrize("alpha", [0.0, 0.8, 2.0])
@pytest.mark.parametrize("beams, nbest", [(2, 1), (4, 4), (5, 2)])
def test_equals_a_plain_search_without_early_exit(beams, nbest, alpha):
    toy = Toy(30, sharpness=2.0, seed=beams)
    rows, limits = list(range(100, 116)), [12] * 8 + [3, 4, 5, 6, 7, 8, 9, 10]
    settings = BeamSettings(12, beams=beams, alpha=alpha, nbest=nbest)
    expected = [plain_beam(toy, *row, settings) for row in zip(rows, limits, strict=True)]
    assert_same(toy.search(rows, limits, settings), expected, settings)


OPTIONS = {
    "len^2": {"penalty": "length", "alpha": 2.0},
    "bigrams": {"no_repeat_ngram": 2},
    "words": {"no_repeat_ngram": 1},
    "repetition": {"repetition_penalty": 1.7},
    "reward": {"repetition_penalty": 0.6},
    "hf": {"search_style": "hf", "penalty": "length", "alpha": 1.0},
    "unlikely": {"early_stopping": "unlikely"},
    "unlikely hf": {
        "early_stopping": "unlikely", "search_style": "hf", "penalty": "length", "alpha": 0.5,
    },
    "another start": {"start": 4, "no_repeat_ngram": 2, "repetition_penalty": 1.5},
    "all": {
        "no_repeat_ngram": 2, "repetition_penalty": 1.3, "penalty": "length", "search_style": "hf",
    },
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("beams, nbest", [(1, 1), (4, 4)])
def test_every_option_equals_a_plain_search(option, beams, nbest):
    toy = Toy(7, sharpness=2.0, seed=1)
    rows, limits = list(range(12)), [9] * 8 + [1, 2, 3, 6]
    settings = BeamSettings(9, beams=beams, nbest=nbest, **OPTIONS[option])
    expected = [plain_beam(toy, *row, settings) for row in zip(rows, limits, strict=True)]
    if beams == 1:  # the loop of lists goes on after the end, greedy search does not
        expected = [[greedy(toy, *row, settings)] for row in zip(rows, limits, strict=True)]
    enough = [len(best) >= nbest for best in expected]
    results = toy.search(rows, limits, settings)
    assert sum(enough) > 8
    keep = np.flatnonzero(enough)
    results = jax.tree.map(lambda leaf: leaf[keep], results)
    assert_same(results, [expected[i] for i in keep], settings)


@pytest.mark.parametrize("option", ["bigrams", "words", "repetition", "len^2", "another start"])
def test_every_option_is_exhaustive_with_a_beam_that_holds_everything(option):
    toy, rows, limits = Toy(5, seed=2), [1, 2, 3, 4], [4, 4, 3, 4]
    per_row = [{"least": 3}, {"prefix": (3, 2)}, {"least": 3, "prefix": (4,)}, {}]
    least = [options.get("least", 0) for options in per_row]
    prefixes = [options.get("prefix", ()) for options in per_row]
    settings = BeamSettings(4, beams=27, nbest=2, **OPTIONS[option])
    hypotheses = toy.search(rows, limits, settings, least=least, prefixes=prefixes)
    expected = [
        exhaustive(toy, row, limit, settings, **options)
        for row, limit, options in zip(rows, limits, per_row, strict=True)
    ]
    for row, options in enumerate(per_row):
        best = [own_tokens(tokens) for tokens in hypotheses.tokens[row]]
        assert all(len(tokens) >= options.get("least", 0) for tokens in best)
        assert all(tuple(t[: len(prefixes[row])]) == prefixes[row] for t in best)
    assert_same(hypotheses, expected, settings)


@pytest.mark.parametrize("search_style", ["t5x", "hf"])
@pytest.mark.parametrize("beams", [1, 3])
def test_prefix_and_least_length_in_a_plain_search(beams, search_style):
    toy = Toy(8, sharpness=2.0, seed=4)
    per_row = [{"prefix": (2 + i % 3,) * (i % 4), "least": i} for i in range(10)]
    settings = BeamSettings(11, beams=beams, search_style=search_style, no_repeat_ngram=2)
    hypotheses = toy.search(
        range(10), [11] * 10, settings,
        least=[options["least"] for options in per_row],
        prefixes=[options["prefix"] for options in per_row],
    )  # fmt: skip
    plain = greedy if beams == 1 else lambda *a, **b: plain_beam(*a, **b)[0]
    expected = [[plain(toy, row, 11, settings, **options)] for row, options in enumerate(per_row)]
    assert_same(hypotheses, expected, settings)


def greedy(toy: Toy, row: int, limit: int, settings: BeamSettings, **asked):
    state, tokens, total = toy.next_state(row, settings.start), (), 0.0
    while EOS not in tokens and len(tokens) < limit:
        now = following(toy, state, tokens, settings, **asked)
        if len(tokens) + 1 == limit and settings.search_style == "t5x":
            now = {EOS: toy.logprobs(state)[EOS]}
        token = max(now, key=now.__getitem__)
        tokens, total, state = (*tokens, token), total + now[token], toy.next_state(state, token)
    return total / penalty(len(tokens), settings), tokens


def test_an_early_end_can_miss_a_better_hypothesis():
    toy = Toy(30, sharpness=2.0)
    scores = {}
    for early_stopping in ("never", "unlikely"):
        settings = BeamSettings(30, beams=2, alpha=3.0, early_stopping=early_stopping)
        scores[early_stopping] = toy.search(range(60), [30] * 60, settings).scores[:, 0]
    better = scores["never"] - scores["unlikely"]
    assert (better >= 0).all() and 0 < (better > 0).sum() < 30


def test_without_an_allowed_token_a_hypothesis_ends():
    toy = Toy(4, seed=1)  # two words; no word twice, and at least nine
    settings = BeamSettings(12, beams=2, nbest=2, no_repeat_ngram=1)
    hypotheses = toy.search([1], [12], settings, least=[9])
    assert [len(own_tokens(tokens)) for tokens in hypotheses.tokens[0]] == [3, 3]


@pytest.mark.parametrize("early_stopping", ["never", "unlikely"])
def test_the_best_hypothesis_does_not_depend_on_nbest(early_stopping):
    toy, rows = Toy(30, sharpness=2.0), list(range(50, 60))
    options = {"beams": 4, "early_stopping": early_stopping}
    four = toy.search(rows, [15] * 10, BeamSettings(15, nbest=4, **options))
    single = toy.search(rows, [15] * 10, BeamSettings(15, nbest=1, **options))
    np.testing.assert_array_equal(single.tokens[:, 0], four.tokens[:, 0])
    np.testing.assert_array_equal(single.scores[:, 0], four.scores[:, 0])
    assert (np.diff(four.scores, axis=1) <= 0).all()


def test_one_beam_is_an_argmax_loop():
    toy, limits = Toy(30, sharpness=2.0, seed=3), [20, 20, 20, 20, 7, 1]
    hypotheses = toy.search(range(6), limits, BeamSettings(20, beams=1))
    for row, limit in enumerate(limits):
        state, expected, total = toy.next_state(row, 0), [], 0.0
        while EOS not in expected:
            logprobs = toy.logprobs(state)
            last = len(expected) + 1 == limit
            token = EOS if last else 1 + int(np.argmax(logprobs[1:]))
            expected.append(token)
            total += logprobs[token]
            state = toy.next_state(state, token)
        assert hypotheses.tokens[row, 0, : len(expected)].tolist() == expected
        assert not hypotheses.tokens[row, 0, len(expected) :].any()
        np.testing.assert_allclose(
            hypotheses.scores[row, 0], total / penalty(len(expected), BeamSettings(20)), rtol=1e-5
        )


@pytest.mark.parametrize("beams", [1, 4])
def test_a_row_does_not_depend_on_the_others(beams):
    toy, settings = Toy(30, sharpness=2.0), BeamSettings(24, beams=beams, nbest=beams)
    rows = np.arange(8)
    limits = np.array([24, 3, 24, 9, 24, 1, 24, 24])
    together = toy.search(rows, limits, settings)
    for row in rows:
        others = (rows + 100) * (rows != 4) + row * (rows == 4)
        mixed = toy.search(others, np.where(rows == 4, limits[row], limits[::-1]), settings)
        np.testing.assert_array_equal(mixed.tokens[4], together.tokens[row])
        np.testing.assert_array_equal(mixed.scores[4], together.scores[row])


def test_padding_is_never_produced_however_likely():
    toy = Toy(6)
    for pad in (0, 3):
        toy.table[:, pad] += 10
        hypotheses = toy.search([1, 2], [8, 8], BeamSettings(8, beams=3, nbest=3, pad=pad))
        for tokens in hypotheses.tokens.reshape(-1, 8):
            end = list(tokens).index(EOS)
            assert (tokens[:end] != pad).all() and (tokens[end + 1 :] == pad).all()
        assert (hypotheses.scores < -5).all()  # and keeps its share of the probability


def test_a_row_without_length_is_empty_and_costs_no_step():
    toy, settings = Toy(30), BeamSettings(5, beams=2, nbest=2)
    hypotheses = toy.search([1, 2, 3], [5, 0, 5], settings)
    assert (hypotheses.scores[1] == -np.inf).all()
    assert not hypotheses.tokens[1].any()
    assert np.isfinite(hypotheses.scores[[0, 2]]).all()
    state = decode.start((), limits=RowLimits(jnp.zeros(3, jnp.int32)), settings=settings)
    assert not decode.live_rows(state).any()


def test_slots_without_a_hypothesis_are_empty():
    hypotheses = Toy(3).search([1], [2], BeamSettings(2, beams=3, nbest=3))  # only: end, word end
    assert sorted(map(tuple, hypotheses.tokens[0].tolist())) == [(0, 0), (1, 0), (2, 1)]
    assert hypotheses.scores[0, 2] == -np.inf


def test_a_search_stops_once_no_better_hypothesis_is_possible():
    """After the end (p = 0.9) the other beam has log 0.1: at 64 tokens, 11.5 under the penalty."""
    logits = jnp.log(jnp.array([1e-9, 0.9, 0.1]))
    settings = BeamSettings(64, beams=2, alpha=0.8)
    state = decode.start((), limits=RowLimits(jnp.array([64, 64])), settings=settings)
    step_fn = lambda tokens, cache: (jnp.tile(logits, (len(tokens), 1)), cache)  # noqa: E731
    assert decode.extend(step_fn, state, settings=settings).step == 1
    greedy = BeamSettings(64, beams=1)
    state = decode.start((), limits=RowLimits(jnp.array([64, 64])), settings=greedy)
    assert decode.extend(step_fn, state, settings=greedy).step == 1


def test_decoding_in_segments_with_a_growing_cache_equals_one_search():
    toy, settings = Toy(30, sharpness=2.0), BeamSettings(12, beams=3, nbest=3)
    table = jnp.asarray(toy.table, jnp.float32)
    rows, limits = jnp.arange(5), jnp.full(5, 12)

    def step_fn(tokens, cache):  # the state anew from all tokens so far; rows at axis 0
        history, length = cache
        history = history.at[:, length].set(tokens)
        state = jnp.repeat(rows, 3)
        for position in range(history.shape[1]):
            moved = toy.next_state(state, history[:, position])
            state = jnp.where(position <= length, moved, state)
        return table[state], (history, length + 1)

    cache = (jnp.zeros((15, 0), jnp.int32), jnp.int32(0))
    state = decode.start(cache, limits=RowLimits(limits), settings=settings)
    for max_step in (4, 8, 12):
        history, length = state.cache
        history = jnp.pad(history, ((0, 0), (0, 4)))
        state = decode.extend(
            step_fn, state._replace(cache=(history, length)),
            settings=settings, max_step=max_step, batch_axis=0,
        )  # fmt: skip
    whole = toy.search(rows, limits, settings)
    np.testing.assert_array_equal(state.finished.tokens, whole.tokens)
    np.testing.assert_allclose(state.finished.scores, whole.scores, rtol=1e-6)
