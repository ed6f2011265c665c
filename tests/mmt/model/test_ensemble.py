"""An ensemble's probabilities are the mean of its models', against numpy in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.decoding import Decoding
from mmt.model.ensemble import Members
from mmt.translate import scoring
from mmt.translate.placement import EnsembleMember
from tests.helpers.tiny_translator import make, train_vocabulary

LINES = ["eins zwei", "drei vier fünf sechs Montag", "elf", "zwölf, acht neun zehn. eins"]


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    """Translators; the second model has experts, and embeddings without a piece."""
    vocabulary = train_vocabulary(tmp_path_factory.mktemp("vocabulary"))
    return [make(vocabulary), make(vocabulary, seed=1, moe_period=1, spare=5)]


def together(translators, **changes):
    """One translator with the models of all."""
    first, *rest = translators
    others = tuple(EnsembleMember(each.model, each.params, "", ()) for each in rest)
    return dataclasses.replace(first, others=others, **changes)


def mean(translators, sources, inputs):
    """The logarithm of the mean probability of each piece, in float64."""
    pieces, total = translators[0].vocabularies["target"].size, 0.0
    for each in translators:
        logits = jax.jit(each.model.apply)({"params": each.params}, sources, inputs)
        exponents = np.exp(np.asarray(logits, np.float64)[..., :pieces])
        total = total + exponents / exponents.sum(axis=-1, keepdims=True)
    return np.log(total / len(translators))


def token_scores(translators, source, targets):
    """The scores of target tokens of a line, by `mean`."""
    vocabulary = translators[0].vocabularies["source"]
    sources = jnp.array([[*vocabulary.encode(f"<2eng> {source}"), 1]], jnp.int32)
    rows = mean(translators, sources, jnp.array([[0, *targets[:-1]]], jnp.int32))[0]
    return [row[token] for row, token in zip(rows, targets, strict=True)]


def test_probabilities_are_the_mean_token_by_token(translators):
    model, params = together(translators).combined()
    random, variables = np.random.default_rng(0), {"params": params}
    sources = jnp.asarray(random.integers(3, 300, (2, 6)), jnp.int32)
    inputs = jnp.asarray(random.integers(3, 300, (2, 5)), jnp.int32).at[:, 0].set(0)

    @jax.jit
    def decode(sources, inputs):
        encoded = model.apply(variables, sources, method="encode")
        cross_kv = model.apply(variables, encoded, sources, None, method="cross_kv")
        cache = model.apply(variables, 2, 5, 1, method="empty_cache")
        assert isinstance(cache, Members)
        rows = []
        for tokens in inputs.T:
            logits, cache = model.apply(variables, tokens, cross_kv, cache, method="decode_step")
            rows.append(logits)
        return jnp.stack(rows, axis=1)

    expected = mean(translators, sources, inputs)
    np.testing.assert_allclose(decode(sources, inputs), expected, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"nbest": 2}, pytest.param({"beam": 1}, marks=pytest.mark.slow)]
)
def test_a_search_maximises_the_mean(translators, options):
    """Rows of long lines wait for others and share a batch with them."""
    ensemble = together(translators, fixed_batch_size=False)
    decoding = Decoding(alpha=0.0, **options)
    found = list(ensemble.translate(LINES * 2, decoding=decoding, token_scores=True))
    alone = list(translators[0].translate(LINES, decoding=decoding))
    assert [line.text for line in found[:4]] != [line.text for line in alone]
    ids = {translators[0].vocabularies["target"].piece(i): i for i in range(360)}
    for line in found[2:5]:
        for hypothesis in line.hypotheses:
            tokens = [ids[piece] for piece in hypothesis.tokens]
            expected = token_scores(translators, line.source, tokens)
            np.testing.assert_allclose(hypothesis.token_scores, expected, atol=1e-4)
            assert hypothesis.score == pytest.approx(sum(expected), rel=1e-4)


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_any_model_may_route_by_language(translators, reverse):
    vocabulary = translators[0].vocabularies["source"]
    routed = make(vocabulary, seed=2, moe_period=1, languages=2)
    models = [routed, translators[0]][:: -1 if reverse else 1]
    ensemble = together(models)
    texts = [
        [line.text for line in ensemble.translate(LINES, source=code)] for code in ("de", "sw")
    ]
    assert texts[0] != texts[1]
    scores = [scoring.score(ensemble, [(LINES[0], "drei")], source=code) for code in ("de", "sw")]
    assert scores[0][0].score != scores[1][0].score
    with pytest.raises(ValueError, match="the source language is needed"):
        ensemble.translate(LINES)
    with pytest.raises(ValueError, match="has 3 languages .* its manifest 2"):
        config = dataclasses.replace(routed.model.config, languages=3)
        other = EnsembleMember(routed.model.clone(config=config), None, "", ())
        dataclasses.replace(translators[0], others=(other,))


def test_given_translations_have_the_mean_too(translators):
    (scored,) = scoring.score(together(translators), [(LINES[0], "drei vier")])
    targets = [*translators[0].vocabularies["target"].encode("drei vier"), 1]
    expected = token_scores(translators, LINES[0], targets)
    np.testing.assert_allclose(scored.token_scores, expected, atol=1e-4)


def test_a_model_with_itself_translates_as_alone(translators):
    alone = list(translators[1].translate(LINES, decoding=Decoding(nbest=2)))
    twice = list(together([translators[1]] * 2).translate(LINES, decoding=Decoding(nbest=2)))
    for expected, found in zip(alone, twice, strict=True):
        assert [h.text for h in found.hypotheses] == [h.text for h in expected.hypotheses]
        np.testing.assert_allclose(
            [h.score for h in found.hypotheses], [h.score for h in expected.hypotheses], rtol=1e-4
        )
