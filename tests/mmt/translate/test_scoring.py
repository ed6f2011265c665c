"""Scores of given translations are the model's own. tests/mmt/cli compares them with a search's."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.decoding import Decoding
from mmt.translate import scoring
from tests.helpers.tiny_translator import make, train_vocabulary

PAIRS = [("eins zwei", "drei"), ("vier", "elf zwölf fünf Montag"), ("fünf", ""), ("", "sechs")]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return train_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def translator(vocabulary):
    return make(vocabulary, spare=3, batch_size=2, moe_period=1)


def test_token_scores_are_those_of_single_rows(vocabulary, translator):
    apply = jax.jit(translator.model.apply)
    scored = scoring.score(translator, PAIRS, decoding=Decoding(alpha=0.0))
    for (source, target), found in zip(PAIRS, scored, strict=True):
        ids = [*vocabulary.encode(f"<2eng> {source}"), 1], [*vocabulary.encode(target), 1]
        sources, targets = (jnp.array([each], jnp.int32) for each in ids)
        inputs = jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]
        logits = np.asarray(apply({"params": translator.params}, sources, inputs), np.float64)
        rows = logits[0, :, : vocabulary.size]
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        expected = [rows[i, token] for i, token in enumerate(ids[1])]
        np.testing.assert_allclose(found.token_scores, expected, rtol=1e-4)
        assert found.score == pytest.approx(sum(expected), rel=1e-4)
        assert found.text == target and found.tokens[-1] == "</s>"


def test_a_score_is_divided_by_the_length_penalty(translator):
    """Equation 14 of Wu et al. 2016, and Hugging Face's."""
    divisors = {"gnmt": lambda n: ((5 + n) / 6) ** 0.6, "length": lambda n: n**0.6}
    for penalty, divisor in divisors.items():
        decoding = Decoding(alpha=0.6, penalty=penalty)
        for found in scoring.score(translator, PAIRS, decoding=decoding):
            total = math.fsum(found.token_scores)
            assert found.score == pytest.approx(total / divisor(len(found.tokens)), rel=1e-6)


def test_a_score_does_not_depend_on_other_pairs(translator):
    together = scoring.score(translator, PAIRS)
    assert together == [scoring.score(translator, [pair])[0] for pair in PAIRS]
    assert scoring.score(translator, []) == []


def test_few_long_pairs_share_a_batch_if_the_vocabulary_is_large(translator, monkeypatch):
    expected = scoring.score(translator, PAIRS)
    one_row = 16 * translator.model.config.target_vocabulary
    monkeypatch.setattr(scoring, "_MAX_LOGITS", one_row)
    assert scoring._rows(translator, 16) == scoring._rows(translator, 32) == 1
    for found, each in zip(scoring.score(translator, PAIRS), expected, strict=True):
        assert found.score == pytest.approx(each.score, rel=1e-5) and found.tokens == each.tokens


def test_pairs_that_do_not_fit_have_no_score(translator):
    longest = translator.max_source_length
    pairs = [("eins " * longest, "eins"), ("eins", "eins " * (2 * longest + 16)), PAIRS[0]]
    line, translation, fitting = scoring.score(translator, pairs)
    assert math.isnan(line.score) and math.isnan(translation.score)
    assert not line.tokens and not translation.token_scores and fitting.score < 0
    links = scoring.word_links(translator, pairs, [line, translation, fitting])
    assert links[:2] == [[], []] and [target for _, target in links[2]] == [0]


def test_languages_are_checked(vocabulary, translator):
    with pytest.raises(ValueError, match="fra"):
        scoring.score(translator, PAIRS, source="fra")
    routed = make(vocabulary, languages=2, moe_period=1)
    with pytest.raises(ValueError, match="the source language is needed"):
        scoring.score(routed, PAIRS)
    german, swahili = (scoring.score(routed, PAIRS, source=code) for code in ("deu", "swh"))
    assert all(a.score != b.score for a, b in zip(german, swahili, strict=True))
