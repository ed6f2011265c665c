"""What is read of a run: whole, being written, damaged, of an older version, without files."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from eval.compare import compared_run
from mmt.run import Run

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def test_a_run_of_an_older_version_is_read_whole(made_run):
    old, _ = compared_run.read([OLD / "toy", made_run("new")], ())
    assert old.name == "toy" and not old.faults
    assert old.notes == ("toy has no results.jsonl",)
    assert old.metrics.step == 80 and old.manifest.languages == ("deu_Latn", "fra_Latn", "swh_Latn")
    assert old.bindings["TRAIN_STEPS"].value == "80" and old.environment.device == "AMD EPYC core"


def test_scores_may_be_in_one_file_of_all_runs(made_run):
    file = OLD / "results.jsonl"
    old, new = compared_run.read([OLD / "toy", made_run("bilingual")], [file])
    assert [row.system for row in old.scores.rows] == ["toy"] * 3
    assert {row.checkpoint for row in new.scores.rows} == {
        "deu_Latn/80", "fra_Latn/80", "swh_Latn/40",
    }  # fmt: skip
    assert all(row.key in old.scores.counts for row in old.scores.rows)
    with pytest.raises(ValueError, match="no row of a, b; systems: bilingual, toy"):
        compared_run.read([made_run("a"), made_run("b")], [file])


def test_runs_of_equal_configuration_have_their_own_rows(made_run, tmp_path):
    """The rows of a run are found by its name, also if each run has a file of its own."""
    runs = [made_run(name, scores={"deu_Latn": 0.2}) for name in ("first", "second")]
    files = [Run(run).results for run in runs]
    digest = hashlib.sha256(Run(runs[0]).config.read_bytes()).hexdigest()[:12]
    for run, file in zip(runs, files, strict=True):
        Run(run).config.write_bytes(Run(runs[0]).config.read_bytes())
        file.write_text(file.read_text().replace('"config": "abc"', f'"config": "{digest}"'))
    for run in compared_run.read(runs, files):
        assert [row.system for row in run.scores.rows] == [run.name]
    files[1].write_text("")  # the second has no row, and takes none of the first
    _, second = compared_run.read(runs, files)
    assert not second.scores.rows
    assert "second has no row in its results; systems: first" in second.notes


def test_a_renamed_run_keeps_its_rows(made_run, tmp_path):
    first = made_run("first", scores={"deu_Latn": 0.2}, config="unlike")
    run = made_run("second", scores={"deu_Latn": 0.2})
    digest = hashlib.sha256(Run(run).config.read_bytes()).hexdigest()[:12]
    text = Run(run).results.read_text().replace('"config": "abc"', f'"config": "{digest}"')
    Run(run).results.write_text(text)
    moved = shutil.move(run, tmp_path / "third")
    _, third = compared_run.read([first, Path(moved)])
    assert len(third.scores.rows) == 1 and "third is called second in its results" in third.notes


def test_a_run_that_is_being_written_is_no_fault(made_run):
    runs = [made_run("a"), made_run("b")]
    with Run(runs[1]).metrics.open("a") as file:
        file.write('{"step": 300, "validation_lo')
    _, written = compared_run.read(runs)
    assert not written.faults and written.metrics.step == 200
    assert [note for note in written.notes if note.startswith("b is being written")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metrics.jsonl", '{"step": 1, "loss"\n{"step": 2}\n', "metrics.jsonl:1: no JSON"),
        ("config.gin", "A = 1\nB = [\n", "config.gin: line 3"),
        ("manifest.json", '{"name": ', "manifest.json:1: broken JSON"),
        ("manifest.json", '{"version": 7}', "has version 7, this program reads 1"),
        ("environment.json", "[]", "environment.json: "),
        ("environment.json", '{"device": "a", "devices": 1, "versions": [1]}', "versions by"),
        ("results.jsonl", '{"system": "b"}\n', "results.jsonl:1: missing key"),
        ("analysis.jsonl", '{"kind": "count"}\n', "analysis.jsonl:1: kind is 'count'"),
        ("results.jsonl", "\xff\n", "results.jsonl:1: no UTF-8"),
    ],
)
def test_a_damaged_file_is_a_fault_and_the_rest_is_read(name, content, message, made_run):
    runs = [made_run("a"), made_run("b", scores={"deu_Latn": 0.2})]
    (runs[1] / name).write_bytes(content.encode("latin-1"))
    _, damaged = compared_run.read(runs)
    (fault,) = damaged.faults
    assert message in fault and str(runs[1]) in fault
    assert bool(damaged.bindings) == (name != "config.gin")
    assert bool(damaged.manifest) == (name != "manifest.json")
    assert bool(damaged.scores.rows) == (name != "results.jsonl")


def test_directories_are_checked(made_run, tmp_path):
    run = made_run("a")
    with pytest.raises(ValueError, match="1 run: name two or more"):
        compared_run.read([run])
    with pytest.raises(ValueError, match="is given twice"):
        compared_run.read([run, run])
    with pytest.raises(ValueError, match="no such directory"):
        compared_run.read([run, tmp_path / "b"])
    (tmp_path / "c").mkdir()
    with pytest.raises(ValueError, match="is no run directory"):
        compared_run.read([run, tmp_path / "c"])
    other = tmp_path / "c" / "a"
    shutil.copytree(run, other)
    first, second = compared_run.read([run, other])
    assert (first.name, second.name) == (str(run), str(other))
    (tmp_path / "all.jsonl").write_text(json.dumps({}) + "\n")
    with pytest.raises(ValueError, match=r"all.jsonl:1: missing"):
        compared_run.read([run, other], [tmp_path / "all.jsonl"])
