"""Example sentences: the lead's best and worst, with what is wrong; what is missing is said."""

import dataclasses

import pytest

from eval.analyses import update
from eval.records import analysis
from eval.records.analysis_index import AnalysisIndex
from eval.report import examples
from eval.report.comparison import compare
from tests.helpers.report_rows import baseline, row

LONG = "a sentence that is long enough to be shown, number"


def keep(folder, given, sources, outputs, references):
    """Puts kept texts of a row where `mmt evaluate` would."""
    stem = folder / given.system / given.testset / given.source
    stem.parent.mkdir(parents=True, exist_ok=True)
    for kind, lines in (("src", sources), ("hyp", outputs), ("ref", references)):
        if lines is not None:
            stem.with_name(f"{stem.name}.{kind}").write_text("".join(f"{x}\n" for x in lines))
    return folder


def interval_of(given, folder):
    """An interval as made from the kept texts of a row."""
    about = {name: getattr(given, name) for name in analysis.Interval.about}
    ends = {"bleu_low": 0.0, "bleu_high": 99.0, "chrf_low": 0.0, "chrf_high": 99.0}
    own = update.ScoredTexts(given, folder.with_name("results.jsonl")).hash
    return analysis.Interval(**about, **ends, resamples=9, seed=0, hypotheses=own)


def shown(rows, folder):
    return examples.examples(compare(rows)[0], dict.fromkeys(rows, folder), AnalysisIndex([]))


def test_best_typical_and_worst_by_the_lead(tmp_path):
    references = [f"{LONG} {n}" for n in range(5)]
    outputs = [references[0][:20], references[1], "", references[3][:40], references[4][:30]]
    lead, other = row(sentences=5, bleu=60.0), row(sentences=5, system="other")
    sources = [f"Satz {n}" for n in range(5)]
    keep(tmp_path, lead, sources, outputs, references)
    keep(tmp_path, other, sources, references[::-1], references)
    (found,), notes = shown([other, lead], tmp_path)
    assert not notes and found.entry.language.code == "deu_Latn"
    assert [one.rank for one in found.examples] == ["best", "typical", "worst", "worst"]
    assert [one.source for one in found.examples] == ["Satz 1", "Satz 4", "Satz 0", "Satz 2"]
    first = found.examples[0].outputs
    assert [output.system for output in first] == ["multi", "other"] and first[0].chrf == 100
    assert found.examples[-1].outputs[0].risks == ("empty",)
    chrf = [one.outputs[0].chrf for one in found.examples]
    assert chrf == sorted(chrf, reverse=True)


def test_what_is_wrong_is_said(tmp_path):
    lead = row(sentences=2)
    outputs = ["word " * 12, "Der Satz ist noch auf Deutsch, und er ist lang genug"]
    keep(tmp_path, lead, ["x", outputs[1]], outputs, [f"{LONG} 1", f"{LONG} 2"])
    (found,), _ = shown([lead], tmp_path)
    said = {one.source: one.outputs[0].risks for one in found.examples}
    assert "looping" in said["x"] and "a copy of the source" in said[outputs[1]]


def test_easy_short_lines_are_not_the_best(tmp_path):
    lead = row(sentences=3)
    references = ["Amen.", f"{LONG} 1", f"{LONG} 2"]
    keep(tmp_path, lead, None, ["Amen.", f"{LONG} 1", "no"], references)
    (found,), _ = shown([lead], tmp_path)
    assert "Amen." not in [one.reference for one in found.examples]
    assert found.examples[0].source is None


def test_what_is_missing_or_does_not_fit_is_said(tmp_path):
    kept, lone, uneven = row(sentences=2), row(source="swh_Latn"), row(source="zul_Latn")
    lines = [f"{LONG} 1", f"{LONG} 2"]
    keep(tmp_path, kept, lines, lines, lines)
    keep(tmp_path, uneven, lines, lines, lines)  # the row has 200 sentences
    rows = [kept, baseline(sentences=2), lone, uneven]
    found, notes = shown(rows, tmp_path)
    assert [one.entry.language.name for one in found] == ["German"]
    text = " ".join(map(str, notes))
    assert "are missing for 2: German, Swahili" in text
    assert "do not fit and are left out for 1: Zulu" in text


def test_texts_that_the_intervals_are_not_of_are_left_out(tmp_path):
    lead, lines = row(sentences=2), [f"{LONG} 1", f"{LONG} 2"]
    keep(tmp_path / "hypotheses", lead, lines, lines, lines)
    own = interval_of(lead, tmp_path / "hypotheses")
    other = dataclasses.replace(own, hypotheses="0" * 12)
    for made, left_out in ((own, False), (other, True)):
        folders = {lead: tmp_path / "hypotheses"}
        found, notes = examples.examples(compare([lead])[0], folders, AnalysisIndex([made]))
        assert bool(found) != left_out == bool(notes)


@pytest.mark.parametrize("kept", [True, False])
def test_without_texts_there_are_no_examples(tmp_path, kept):
    folders = {row(): tmp_path} if kept else {}
    found, (note,) = examples.examples(compare([row()])[0], folders, AnalysisIndex([]))
    assert not found and "no examples" in note.text
