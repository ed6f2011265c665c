"""COMET scores by its own command, for the languages of its encoder only."""

import pytest

from eval import report
from eval.analyses import comet, update
from eval.records import results
from mmt.cli.main import main
from mmt.translate.comet import CometModel
from tests.eval.analyses.test_update import found, write
from tests.helpers import comet_command


@pytest.fixture
def model(tmp_path):
    """A checkpoint as COMET's authors lay it out."""
    return comet_command.write_model(tmp_path / "wmt99-comet")


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A stand-in for the command; returns a function that lists the lines scored per start."""
    return comet_command.install(tmp_path, monkeypatch)


@pytest.fixture
def file(tmp_path):
    """Two systems on two languages; XLM-R knows one of the languages."""
    path = tmp_path / "results/results.jsonl"
    for source, seed in (("deu_Latn", 1), ("cak_Latn", 2)):
        for system, kind, noise in (("moe", "multilingual", 0.1), ("bilingual", "bilingual", 0.5)):
            write(path, system, kind, noise, source=source, seed=seed)
    return path


def test_one_start_scores_all_that_the_encoder_knows(file, model, calls):
    assert comet.score([file], CometModel.find(model)) == (2, ["cak_Latn"])
    rows = {row.system: row for row in found(file, "comet")}
    assert set(rows) == {"moe", "bilingual"} and {row.source for row in rows.values()} == {
        "deu_Latn"
    }
    for row in rows.values():
        stem = update.stem(file, row)
        sides = [stem.with_suffix(end).read_text().splitlines() for end in (".hyp", ".ref")]
        pairs = zip(*sides, strict=True)
        shares = [len(set(hyp) & set(ref)) / len(set(ref)) for hyp, ref in pairs]
        assert row.score == pytest.approx(sum(shares) / len(shares), abs=1e-6)
        assert row.model.startswith("wmt99-comet:")
    assert calls() == [120]


def test_what_has_its_score_is_not_scored_again(file, model, calls):
    comet.score([file], CometModel.find(model))
    assert comet.score([file], CometModel.find(model)) == (0, ["cak_Latn"]) and len(calls()) == 1
    write(file, "moe", "multilingual", 0.3, seed=5)  # other texts
    assert comet.score([file], CometModel.find(model))[0] == 1
    model.write_bytes(b"other weights")
    assert comet.score([file], CometModel.find(model))[0] == 2 and calls() == [120, 60, 120]
    assert len(found(file, "comet")) == 2


def test_the_report_shows_it_and_names_systems_without_it(file, model, calls, tmp_path, capsys):
    flags = ["--out", str(tmp_path / "out"), "--comet", str(model), "--allow", "small"]
    assert main(["report", str(file), *flags]) == 0
    error = capsys.readouterr().err
    assert "2 rows scored" in error and "no score for 1 languages" in error
    page = (tmp_path / "out/report.html").read_text()
    score, name = next((r.score, r.model) for r in found(file, "comet") if r.system == "moe")
    assert f"{score:.3f}</td>" in page and f"COMET is {name}" in page
    lines = (tmp_path / "out/report.csv").read_text().splitlines()
    assert "moe COMET" in lines[0].split(",") and "baseline COMET" in lines[0].split(",")


def test_two_models_are_not_set_side_by_side(file, model, calls, tmp_path):
    comet.score([file], CometModel.find(model))
    other = tmp_path / "other/results.jsonl"
    write(other, "dense", "multilingual", 0.2, seed=7)
    model.write_bytes(b"other weights")
    comet.score([other], CometModel.find(model))
    with pytest.raises(ValueError, match="COMET by different models"):
        report.report([file, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    report.report([file, other], tmp_path / "out", allow=["signatures"])


@pytest.mark.parametrize(("name", "value"), [("LESS", "1"), ("STATUS", "3")])
def test_a_command_that_fails_adds_nothing(file, model, calls, monkeypatch, name, value):
    before = list(file.parent.glob("*.jsonl")), file.read_bytes()
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="status 3|119 scores for 120"):
        comet.score([file], CometModel.find(model))
    assert (list(file.parent.glob("*.jsonl")), file.read_bytes()) == before


def test_only_the_rows_that_are_asked_for_are_scored(file, model, calls):
    rows = [row for row in results.read_rows(file) if row.system == "moe"]
    assert comet.score([file], CometModel.find(model), only=rows) == (1, ["cak_Latn"])
    assert [row.system for row in found(file, "comet")] == ["moe"] and calls() == [60]
