"""COMET scores by its own command, for the languages of its encoder only."""

import os
import stat
import sys

import pytest

from eval import report
from eval.analyses import comet, update
from mmt.cli.main import main
from tests.eval.analyses.test_update import found, write

# The interface of unbabel-comet 2.2.7's comet-score; the score of a sentence is the share of its
# reference's characters that the translation has.
STAND_IN = """
import argparse, json, os
parser = argparse.ArgumentParser()
for name in ("-s", "-r", "--model", "--to_json"):
    parser.add_argument(name)
parser.add_argument("-t", nargs="+")
parser.add_argument("--only_system", action="store_true")
asked = parser.parse_args()
assert asked.model.endswith(".ckpt") and os.path.exists(asked.model)
read = lambda name: [line.strip() for line in open(name, encoding="utf-8").readlines()]
lines = list(zip(read(asked.s), read(asked.t[0]), read(asked.r), strict=True))
scores = [len(set(hyp) & set(ref)) / len(set(ref)) for _, hyp, ref in lines]
if os.environ.get("LESS"):
    scores.pop()
with open(asked.to_json, "w") as file:
    json.dump({asked.t[0]: [{"COMET": score} for score in scores]}, file)
with open(os.environ["CALLS"], "a") as file:
    print(len(lines), file=file)
raise SystemExit(int(os.environ.get("STATUS", 0)))
"""


@pytest.fixture
def model(tmp_path):
    """A checkpoint as COMET's authors lay it out."""
    path = tmp_path / "wmt99-comet/checkpoints/model.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    (tmp_path / "wmt99-comet/hparams.yaml").write_text("pretrained_model: xlm-roberta-large\n")
    return path


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A stand-in for the command on the PATH; returns a function that lists the lines scored per
    start.
    """
    command = tmp_path / "bin/comet-score"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\n{STAND_IN}")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    log = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(log))
    return lambda: [int(line) for line in log.read_text().split()] if log.exists() else []


@pytest.fixture
def file(tmp_path):
    """Two systems on two languages; XLM-R knows one of the languages."""
    path = tmp_path / "results/results.jsonl"
    for source, seed in (("deu_Latn", 1), ("cak_Latn", 2)):
        for system, kind, noise in (("moe", "multilingual", 0.1), ("bilingual", "bilingual", 0.5)):
            write(path, system, kind, noise, source=source, seed=seed)
    return path


def test_one_start_scores_all_that_the_encoder_knows(file, model, calls):
    assert comet.score([file], model) == (2, ["cak_Latn"])
    rows = {row.system: row for row in found(file, "comet")}
    assert set(rows) == {"moe", "bilingual"} and {row.source for row in rows.values()} == {
        "deu_Latn"
    }
    for system, row in rows.items():
        stem = update.stem(file, system, row.testset, row.source)
        sides = [stem.with_suffix(end).read_text().splitlines() for end in (".hyp", ".ref")]
        pairs = zip(*sides, strict=True)
        shares = [len(set(hyp) & set(ref)) / len(set(ref)) for hyp, ref in pairs]
        assert row.score == pytest.approx(sum(shares) / len(shares), abs=1e-6)
        assert row.model.startswith("wmt99-comet:")
    assert calls() == [120]


def test_what_has_its_score_is_not_scored_again(file, model, calls):
    comet.score([file], model)
    assert comet.score([file], model) == (0, ["cak_Latn"]) and len(calls()) == 1
    write(file, "moe", "multilingual", 0.3, seed=5)  # other texts
    assert comet.score([file], model)[0] == 1
    model.write_bytes(b"other weights")
    assert comet.score([file], model)[0] == 2 and calls() == [120, 60, 120]
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
    comet.score([file], model)
    other = tmp_path / "other/results.jsonl"
    write(other, "dense", "multilingual", 0.2, seed=7)
    model.write_bytes(b"other weights")
    comet.score([other], model)
    with pytest.raises(ValueError, match="COMET by different models"):
        report.report([file, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    report.report([file, other], tmp_path / "out", allow=["signatures"])


@pytest.mark.parametrize(("name", "value"), [("LESS", "1"), ("STATUS", "3")])
def test_a_command_that_fails_adds_nothing(file, model, calls, monkeypatch, name, value):
    before = list(file.parent.glob("*.jsonl")), file.read_bytes()
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="status 3|119 scores for 120"):
        comet.score([file], model)
    assert (list(file.parent.glob("*.jsonl")), file.read_bytes()) == before


def test_what_is_missing_is_named(file, model, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="comet-score is not on the PATH.*pip install"):
        comet.score([file], model)
    with pytest.raises(ValueError, match="Unbabel/wmt22-comet-da is no COMET checkpoint"):
        comet.name_of(tmp_path.joinpath("Unbabel/wmt22-comet-da").relative_to(tmp_path))
    settings = model.parent.parent / "hparams.yaml"
    settings.write_text("pretrained_model: bert-base-multilingual-cased\n")
    with pytest.raises(ValueError, match="'bert-base-multilingual-cased'; allowed: encoders"):
        comet.name_of(model)
    settings.write_text("- a list\n")
    with pytest.raises(ValueError, match=r"hparams\.yaml"):
        comet.name_of(model)
    settings.unlink()
    with pytest.raises(ValueError, match=r"no .*hparams\.yaml"):
        comet.name_of(model)
