"""Texts of a language: of the run's corpus and of CLDR; what is missing is said."""

import datetime
import shutil
from pathlib import Path

import pytest

from eval import testsets
from eval.behave import material
from mmt.data import cldr

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def of(code):
    return material.Material(code, "", (), cldr.speaker_of(code))


def test_numbers_are_three_or_more_and_half_in_digits_of_the_language():
    pairs = of("arb_Arab").numbers(10), of("npi_Deva").numbers(10), of("deu_Latn").numbers(10)
    native = [[not any(c in "0123456789" for c in pair.source) for pair in some] for some in pairs]
    assert sum(native[1]) == 5 and not any(native[2])
    for some in pairs:
        assert len({pair.source for pair in some}) == 10
        for pair in some:
            digits = [c for c in pair.english if c.isdigit()]
            assert int("".join(digits)) >= 3
    assert pairs == (of("arb_Arab").numbers(10), *pairs[1:])


def test_words_are_single_words_also_in_scripts_with_marks():
    for code in ("hin_Deva", "tam_Taml", "deu_Latn"):
        words = of(code).words(6)
        assert len(words) == 6 and all(" " not in pair.source for pair in words)
    assert material.is_word("हिन्दी") and not material.is_word("mun #3") and not material.is_word("")


def test_dates_are_written_by_cldr():
    for pair, day in of("fra_Latn").dates(5):
        assert pair.english == f"{day:%B} {day.day}, {day.year}"
        assert isinstance(day, datetime.date) and str(day.year) in pair.source


def test_languages_without_texts_are_named(capsys):
    testset = testsets.load(OLD / "numbers")
    made = material.materials(["deu_Latn", "cbk_Latn", "fin_Latn"], testset)
    assert [one.origin for one in made] == ["numbers and CLDR", "CLDR"]
    assert made[0].sentences and not made[1].sentences
    assert "neither CLDR nor numbers has cbk_Latn" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no cases: CLDR does not have cbk_Latn"):
        material.materials(["cbk_Latn"], None)


def test_the_corpus_of_a_run_is_found_or_missed_aloud(tmp_path, capsys):
    run = Path(shutil.copytree(OLD / "toy", tmp_path / "toy"))
    assert material.corpus_of(str(OLD / "numbers"), run).name == "numbers"
    (run / "config.gin").write_text("CORPUS = 'no/such/corpus'\n")
    assert material.corpus_of("", run) is None
    assert "only phrases of CLDR: no test set 'no/such/corpus'" in capsys.readouterr().err
    (run / "config.gin").write_text(f"CORPUS = '{OLD / 'numbers'}'\n")
    assert material.corpus_of("", run).name == "numbers"
    with pytest.raises(ValueError, match="no test set 'other'"):
        material.corpus_of("other", run)
    german = tmp_path / "corpus.toml"
    (tmp_path / "a.tsv").write_text("one\teins\n")
    german.write_text('target = "deu"\n[validation]\neng = "a.tsv"\n')
    with pytest.raises(ValueError, match="its target is deu_Latn; the suite needs eng_Latn"):
        material.corpus_of(str(german), run)


def test_the_order_does_not_depend_on_that_of_the_corpus():
    english = [f"{n} houses" for n in range(20)]
    for references in (english, english[::-1]):
        sentences = testsets.Sentences(("Häuser",) * 20, tuple(references))
        testset = testsets.TestSet("made up", "eng_Latn", {"deu_Latn": sentences})
        (made,) = material.materials(["deu_Latn"], testset)
        assert [pair.english for pair in made.sentences] == sorted(english)
