"""Accuracies compare the likelihoods of the same texts with three contexts."""

import pytest

from eval import contrastive
from eval.contrastive import accuracy
from eval.records.contrastive import ContrastiveAccuracy
from eval.systems import System
from eval.testsets import Sentences, TestSet
from mmt.translate import Hypothesis
from tests.eval.contrastive.test_examples import DOCUMENTS, sentences
from tests.eval.records.test_contrastive import ROW
from tests.helpers.serving import echo_translator

SYSTEM = System("tiny", "multilingual", "tiny/5", "abc", {})


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A translator without parameters, for the lengths of texts."""
    return echo_translator(tmp_path_factory.mktemp("v") / "v.model", max_source_length=200)


def talks(documents=DOCUMENTS, target="eng_Latn", **others):
    return TestSet("talks", target, {"deu_Latn": sentences(*documents)} | others)


def test_the_reference_is_right_if_it_is_likelier_than_each_wrong_one(translator, monkeypatch):
    """A model that reads `Tür` as it and `Eva` as she, and else hopes for he."""

    def score(_, pairs, *, source, decoding):
        assert source == "deu_Latn" and decoding.alpha == 0
        liked = {"Tür": "it", "Eva": "she"}
        scores = []
        for source_text, target in pairs:
            word = next((word for noun, word in liked.items() if noun in source_text), "he")
            scores.append(float(word in target.rpartition("|||")[2].lower().split()))
        return [Hypothesis("", score) for score in scores]

    monkeypatch.setattr(accuracy.scoring, "score", score)
    ((she, it),) = contrastive.measure(translator, talks(DOCUMENTS[:5]), system=SYSTEM, lines=1)
    common = {"examples": 1, "in_context": 1, "without_context": 0, "other_context": 0,
              "gained": 1, "gained_over_other": 1}  # fmt: skip
    for row, phenomenon in ((she, "she"), (it, "it")):
        assert row == ContrastiveAccuracy(
            system="tiny", testset="talks", source="deu_Latn", target="eng_Latn",
            checkpoint="tiny/5", config="abc", context_lines=1, phenomenon=phenomenon, **common,
        )  # fmt: skip


def test_a_language_whose_examples_are_all_too_long_is_named(translator, monkeypatch, capsys):
    equal = lambda _, pairs, **__: [Hypothesis("", 0.0)] * len(pairs)  # noqa: E731
    monkeypatch.setattr(accuracy.scoring, "score", equal)
    lengthy = [(text and ("eins " * 300 + text[0], *text[1:])) for text in DOCUMENTS]
    testset = talks(fra_Latn=sentences(*lengthy))
    german, french = contrastive.measure(translator, testset, system=SYSTEM, lines=1)
    assert german and not french
    message = capsys.readouterr().err
    assert "examples of fra_Latn are too long" in message and "deu_Latn are" not in message


def test_examples_that_do_not_fit_are_counted(translator, monkeypatch):
    equal = lambda _, pairs, **__: [Hypothesis("", 0.0)] * len(pairs)  # noqa: E731
    monkeypatch.setattr(accuracy.scoring, "score", equal)
    lengthy = [*DOCUMENTS, (), ("eins " * 300, "Eva."), ("Sie geht.", "She goes.")]
    (rows,) = contrastive.measure(translator, talks(lengthy), system=SYSTEM, lines=1)
    too_long = {row.phenomenon: row.too_long for row in rows}
    # The last line itself, and those that have its context as that of another document.
    assert too_long == {"she": 1, "it": 0, "name": 2}
    assert not any(row.in_context for row in rows)  # equal likelihoods are not right


def test_references_that_do_not_fit_are_not_counted_as_wrong(translator, monkeypatch):
    """A text without a score is less likely than none, which says nothing about the model."""
    longest = accuracy.Decoding().longest(translator.max_source_length)

    def score(_, pairs, **__):
        lengths = map(len, translator.vocabularies["target"].encode_all([t for _, t in pairs]))
        assert all(length < longest for length in lengths)
        return [Hypothesis("", 0.0)] * len(pairs)

    monkeypatch.setattr(accuracy.scoring, "score", score)
    lengthy = [*DOCUMENTS, (), ("Eva.", "Eva " * 400), ("Sie geht.", "She goes.")]
    (rows,) = contrastive.measure(translator, talks(lengthy), system=SYSTEM, lines=1)
    assert {row.phenomenon: row.too_long for row in rows}["she"] == 1


def test_faults_are_named(translator):
    no_documents = Sentences(("ja",), ("It.",))
    with pytest.raises(ValueError, match="the documents of fra_Latn are unknown.* 1 of 2 lang"):
        contrastive.measure(translator, talks(fra_Latn=no_documents), system=SYSTEM, lines=1)
    with pytest.raises(ValueError, match="'talks' is into deu_Latn; allowed: eng_Latn"):
        contrastive.measure(translator, talks(target="deu_Latn"), system=SYSTEM, lines=1)
    with pytest.raises(ValueError, match="'talks' has no contrastive example that fits"):
        list(contrastive.measure(translator, talks(DOCUMENTS[:2]), system=SYSTEM, lines=1))


def test_the_table_tests_each_language_alone():
    assert contrastive.table([ROW]).splitlines() == [
        "language  phenomenon  examples  in context  without      p  other document     p",
        "deu_Latn  she               10        90.0     20.0  0.039            50.0  0.12",
        "deu_Latn  pronouns          10        90.0     20.0  0.039            50.0  0.12",
    ]
    lines = contrastive.table([ROW, *(ContrastiveAccuracy(**vars(ROW) | changes) for changes in (
        {"phenomenon": "name"}, {"source": "fra_Latn"},
    ))]).splitlines()  # fmt: skip
    assert [line.split()[:3] for line in lines[1:]] == [
        ["deu_Latn", "pronouns", "10"], ["deu_Latn", "names", "10"], ["fra_Latn", "pronouns", "10"],
        ["all", "she", "20"], ["all", "pronouns", "20"], ["all", "names", "10"],
    ]  # fmt: skip
    assert lines[-1].split()[3:] == ["90.0", "20.0", "50.0"]
