"""The part on corpora: what rows say, and what is said to be missing."""

import dataclasses

import pytest

from eval import report
from eval.records import analysis, results
from eval.records.analysis_index import AnalysisIndex
from eval.report import cells, corpora
from tests.eval.records.test_provenance import BOOKS, EFFECT, GERMAN, SWAHILI, WEB
from tests.helpers.report_rows import by_heading, row

ROWS = [row(), row(system="without:web", checkpoint="without:web/1")]
GROUP = dataclasses.replace(EFFECT, source="", languages=2, bleu=1.25, bleu_low=0.5)
ONLY = dataclasses.replace(EFFECT, source="swh_Latn", group="only", bleu=9.5, bleu_high=12.0)


def part(*rows):
    (made,) = corpora.parts(AnalysisIndex(rows), ROWS)
    return made


def notes(made):
    return " ".join(map(str, made.notes))


def test_totals_are_sums_over_languages():
    made = part(GERMAN, SWAHILI)
    web, books = (by_heading(made.totals, place) for place in (0, 1))
    assert (web["Corpus"], web["Languages"], web["Pairs kept"], web["Pairs read"]) == (
        "web", 2, 79, 200,
    )  # fmt: skip
    assert web["Dropped for overlap"].value == 18 and web["Dropped by rules"].value == 42
    assert web["Dropped for overlap"].tooltip == (
        "overlap: numbers test + flores 10, overlap: flores 8"
    )
    assert (web["Examples seen"], web["Share"]) == (1400, 1400 / 1700)
    assert (web["Training loss"], books["Training loss"]) == ("2.500", "1.500")
    assert books["Dropped by rules"] == "not cleaned" and books["Pairs read"] is None
    rules = by_heading(made.rules, 0)
    assert rules == {"Corpus": "web", "Dropped by overlap": 18, "Dropped by ratio": 42,
                     "Changed by normalise": 6}  # fmt: skip


def test_each_language_and_corpus_has_its_effect():
    made = part(GERMAN, SWAHILI, EFFECT, GROUP, ONLY)
    rows = [by_heading(made.languages, place) for place in range(3)]
    assert [(row["Language"], row["Corpus"]) for row in rows] == [
        ("German", "web"), ("German", "books"), ("Swahili", "web"),
    ]  # fmt: skip
    assert rows[0]["Gives BLEU"] == cells.Estimate(3.5, cells.ConfidenceInterval(2.25, 4.75))
    assert rows[1]["Gives BLEU"] is None and rows[2]["Gives BLEU"].value == 9.5
    assert (rows[0]["Share of the language"], rows[0]["Epochs"]) == (0.7, 10.0)
    (effect,) = [by_heading(made.effects, place) for place in range(len(made.effects.rows))]
    assert effect["Have it and others BLEU"].value == 1.25
    assert effect["Have it and others languages"] == 2
    assert "Without web, no training data remain: Swahili." in notes(made)
    assert "was not measured" not in notes(made)


def test_what_is_missing_is_said():
    text = notes(part(GERMAN))
    assert "Overlap with flores: 9 training pairs were removed, listed in numbers-1/" in text
    assert "Corpora without cleaning rules were not compared with test sets" in text
    assert "was not measured" in text and "names no corpora" not in text
    unknown = dataclasses.replace(BOOKS, examples=None, loss=None, tokens=None)
    old = dataclasses.replace(GERMAN, named=False, corpora=(unknown,))
    text = notes(part(old))
    assert "names no corpora" in text and "the run counted none" in text
    by_language = dataclasses.replace(BOOKS, loss=None, tokens=None)
    text = notes(part(dataclasses.replace(GERMAN, corpora=(WEB, by_language))))
    assert "loss of some corpora is not known" in text and "German" in text


def test_an_effect_of_other_checkpoints_is_not_shown():
    made = part(GERMAN, dataclasses.replace(EFFECT, against_checkpoint="without:web/0"))
    assert not made.effects.rows and "Effects of other checkpoints" in notes(made)


def test_a_file_of_a_glob_has_the_effect_of_the_glob():
    of_file = dataclasses.replace(GERMAN, corpora=(dataclasses.replace(WEB, corpus="web/a.tsv"),))
    made = part(of_file, EFFECT)
    assert by_heading(made.languages, 0)["Gives BLEU"].value == 3.5


@pytest.mark.parametrize("system", ["without:web", "not_scored"])
def test_ablations_and_systems_without_scores_have_no_part(system):
    rows = [dataclasses.replace(GERMAN, system=system), GERMAN]
    assert [made.system for made in corpora.parts(AnalysisIndex(rows), ROWS)] == ["multi"]


@pytest.mark.parametrize("suffix", ["html", "md"])
def test_the_report_has_the_section(tmp_path, suffix):
    results.add_rows(tmp_path / "results.jsonl", ROWS)
    analysis.add(tmp_path / "analysis.jsonl", [GERMAN, SWAHILI, EFFECT, GROUP, ONLY])
    report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    text = (tmp_path / f"out/report.{suffix}").read_text()
    listed = "numbers-1/overlap.tsv.zst"
    for word in ("Corpora", "What each corpus gives", "not cleaned", listed, "+3.50"):
        assert word in text, word
