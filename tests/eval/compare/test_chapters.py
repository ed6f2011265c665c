"""What the comparison says, in tables and sentences."""

from eval import compare
from eval.compare.chapters import chapters, signed
from mmt.run import Run
from tests.eval.compare.conftest import add_scores


def made(*directories):
    return {chapter.title: chapter for chapter in chapters(compare.compare(directories))}


def test_each_part_has_its_chapter(made_run):
    first = made_run("a", scores={"deu_Latn": 0.4, "fra_Latn": 0.3}, losses={100: 2.0})
    other = made_run("b", dropout=0.2, codes=("deu_Latn", "wol_Latn"), losses={100: 1.5},
                     scores={"deu_Latn": 0.1, "wol_Latn": 0.3})  # fmt: skip
    found = made(first, other)
    assert list(found) == [
        "Runs", "Configuration", "Data and machines", "Training", "Scores: b against a",
        "Languages",
    ]  # fmt: skip
    pairs, losses = found["Languages"].tables
    assert pairs.rows == (
        ("fra_Latn", "100", "–"), ("swh_Latn", "100", "–"), ("wol_Latn", "–", "100"),
    )  # fmt: skip
    assert losses.columns == ("language", "a", "b", "Δ") and losses.rows[0][0] == "deu_Latn"
    settings = found["Configuration"]
    assert settings.sentences == ("1 binding differs, 2 equal.",)
    assert settings.tables[0].columns == ("binding", "a", "b")
    assert settings.tables[0].rows == (("DROPOUT_RATE", "0.1", "0.2"),)
    data = found["Data and machines"]
    assert "Only a has 2 languages (fra_Latn, swh_Latn)." in data.sentences
    assert "Only b has 1 language (wol_Latn)." in data.sentences
    scores = found["Scores: b against a"]
    summary, wins, table = scores.tables
    assert summary.columns[5:] == ("better ▲", "no difference =", "worse ▼")
    assert summary.rows[0][:3] == ("made-up", "beam:4", "1") and summary.rows[0][5:] == (*"100",)
    assert wins.columns[2:] == ("b", "a") and wins.rows[0][3] == "–"
    assert wins.rows[0][2].startswith("deu_Latn +") and wins.rows[0][2].endswith(" ▲")
    assert table.rows[0][0] == "deu_Latn" and table.rows[0][8] == "▲"
    assert scores.notes == (
        "made-up: not compared, b has no row: 1 language (fra_Latn-eng_Latn)",
        "made-up: not compared, a has no row: 1 language (wol_Latn-eng_Latn)",
    )


def test_differences_of_losses_are_shown_where_they_mean_something(made_run):
    runs = [
        made_run("a", losses={100: 2.0}), made_run("b", losses={100: 1.5}),
        made_run("c", losses={100: 1.5}, vocabulary="other"),
    ]  # fmt: skip
    training = made(*runs)["Training"]
    summary, steps, *_ = training.tables
    assert ("best validation loss", "2.0000 at step 100", *["1.5000 at step 100"] * 2) in (
        summary.rows
    )
    assert steps.columns == ("step", "a", "b", "c", "Δ b", "Δ c")
    assert steps.rows == (("100", "2.0000", "1.5000", "1.5000", "-0.5000", "–"),)
    assert any("target vocabularies" in note for note in training.notes)


def test_runs_without_scores_say_so(made_run):
    found = made(made_run("a"), made_run("b"), made_run("c"))
    (sentence,) = found["Scores: c against a"].sentences
    assert sentence.startswith("Neither run has scores") and "--results" in sentence
    one = made(made_run("d"), made_run("e", scores={"deu_Latn": 0.2}))["Scores: e against d"]
    assert one.sentences == ("No row of both runs can be compared.",)
    assert "not compared, d has no row: 1 language (deu_Latn" in one.notes[0]
    assert "a has no results.jsonl" in found["Runs"].notes


def test_rows_of_an_older_training_are_noted(made_run):
    first = made_run("a", scores={"deu_Latn": 0.4}, weights="f0")
    add_scores(Run(first), "fra_Latn", 0.2, weights="f1")
    (note,) = made(first, made_run("b", scores={"deu_Latn": 0.4, "fra_Latn": 0.2}))[
        "Scores: b against a"
    ].notes
    assert note.endswith("have more than one hash of weights: f0 (1), f1 (1)")


def test_published_models_have_neither_training_nor_machine(made_run):
    """Nothing is said of what neither has: no step 0, no property that is equal by its absence."""
    runs = [made_run("a", scores={"deu_Latn": 0.4}), made_run("b", corpus="another text")]
    for run in runs:
        (run / "metrics.jsonl").unlink()
        (run / "environment.json").unlink()
    found = made(*runs)
    assert "Machines: not known." in found["Data and machines"].sentences
    training = found["Training"]
    assert training.tables == training.sentences == ()
    assert [note.partition(":")[0] for note in training.notes] == [
        "validation losses are not compared at equal steps",
        "validation losses are not compared at equal target tokens",
    ]
    assert "b has no metrics.jsonl" in found["Runs"].notes


def test_signs():
    assert (signed(-0.004, 2), signed(0.0, 1), signed(-1.25, 1)) == ("0.00", "0.0", "-1.2")
