"""Caveats: what is missing, uneven or left out is reported with the languages concerned."""

import dataclasses

import numpy as np
import pytest

from eval import metrics
from eval.records import analysis
from eval.records.analysis_index import AnalysisIndex
from eval.report import caveats
from eval.report.comparison import compare
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import baseline, row, seven

NOTHING = AnalysisIndex([])


def said(rows, index=NOTHING, **allow) -> str:
    return " ".join(map(str, caveats.on(compare(rows, **allow)[0], index)))


def test_missing_baselines_are_counted_and_named():
    text = "3 of 7 languages have no bilingual baseline, so no ΔBLEU: Russian, Italian, Ukrainian."
    assert text in said(seven())
    assert "No language has a bilingual baseline" in said([row()])
    assert "no score of a multilingual system" in said([baseline()])


def test_baselines_without_a_multilingual_row_are_named():
    text = said([row(), baseline(), baseline(source="swh_Latn")])
    assert "No multilingual system has a score for 1 language with a baseline: Swahili." in text
    assert "multi has no score for 1 language: Swahili." in text


def test_several_rows_and_baselines_are_reported():
    text = said([row(checkpoint="multi/2"), row(checkpoint="multi/1")])
    note = "multi has several scores for 1 language; the last one in the file counts: German"
    assert note in text
    text = said([row(), baseline(bleu=30.0), row(system="big", kind="bilingual", bleu=40.0),
                 row(source="swh_Latn"), baseline(source="swh_Latn")])  # fmt: skip
    assert "2 bilingual systems (big, bilingual)" in text


def test_uneven_settings_are_reported():
    text = said([row(), row(source="swh_Latn", checkpoint="multi/2"), row(system="other"),
                 baseline(train_pairs=10, decode="beam:1|alpha:0")])  # fmt: skip
    assert "scores of multi have more than one checkpoint: multi/1 (1), multi/2 (1)" in text
    assert "baseline of 1 language was trained on a different number of pairs: German" in text
    assert "baseline of 1 language was decoded differently: German" in text
    assert "other has no score for 1 language: Swahili" in text


def test_rows_of_an_older_training_are_reported():
    older = [row(weights="f0"), row(source="fra_Latn", weights="f0"), row(source="ita_Latn")]
    text = said([*older, row(source="swh_Latn", weights="f1")])
    assert "The scores of multi have more than one hash of weights: f0 (2), f1 (1)." in text
    assert "more than one" not in said(older)


def test_systems_trained_on_other_numbers_of_pairs_are_reported():
    text = said([row(), row(system="other", train_pairs=7)])
    assert "different numbers of pairs of 1 language; the page shows the number of the" in text
    assert "different" not in said([row(), row(system="other")])


def about_outputs(rows, *, looping, matches):
    """Output checks and sentence counts of all rows, equal to those of the first, a good system's.
    """
    analyses = []
    for place, item in enumerate(rows):
        key = {name: getattr(item, name) for name in analysis.OutputChecks.about}
        shares = dict.fromkeys(("copies", "empty", "short", "long", "not_english"), 0.0)
        analyses.append(analysis.OutputChecks(
            **key, **shares, looping=looping if place else 0.0, recited=None, sentences=200,
            hypotheses="x",
        ))  # fmt: skip
        counts = np.tile([9, 9, 5, 3, 1, matches, 9, 8, 7, 6], (2, 1))
        analyses.append(analysis.SentenceCounts(
            **key, packed=metrics.packed(counts), sentences=2, hypotheses="x", references="y"
        ))  # fmt: skip
    return AnalysisIndex(analyses)


def test_broken_baselines_are_reported_also_with_the_answer():
    rows = [row(), baseline()]
    good = about_outputs(rows, looping=0.4, matches=1)
    assert "looping" not in said(rows, good) and caveats.doubts(compare(rows)[0], good) == ""
    bad = about_outputs(rows, looping=0.6, matches=0)
    text = said(rows, bad)
    assert "On 1 of 1 languages, at least half of the outputs of the baselines are copies" in text
    assert "BLEU says little: German" in text
    assert "outputs of multi have no correct 4-gram on 1 of 1 languages" in said(rows, bad)
    assert caveats.doubts(compare(rows)[0], bad) == (
        "However, on 1 of them, most outputs of the bilingual model are broken and on 1, neither "
        "model has a correct 4-gram (see Caveats)."
    )
    assert caveats.doubts(compare(rows)[0], NOTHING) == ""


def test_the_answer_is_given_without_broken_baselines_too():
    codes = ("deu_Latn", "fra_Latn", "swh_Latn")
    rows = [row(source=code, bleu=20.0 + n) for n, code in enumerate(codes)]
    rows += [baseline(source=code, bleu=19.5) for code in codes]
    (comparison,) = compare(rows)
    broken = about_outputs([rows[2], rows[5]], looping=0.6, matches=1)
    assert caveats.answer(comparison, broken) == (
        "multi is better than the bilingual model on 3 of 3 languages: +1.5 BLEU on average. "
        "However, on 1 of them, most outputs of the bilingual model are broken (see Caveats). "
        "Without this, multi is better on 2 of 2 languages: +1.0 BLEU on average."
    )


def test_the_answer_reports_baselines_decoded_otherwise():
    (comparison,) = compare([row(decode="beam=1"), baseline(decode="beam=4")])
    assert caveats.doubts(comparison, NOTHING).startswith(
        "However, on 1, the bilingual model was decoded differently (see"
    )


def test_irregularities_of_an_ablation_are_reported():
    rows = [
        row(system="T:1", sentences=80), row(system="T:5", sentences=80),
        row(system="T:5", sentences=80, bleu=3.0), row(system="T:1", source="swh_Latn"),
    ]  # fmt: skip
    text = said(rows)
    left_out = "1 of 2 languages are left out, because not all of its systems have them: Swahili."
    assert f"Ablation T: {left_out}" in text
    assert "Ablation T: 1 of 1 languages have fewer than 100 sentences" in text
    assert "Ablation T: T:5 has several scores for 1 language; the last one in the file" in text


def test_a_recipe_of_another_config_than_the_scores_is_reported():
    made = analysis.SystemRecipe(
        system="multi", config="other", text="A = 1\n", seed=0, versions={}, chosen=""
    )
    text = "The recipe of multi is of config other, but its scores are of"
    assert text in said([row()], AnalysisIndex([made]))
    same = dataclasses.replace(made, config=row().config)
    assert text not in said([row()], AnalysisIndex([same]))


@pytest.mark.parametrize(
    ("checkpoint", "losses", "noted"),
    [("2400", (3.0, 2.0), False), ("2000", (None, None), True), ("2000", (3.0, 2.0), True),
     ("2000", (None, 2.0), True), ("2000", (2.0, 3.0), False), ("2000", (2.0, None), False),
     ("2000+2400", (None, None), False), ("1000+2000", (None, None), True),
     ("imported", (None, None), False)],
    ids=["last", "old", "not the best", "not measured", "best", "the only one measured",
         "an average", "an old average", "no step"],
)  # fmt: skip
def test_rows_of_an_old_checkpoint_are_reported(checkpoint, losses, noted):
    rows, analyses = made_up(2, ("moe", "T:1"))
    trained = AnalysisIndex([
        dataclasses.replace(item, steps=2400) if item.kind == "cost" else
        dataclasses.replace(
            item, steps=(2000, 2400), tokens=(1.0, 2.0), seconds=(1.0, 2.0), loss=(1.0, 1.0),
            validation_loss=losses, bleu=(None, None),
        )
        for item in analyses if item.kind in ("cost", "curve")
    ])  # fmt: skip
    rows = [dataclasses.replace(item, checkpoint=f"{item.system}/{checkpoint}") for item in rows]
    text = said(rows, trained)
    for system in ("The scores of moe are", "Ablation T: The scores of T:1 are"):
        whole = f"{system} from step 2,000, its cost and curve from step 2,400."
        assert (whole in text) is noted
    assert "scores of bilingual" not in text and text.count("its cost and curve") == 2 * noted


def test_an_unknown_cost_of_a_parent_is_reported():
    rows, analyses = made_up(2, ("moe", "student", "T:1"))
    note = "The cost of student excludes that of moe, from which it started: moe has no cost row."
    assert note not in said(rows, AnalysisIndex(analyses))
    without = [item for item in analyses if (item.kind, item.system) != ("cost", "moe")]
    assert note in said(rows, AnalysisIndex(without))
    started = [
        dataclasses.replace(item, initial="int8") if (item.kind, item.system) == ("recipe", "T:1")
        else item for item in analyses
    ]  # fmt: skip
    text = "Ablation T: The cost of T:1 excludes that of int8, from which it started"
    assert text in said(rows, AnalysisIndex(started))


def test_few_sentences_are_reported_left_out_or_in():
    rows = [row(), row(source="swh_Latn", sentences=99)]
    assert "1 of 2 languages have fewer than 100 sentences; the means exclude them" in said(rows)
    assert "the means include them, as requested: Swahili" in said(rows, allow=["small"])
    assert "sentences" not in said([row()])


def test_what_was_allowed_is_reported():
    rows = [row(bleu_signature="a"), baseline(bleu_signature="b", sentences=150)]
    text = said(rows, allow=["signatures", "versions"])
    assert "BLEU has several signatures, as allowed: a (1 rows), b (1 rows)" in text
    assert "Versions of the test set are mixed, as allowed, for 1 language: German" in text


def test_missing_analyses_are_reported_by_kind_and_system():
    rows, analyses = made_up(3, ("moe",))
    notes = caveats.on(compare(rows)[0], AnalysisIndex(analyses))
    assert not [note for note in notes if "here " in note.text]
    code = compare(rows)[0].all.entries[0].language.code
    for kind, text in (
        ("interval", "There is no confidence interval for moe on 1 language"),
        ("guards", "There is no output check for moe on 1 language"),
        ("paired", "There is no significance test against the baseline for moe on 1 language"),
        ("overlap", "There is no overlap with the training English for moe on 1 language"),
        ("counts", "There is no micro mean (it needs n-gram counts) for moe on 1 language"),
    ):  # fmt: skip
        without_some = [item for item in analyses
                if (item.kind, item.system, getattr(item, "source", "")) != (kind, "moe", code)]
        assert len(without_some) == len(analyses) - 1
        assert text in said(rows, AnalysisIndex(without_some))
    for kind, text in (
        ("trust", "There are no grades of the test set."),
        ("overlap", "overlap with the training English was not measured (mmt report --corpus"),
    ):
        without = AnalysisIndex([item for item in analyses if item.kind != kind])
        assert text in said(rows, without)
    alone = AnalysisIndex([r for r in analyses if r.kind != "guards" or r.system != "moe"])
    assert "There are no output checks for moe." in said(rows, alone)
    bare = AnalysisIndex([r for r in analyses if r.kind != "counts" or r.system == "moe"])
    text = "There are no micro means (they need n-gram counts) for the baselines."
    assert text in said(rows, bare)


def test_a_significance_test_of_old_scores_counts_as_missing():
    rows, analyses = made_up(3, ("moe",))
    rows = [dataclasses.replace(r, bleu=r.bleu + (r.kind == "multilingual")) for r in rows]
    text = said(rows, AnalysisIndex(analyses))
    assert "no significance tests against the baseline for moe" in text


def test_intervals_of_old_scores_count_as_missing():
    rows, analyses = made_up(3, ("moe",))
    rows = [dataclasses.replace(r, bleu=99.0) if r.kind == "multilingual" else r for r in rows]
    assert "There are no confidence intervals for moe." in said(rows, AnalysisIndex(analyses))


def test_unknown_test_set_versions_are_counted():
    rows, analyses = made_up(3, ("moe",))
    rows = [dataclasses.replace(r, testset_version="1" if n else None)
            for n, r in enumerate(rows)]
    assert "The version of the test set is unknown for 1 of" in said(rows, AnalysisIndex(analyses))


@pytest.mark.parametrize("kind", ["cost", "curve", "recipe", "routing"])
def test_systems_without_rows_about_their_training_are_named(kind):
    _, analyses = made_up(3, ("dense", "moe"))
    whole = [item for item in analyses if item.system != "moe" or item.kind != kind]
    names = caveats.on_systems(["moe"], ["bilingual"], AnalysisIndex(whole))
    meaning = {"cost": "training cost", "curve": "training curve", "recipe": "recipe",
               "routing": "expert routing"}[kind]  # fmt: skip
    assert [str(note) for note in names if f"There is no {meaning} of moe" in note.text]
    assert not caveats.on_systems(["moe"], ["bilingual"], AnalysisIndex(analyses))
    (note,) = caveats.on_systems(["moe"], [], NOTHING)
    assert "no analysis.jsonl" in note.text


def test_notes_read_as_sentences():
    assert str(caveats.Note("Missing for 2", ("A", "B"))) == "Missing for 2: A, B."
    assert str(caveats.Note("Nothing")) == "Nothing."
