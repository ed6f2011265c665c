"""Validation by BLEU: which steps, which languages; its rows are read in test_cli."""

import contextlib
import types

import pytest

from eval import testsets, validation
from eval.testsets.testset import Sentences


def test_only_every_period_and_at_the_end():
    hook = validation.ValidationBleu("no cache here", period=10)
    hook(types.SimpleNamespace(number=7, last=False))  # looks at nothing
    for number, last in ((10, False), (7, True)):
        with pytest.raises(ValueError, match="no cache"):
            hook(types.SimpleNamespace(
                number=number, last=last, program=types.SimpleNamespace(model=None),
                state=types.SimpleNamespace(params=None),
            ))  # fmt: skip


def test_settings_that_fail_at_the_first_validation_are_refused():
    with pytest.raises(ValueError, match="sentences is 0; allowed: 1 or more"):
        validation.ValidationBleu("no cache here", period=10, sentences=0)


@pytest.fixture
def translated(monkeypatch):
    """A hook of 5 languages, each of which takes 10 s, and the list of those it translated."""
    clock, requested = [0.0], []
    codes = [f"aa{letter}_Latn" for letter in "abcde"]
    sentences = Sentences(("a",), ("b",))
    testset = testsets.TestSet("made up", "eng_Latn", dict.fromkeys(codes, sentences))

    def translations(translator, testset):
        requested[-1] += testset.languages
        return dict.fromkeys(testset.languages, ["c"])

    def scores(testset, translations):
        clock[0] += 10.0
        return {code: float(codes.index(code) + 10 * len(requested)) for code in testset.languages}

    monkeypatch.setattr(validation.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(validation.evaluate, "validation_bleu", scores)
    monkeypatch.setattr(validation.evaluate, "validation_translations", translations)
    monkeypatch.setattr(validation.translate, "Translator", lambda *args, **kwargs: None)
    monkeypatch.setattr(validation.ValidationBleu, "_testset", testset)
    monkeypatch.setattr(validation.ValidationBleu, "_vocabularies", None)
    cache = types.SimpleNamespace(manifest=None)
    monkeypatch.setattr(validation.ValidationBleu, "_cache", cache)
    hook = validation.ValidationBleu("made up", period=10, sentences=128)
    rows = []
    log = types.SimpleNamespace(rows=lambda: rows, write=rows.append, say=lambda text: None)

    def call(number, seconds, last=False):
        clock[0] += seconds
        requested.append([])
        hook(types.SimpleNamespace(
            number=number, last=last, log=log, measured={},
            state=types.SimpleNamespace(params=None), program=types.SimpleNamespace(model=None),
            long_phase=lambda phase, total: contextlib.nullcontext(lambda *at, ask: None),
        ))  # fmt: skip
        return requested[-1], rows[-1]

    return call, codes


def test_the_languages_that_waited_longest_come_first(translated):
    """5 % of 400 s allow two languages of 10 s; 5 % of 20 s allow none, but one is always
    translated.
    """
    call, codes = translated
    assert call(10, 400.0)[0] == codes[:2]
    assert call(20, 20.0)[0] == codes[2:3]
    requested, row = call(30, 400.0)
    assert requested == codes[3:] and set(row["language_bleu"]) == set(codes[3:])
    assert row["samples"] == dict.fromkeys(codes[3:], [["a", "c", "b"]])
    assert row["bleu"] == (10 + 11 + 22 + 33 + 34) / 5  # the mean of the latest of each
    assert call(40, 400.0)[0] == codes[:2]
    requested, row = call(45, 1.0, last=True)
    assert sorted(requested) == codes and row["bleu"] == 52.0


def test_no_mean_before_every_language_has_a_score(translated):
    call, _ = translated
    assert "bleu" not in call(10, 400.0)[1]
