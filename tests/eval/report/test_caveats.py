"""Notes: what is missing, uneven or left out is said, with the languages that it is about."""

import dataclasses

import numpy as np
import pytest

from eval import metrics
from eval.records import analysis
from eval.records.analysis_index import Evidence
from eval.report import caveats
from eval.report.comparison import compare
from tests.eval.report.test_comparison import baseline, row, seven
from tests.helpers.made_up import made_up

NOTHING = Evidence([])


def said(rows, evidence=NOTHING, **allow) -> str:
    return " ".join(map(str, caveats.on(compare(rows, **allow)[0], evidence)))


def test_missing_baselines_are_counted_and_named():
    assert "3 of 7 languages: Russian, Italian, Ukrainian" in said(seven())
    assert "No language has a bilingual baseline" in said([row()])
    assert "no row of a multilingual system" in said([baseline()])


def test_baselines_without_a_multilingual_row_are_named():
    text = said([row(), baseline(), baseline(source="swh_Latn")])
    assert "baseline without a row of any multilingual system for 1: Swahili" in text
    assert "No row of multi for 1: Swahili" in text


def test_several_rows_and_baselines_are_said():
    text = said([row(checkpoint="multi/2"), row(checkpoint="multi/1")])
    assert "Several rows of multi, of which the last one in the file counts, for 1: German" in text
    text = said([row(), baseline(bleu=30.0), row(system="big", kind="bilingual", bleu=40.0),
                 row(source="swh_Latn"), baseline(source="swh_Latn")])  # fmt: skip
    assert "2 bilingual systems (big, bilingual)" in text


def test_unevenness_is_said():
    text = said([row(), row(source="swh_Latn", checkpoint="multi/2"), row(system="other"),
                 baseline(train_pairs=10, decode="beam:1|alpha:0")])  # fmt: skip
    assert "Rows of multi differ in checkpoint: multi/1 for 1, multi/2 for 1" in text
    assert "another number of training pairs for 1: German" in text
    assert "another decoding for 1: German" in text
    assert "No row of other for 1: Swahili" in text


def test_systems_trained_on_other_numbers_of_pairs_are_said():
    text = said([row(), row(system="other", train_pairs=7)])
    assert "their number of training pairs; shown is the first one's, for 1: German" in text
    assert "differ" not in said([row(), row(system="other")])


def about_outputs(rows, *, looping, matches):
    """Guards and counts of all rows alike; of the first, a good system's."""
    found = []
    for place, one in enumerate(rows):
        key = {name: getattr(one, name) for name in analysis.Guards.about}
        shares = dict.fromkeys(("copies", "empty", "short", "long", "not_english"), 0.0)
        found.append(analysis.Guards(
            **key, **shares, looping=looping if place else 0.0, recited=None, sentences=200,
            hypotheses="x",
        ))  # fmt: skip
        counts = np.tile([9, 9, 5, 3, 1, matches, 9, 8, 7, 6], (2, 1))
        found.append(analysis.Counts(
            **key, packed=metrics.packed(counts), sentences=2, hypotheses="x", references="y"
        ))  # fmt: skip
    return Evidence(found)


def test_baselines_that_are_broken_are_said_and_with_the_answer():
    rows = [row(), baseline()]
    good = about_outputs(rows, looping=0.4, matches=1)
    assert "looping" not in said(rows, good) and caveats.doubts(compare(rows)[0], good) == ""
    bad = about_outputs(rows, looping=0.6, matches=0)
    assert "Half of the outputs of the baselines or more are copies" in said(rows, bad)
    assert "BLEU says little, for 1 of 1: German" in said(rows, bad)
    assert "Not one 4-gram in the outputs of multi is right" in said(rows, bad)
    assert caveats.doubts(compare(rows)[0], bad) == (
        "But on 1 most outputs of the bilingual model are broken and on 1 neither has one 4-gram "
        "right: see what is missing or uneven."
    )
    assert caveats.doubts(compare(rows)[0], NOTHING) == ""


def test_the_answer_is_given_without_broken_baselines_too():
    codes = ("deu_Latn", "fra_Latn", "swh_Latn")
    rows = [row(source=code, bleu=20.0 + n) for n, code in enumerate(codes)]
    rows += [baseline(source=code, bleu=19.5) for code in codes]
    (found,) = compare(rows)
    broken = about_outputs([rows[2], rows[5]], looping=0.6, matches=1)
    assert caveats.answer(found, broken) == (
        "multi is better than the bilingual model on 3 of 3: +1.5 BLEU on average. But on 1 most "
        "outputs of the bilingual model are broken: see what is missing or uneven. Apart from it, "
        "multi is better on 2 of 2: +1.0 BLEU on average."
    )


def test_an_answer_says_that_baselines_were_decoded_otherwise():
    (found,) = compare([row(decode="beam=1"), baseline(decode="beam=4")])
    assert caveats.doubts(found, NOTHING).startswith(
        "But on 1 the bilingual model was decoded otherwise: see"
    )


def test_what_is_odd_in_an_ablation_is_said_too():
    rows = [
        row(system="T:1", sentences=80), row(system="T:5", sentences=80),
        row(system="T:5", sentences=80, bleu=3.0), row(system="T:1", source="swh_Latn"),
    ]  # fmt: skip
    text = said(rows)
    assert "Ablation T: Not all of it have 1 of 2 languages, left out: Swahili." in text
    assert "Ablation T: 1 of 1 languages have fewer than 100 sentences" in text
    assert "Ablation T: Several rows of T:5, of which the last one in the file counts" in text


def test_a_recipe_of_another_config_than_the_scores_is_told():
    made = analysis.Recipe(
        system="multi", config="other", text="A = 1\n", seed=0, versions={}, chosen=""
    )
    told = "The recipe shown of multi is of config other, its scores are of"
    assert told in said([row()], Evidence([made]))
    same = dataclasses.replace(made, config=row().config)
    assert told not in said([row()], Evidence([same]))


@pytest.mark.parametrize(
    ("checkpoint", "losses", "told"),
    [("2400", (3.0, 2.0), False), ("2000", (None, None), True), ("2000", (3.0, 2.0), True),
     ("2000", (None, 2.0), True), ("2000", (2.0, 3.0), False), ("2000", (2.0, None), False),
     ("2000+2400", (None, None), False), ("1000+2000", (None, None), True),
     ("imported", (None, None), False)],
    ids=["last", "old", "not the best", "not measured", "best", "the only one measured",
         "an average", "an old average", "no step"],
)  # fmt: skip
def test_rows_of_an_old_checkpoint_are_told(checkpoint, losses, told):
    rows, found = made_up(2, ("moe", "T:1"))
    trained = Evidence([
        dataclasses.replace(one, steps=2400) if one.kind == "cost" else
        dataclasses.replace(
            one, steps=(2000, 2400), tokens=(1.0, 2.0), seconds=(1.0, 2.0), loss=(1.0, 1.0),
            validation_loss=losses, bleu=(None, None),
        )
        for one in found if one.kind in ("cost", "curve")
    ])  # fmt: skip
    rows = [dataclasses.replace(one, checkpoint=f"{one.system}/{checkpoint}") for one in rows]
    text = said(rows, trained)
    for system in ("The rows of moe are", "Ablation T: The rows of T:1 are"):
        whole = f"{system} of step 2,000, its cost and curve of step 2,400."
        assert (whole in text) is told
    assert "rows of bilingual" not in text and text.count("its cost and curve") == 2 * told


def test_few_sentences_are_said_left_out_or_in():
    rows = [row(), row(source="swh_Latn", sentences=99)]
    assert "1 of 2 languages have fewer than 100 sentences; they are shown but left" in said(rows)
    assert "count in the means, as was asked for: Swahili" in said(rows, allow=["small"])
    assert "sentences" not in said([row()])


def test_what_was_allowed_is_said():
    rows = [row(bleu_signature="a"), baseline(bleu_signature="b", sentences=150)]
    text = said(rows, allow=["signatures", "versions"])
    assert "Signatures are mixed, as was allowed: a for 1 rows, b for 1 rows" in text
    assert "Versions of the test set are mixed, as was allowed, for 1: German" in text


def test_missing_analysis_is_said_by_kind_and_system():
    rows, found = made_up(3, ("moe",))
    assert not [n for n in caveats.on(compare(rows)[0], Evidence(found)) if "No " in n.text]
    code = compare(rows)[0].all.entries[0].language.code
    for kind, text in (
        ("interval", "No interval row of moe with these scores for 1"),
        ("guards", "No guards row of moe for 1"),
        ("paired", "No paired row of moe against the baseline with these scores for 1"),
        ("overlap", "No overlap row of moe for 1"),
        ("counts", "No counts row of moe with these scores, and so no micro mean, for 1"),
    ):  # fmt: skip
        kept = [one for one in found
                if (one.kind, one.system, getattr(one, "source", "")) != (kind, "moe", code)]
        assert len(kept) == len(found) - 1 and text in said(rows, Evidence(kept))
    for kind in ("trust", "overlap"):
        without = Evidence([one for one in found if one.kind != kind])
        assert f"No {kind} rows." in said(rows, without)
    alone = Evidence([one for one in found if one.kind != "guards" or one.system != "moe"])
    assert "No guards rows of moe." in said(rows, alone)
    bare = Evidence([one for one in found if one.kind != "counts" or one.system == "moe"])
    text = "No counts rows of the baselines with these scores, and so no micro mean."
    assert text in said(rows, bare)


def test_an_old_test_of_other_scores_is_missing():
    rows, found = made_up(3, ("moe",))
    rows = [dataclasses.replace(r, bleu=r.bleu + (r.kind == "multilingual")) for r in rows]
    assert "No paired rows of moe against the baseline with these" in said(rows, Evidence(found))


def test_intervals_of_other_scores_are_missing():
    rows, found = made_up(3, ("moe",))
    rows = [dataclasses.replace(r, bleu=99.0) if r.kind == "multilingual" else r for r in rows]
    assert "No interval rows of moe with these scores." in said(rows, Evidence(found))


def test_versions_that_are_not_known_are_counted():
    rows, found = made_up(3, ("moe",))
    rows = [dataclasses.replace(r, testset_version="1" if n else None)
            for n, r in enumerate(rows)]
    assert "Of which version of the test set 1 rows" in said(rows, Evidence(found))


@pytest.mark.parametrize("kind", ["cost", "curve", "recipe", "routing"])
def test_systems_without_rows_about_their_training_are_named(kind):
    _, found = made_up(3, ("dense", "moe"))
    whole = [one for one in found if one.system != "moe" or one.kind != kind]
    names = caveats.on_systems(["moe"], ["bilingual"], Evidence(whole))
    assert [str(note) for note in names if f"No {kind} row of moe" in note.text]
    assert not caveats.on_systems(["moe"], ["bilingual"], Evidence(found))
    (note,) = caveats.on_systems(["moe"], [], NOTHING)
    assert "no analysis.jsonl" in note.text


def test_notes_read_as_sentences():
    assert str(caveats.Note("Missing for 2", ("A", "B"))) == "Missing for 2: A, B."
    assert str(caveats.Note("Nothing")) == "Nothing."
