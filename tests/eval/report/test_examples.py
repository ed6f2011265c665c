"""Example sentences: the primary system's best and worst with their faults; missing texts are
reported.
"""

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
    stem = update.stem(folder / "results.jsonl", given)
    stem.parent.mkdir(parents=True, exist_ok=True)
    for kind, lines in (("src", sources), ("hyp", outputs), ("ref", references)):
        if lines is not None:
            stem.with_name(f"{stem.name}.{kind}").write_text("".join(f"{x}\n" for x in lines))
    return folder


def interval_of(given, folder):
    """An interval as made from the kept texts of a row."""
    about = {name: getattr(given, name) for name in analysis.Interval.about}
    ends = {"bleu_low": 0.0, "bleu_high": 99.0, "chrf_low": 0.0, "chrf_high": 99.0}
    texts = update.ScoredTexts(given, folder / "results.jsonl").hash
    return analysis.Interval(**about, **ends, resamples=9, seed=0, hypotheses=texts)


def shown(rows, folder):
    files = dict.fromkeys(rows, folder / "results.jsonl")
    return examples.examples(compare(rows)[0], files, AnalysisIndex([]))


def test_best_typical_and_worst_by_the_primary_system(tmp_path):
    references = [f"{LONG} {n}" for n in range(5)]
    outputs = [references[0][:20], references[1], "", references[3][:40], references[4][:30]]
    best_system, other = row(sentences=5, bleu=60.0), row(sentences=5, system="other")
    sources = [f"Satz {n}" for n in range(5)]
    keep(tmp_path, best_system, sources, outputs, references)
    keep(tmp_path, other, sources, references[::-1], references)
    (chosen,), notes = shown([other, best_system], tmp_path)
    assert not notes and chosen.entry.language.code == "deu_Latn"
    assert [example.rank for example in chosen.examples] == ["best", "typical", "worst", "worst"]
    sources = [example.source for example in chosen.examples]
    assert sources == ["Satz 1", "Satz 4", "Satz 0", "Satz 2"]
    first = chosen.examples[0].outputs
    assert [output.system for output in first] == ["multi", "other"] and first[0].chrf == 100
    assert chosen.examples[-1].outputs[0].risks == ("empty",)
    chrf = [example.outputs[0].chrf for example in chosen.examples]
    assert chrf == sorted(chrf, reverse=True)


def test_faults_of_an_output_are_named(tmp_path):
    system = row(sentences=2)
    outputs = ["word " * 12, "Der Satz ist noch auf Deutsch, und er ist lang genug"]
    keep(tmp_path, system, ["x", outputs[1]], outputs, [f"{LONG} 1", f"{LONG} 2"])
    (chosen,), _ = shown([system], tmp_path)
    risks = {example.source: example.outputs[0].risks for example in chosen.examples}
    assert "looping" in risks["x"] and "a copy of the source" in risks[outputs[1]]


def test_easy_short_lines_are_not_the_best(tmp_path):
    system = row(sentences=3)
    references = ["Amen.", f"{LONG} 1", f"{LONG} 2"]
    keep(tmp_path, system, None, ["Amen.", f"{LONG} 1", "no"], references)
    (chosen,), _ = shown([system], tmp_path)
    assert "Amen." not in [example.reference for example in chosen.examples]
    assert chosen.examples[0].source is None


def test_missing_or_unequal_texts_are_reported(tmp_path):
    whole, lone, uneven = row(sentences=2), row(source="swh_Latn"), row(source="zul_Latn")
    lines = [f"{LONG} 1", f"{LONG} 2"]
    keep(tmp_path, whole, lines, lines, lines)
    keep(tmp_path, uneven, lines, lines, lines)  # the row has 200 sentences
    rows = [whole, baseline(sentences=2), lone, uneven]
    chosen, notes = shown(rows, tmp_path)
    assert [each.entry.language.name for each in chosen] == ["German"]
    text = " ".join(map(str, notes))
    assert "are missing for 2: German, Swahili" in text
    assert "do not fit and are left out for 1: Zulu" in text


def test_texts_that_the_intervals_are_not_of_are_left_out(tmp_path):
    system, lines = row(sentences=2), [f"{LONG} 1", f"{LONG} 2"]
    keep(tmp_path, system, lines, lines, lines)
    interval = interval_of(system, tmp_path)
    other = dataclasses.replace(interval, hypotheses="0" * 12)
    for made, left_out in ((interval, False), (other, True)):
        files = {system: tmp_path / "results.jsonl"}
        chosen, notes = examples.examples(compare([system])[0], files, AnalysisIndex([made]))
        assert bool(chosen) != left_out == bool(notes)


@pytest.mark.parametrize("directory", [True, False])
def test_without_texts_there_are_no_examples(tmp_path, directory):
    files = {row(): tmp_path / "results.jsonl"} if directory else {}
    chosen, (note,) = examples.examples(compare([row()])[0], files, AnalysisIndex([]))
    assert not chosen and "no examples" in note.text
