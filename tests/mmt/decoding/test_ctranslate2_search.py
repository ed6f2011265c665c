"""CTranslate2 as an engine: hypotheses, scores and limits are those of our search."""

import dataclasses
import math

import numpy as np
import pytest

from mmt import checkpoint
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import read_manifest
from mmt.decoding import Decoding, ctranslate2_search
from mmt.decoding.ctranslate2_search import CTranslate2Model, CTranslate2Search
from mmt.model.transformer import parameter_shapes
from mmt.run import Run
from mmt.translate import Glossary, Translator, markup
from tests.helpers import hf_runs

LINES = ["Guten Tag, Welt", "eins zwei drei", "one", "Welt drei zwei eins Tag eins", "", "zwei"]


def decoding(**options):
    return Decoding(search_style="hf", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search_style": "t5x"}, r"search_style 't5x': the engine ctranslate2 .*search_style=hf"),
        ({"beam": 1, "temperature": 0.7}, r"temperature 0.7 .*--engine jax"),
        ({"repetition_penalty": 1.2}, r"repetition_penalty 1.2: .*--engine jax"),
    ],
)
def test_options_that_ctranslate2_lacks_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ctranslate2_search.check(Decoding(**({"search_style": "hf"} | options)))


@pytest.fixture(scope="module", autouse=True)
def one_core():
    """Tiny matrices are not worth a second thread, which waits for the first one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctranslate2_search.environment, "cores", lambda: 1)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A random model whose hypotheses end, with embeddings that have no piece."""
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    folder = tmp_path_factory.mktemp("search")
    return hf_runs.make_run(folder / "run", **hf_runs.VARIANTS["t5, tied"])


@pytest.fixture(scope="module")
def engine(run):
    return Translator.load(run, engine="ctranslate2")


def same(ours, theirs):
    """Checks that translations are equal, with scores to 1e-4; returns the number of hypotheses."""
    count = 0
    for a, b in zip(ours, theirs, strict=True):
        assert (a.text, len(a.hypotheses)) == (b.text, len(b.hypotheses))
        for x, y in zip(a.hypotheses, b.hypotheses, strict=True):
            assert x.tokens == y.tokens and x.score == pytest.approx(y.score, abs=1e-4)
            np.testing.assert_allclose(x.token_scores, y.token_scores, atol=2e-4)
            count += 1
    return count


def test_hypotheses_and_scores_are_those_of_jax(run, engine):
    lines, options = LINES[:3], decoding(beam=3, nbest=3, max_length_ratio=1.0)
    found = [
        list(each.translate(lines, decoding=options, token_scores=True))
        for each in (Translator.load(run, batch_size=4), engine)
    ]
    assert same(*found) == 9


@pytest.mark.parity
def test_long_hypotheses_and_alignments_are_those_of_jax(run, engine):
    ours, options = Translator.load(run), decoding(beam=4, nbest=4)
    found = [
        list(each.translate(LINES, decoding=options, token_scores=True)) for each in (ours, engine)
    ]
    assert same(*found) == 21  # the empty line has one
    aligned = [each.align([("eins zwei", "one two")])[0].weights for each in (ours, engine)]
    np.testing.assert_allclose(*aligned, atol=1e-5)


def test_sums_of_ctranslate2_are_the_scores_unless_tokens_need_scores(engine, monkeypatch):
    options = decoding(beam=3, nbest=2, max_length_ratio=1.0)
    exact = list(engine.translate(LINES, decoding=options, token_scores=True))
    monkeypatch.setattr(CTranslate2Search, "_token_scores", lambda *_: [])  # no second pass
    plain = list(engine.translate(LINES, decoding=options))
    for a, b in zip(exact, plain, strict=True):
        assert [x.tokens for x in a.hypotheses] == [y.tokens for y in b.hypotheses]
        for x, y in zip(a.hypotheses, b.hypotheses, strict=True):
            assert x.score == pytest.approx(y.score, rel=1e-3)  # without the pad token


def test_tags_are_placed_by_the_model_of_jax(engine):
    assert callable(engine.params)
    segments = [markup.parse("eins <b>zwei</b> drei")]
    options = decoding(beam=1, split="sentences", max_length_ratio=1.0)
    (found,) = markup.translate(engine, segments, decoding=options)
    (plain,) = engine.translate(["eins zwei drei"], decoding=options)
    (aligned,) = engine.align([(plain.source, plain.text)])
    assert found == markup.place_tags(segments[0], plain.text, aligned) and len(found.tags) == 2


def test_a_line_has_its_own_maximum_length_whatever_the_others_are(engine):
    options = decoding(beam=3, nbest=2, max_length_ratio=1.0, no_repeat_ngram=0)
    together = list(engine.translate(LINES, decoding=options))
    for line, found in zip(LINES, together, strict=True):
        alone = next(engine.translate([line], decoding=options))
        assert [h.tokens for h in alone.hypotheses] == [h.tokens for h in found.hypotheses]
        most = engine.source_tokens([line])[0]
        assert all(len(h.tokens) <= most for h in found.hypotheses)
    cut = [h for found in together for h in found.hypotheses if h.tokens[-1:] != ("</s>",)]
    assert cut  # some did not end


def test_options_bound_the_hypotheses(engine):
    lines = [line for line in LINES if line]
    lengths = [engine.source_tokens([line])[0] for line in lines]
    least = decoding(beam=3, nbest=3, min_length_ratio=1.5)
    for length, found in zip(lengths, engine.translate(lines, decoding=least), strict=True):
        assert found.hypotheses
        assert all(len(h.tokens) >= math.ceil(1.5 * length) for h in found.hypotheses)
    once = decoding(beam=3, no_repeat_ngram=1, max_length_ratio=1.0)
    for found in engine.translate(lines, decoding=once):
        (tokens,) = (h.tokens for h in found.hypotheses)
        assert len(set(tokens)) == len(tokens)
    prefixes = ["one", "", "two three", "", ""]
    for prefix, found in zip(
        prefixes, engine.translate(lines, prefixes=prefixes, token_scores=True), strict=True
    ):
        assert found.text.startswith(prefix)
        (best,) = found.hypotheses
        divisor = ((5 + len(best.tokens)) / 6) ** 0.8
        assert best.score == pytest.approx(sum(best.token_scores) / divisor, abs=1e-4)


def test_what_the_engine_lacks_is_refused_by_name(run, engine):
    with pytest.raises(ValueError, match="a glossary: the engine ctranslate2 does not have it"):
        engine.translate(LINES, glossary=Glossary.parse("eins\tone"))
    with pytest.raises(ValueError, match="prefix of 1 tokens; a translation of this line"):
        short = decoding(max_length_ratio=0.01, prefix="t")
        list(engine.translate(LINES, decoding=short))
    with pytest.raises(ValueError, match=r"weights 'int4' .* allowed: float32, int8"):
        CTranslate2Model.load(Run(run).ctranslate2([0]), "int4")


def test_int8_has_other_numbers_than_float32(run, engine):
    small = Translator.load(run, engine="ctranslate2", weights="int8")
    assert (engine.ctranslate2.weights, small.ctranslate2.weights) == ("float32", "int8")
    scores = [
        [line.hypotheses[0].score for line in each.translate(LINES)] for each in (engine, small)
    ]
    assert scores[0] != scores[1]


def test_parameters_that_are_not_numbers_are_named(tmp_path, run):
    broken = hf_runs.make_run(tmp_path / "run", **hf_runs.VARIANTS["t5, tied"])
    (broken / "checkpoints/0").rename(tmp_path / "unused")
    checkpoint.write_params(
        broken, parameter_shapes(Run(broken).model()),
        lambda _, shape: np.full(shape.shape, np.nan, np.float32),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"not a number \(NaN\)"):
        list(Translator.load(broken, engine="ctranslate2").translate(["eins"]))


@pytest.mark.parity
@pytest.mark.parametrize(
    "options", [{"relative_bias_per_layer": True}, {"mlp_activations": ("linear", "silu")}]
)
def test_other_models(options, tmp_path):
    pytest.importorskip("ctranslate2")
    run = hf_runs.make_run(tmp_path / "run", **options)
    greedy = decoding(beam=1)
    found = [
        list(Translator.load(run, **each).translate(LINES, decoding=greedy, token_scores=True))
        for each in ({}, {"engine": "ctranslate2"})
    ]
    assert same(*found) == 6


@pytest.mark.parity
def test_two_vocabularies(tmp_path):
    pytest.importorskip("ctranslate2")
    run = hf_runs.make_run(tmp_path / "run", target_vocab_size=290)
    config = run / "config.gin"
    text = config.read_text().replace("TARGET_VOCAB_SIZE = 0", "TARGET_VOCAB_SIZE = 290")
    config.write_text(text)
    (run / "vocabulary.model").rename(run / "vocabulary.source.model")
    target = run / "vocabulary.target.model"
    vocab.train(hf_runs.TEXTS, target, size=288, tags=[])
    known = vocab.Vocabulary.load(target)
    manifest = read_manifest(Run(run).manifest)
    dataclasses.replace(
        manifest,
        vocabulary_hash=manifest.vocabulary_hash | {"target": known.hash},
        vocabulary_size=manifest.vocabulary_size | {"target": known.size},
    ).write(run)
    found = [
        list(Translator.load(run, **each).translate(
            LINES, decoding=decoding(beam=1), token_scores=True))
        for each in ({}, {"engine": "ctranslate2"})
    ]  # fmt: skip
    assert same(*found) == 6


@pytest.fixture(scope="module")
def trained(dense_toy_run, toy_corpus):
    """A dense model that has learnt the toy corpus, and lines of the corpus."""
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    lines = {line.split("\t")[0] for path in sorted(toy_corpus.glob("test.*.tsv"))
             for line in path.read_text().splitlines()}  # fmt: skip
    return dense_toy_run, sorted(lines)


@pytest.mark.parity
def test_a_trained_model_translates_as_with_jax(trained, record_property):
    run, lines = trained
    ours = Translator.load(run, weights="float32")
    engine = Translator.load(run, engine="ctranslate2")
    for options in (
        decoding(), decoding(beam=1), decoding(beam=4, nbest=2, penalty="length", alpha=1.0),
        decoding(alpha=0.0), decoding(prefix="one"), decoding(no_repeat_ngram=3),
        decoding(min_length_ratio=0.5),
    ):  # fmt: skip
        pairs = [
            (a.hypotheses[0], b.hypotheses[0])
            for a, b in zip(
                ours.translate(lines, decoding=options), engine.translate(lines, decoding=options),
                strict=True,
            )
        ]  # fmt: skip
        equal = [(a, b) for a, b in pairs if a.tokens == b.tokens]
        gap = max(abs(a.score - b.score) for a, b in equal)
        measured = f"{len(equal)} of {len(pairs)} lines equal, scores to {gap:.1e}"
        record_property(f"engine ctranslate2, {options}", measured)
        # A model that wants to end gives the end token nearly all of the probability.
        least = 0.8 if options.min_length_ratio else 0.97
        exact = options.prefix or options.no_repeat_ngram or options.min_length_ratio
        assert len(equal) >= least * len(pairs) and gap < (1e-4 if exact else 2e-3)
    small = Translator.load(run, engine="ctranslate2", weights="int8")
    texts = [[line.text for line in each.translate(lines)] for each in (engine, small)]
    equal = sum(a == b for a, b in zip(*texts, strict=True))
    record_property("engine ctranslate2, int8", f"{equal} of {len(lines)} lines as in float32")
    assert equal >= 0.8 * len(lines)
