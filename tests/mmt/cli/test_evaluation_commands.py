"""Scores, tests and comparisons as typed: what is printed, and the exit status."""

import dataclasses
import json
import shutil
from pathlib import Path

from eval.records import analysis, results
from eval.records.behaviour import BehaviourShares
from eval.records.provenance import CorpusUses
from mmt import config
from mmt.cli.main import main
from mmt.convert import derived
from mmt.data.cache.manifest import read_manifest
from mmt.run import Run
from mmt.translate.comet import model
from tests.helpers import comet_command, hf_runs

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def test_compare_prints_what_differs_and_reports_damage(tmp_path, capsys):
    copy = shutil.copytree(OLD / "toy", tmp_path / "copy")
    for file in ("results.jsonl", "analysis.jsonl"):
        shutil.copy(OLD / file, copy)
    both = ["compare", str(OLD / "toy"), str(copy)]
    assert main([*both, "--format", "json", "--out", str(tmp_path / "page.html")]) == 0
    out, err = capsys.readouterr()
    content = json.loads(out)
    assert content["runs"] == ["toy", "copy"] and not content["configuration"]["different"]
    assert "copy is called toy in its results" in content["notes"]
    assert err.strip().endswith("page.html") and (tmp_path / "page.html").is_file()
    with Run(copy).metrics.open("a") as file:
        file.write('{"step": 90, "loss"\n')
    assert main(both) == 1  # not all could be compared
    out, err = capsys.readouterr()
    assert "Validation loss at equal steps" in out and "metrics.jsonl:13: no JSON" in err
    assert main([*both, "--out", str(tmp_path / "page.txt")]) == 1
    assert "expected FILE.html" in capsys.readouterr().err
    assert main(["compare", str(copy), str(copy)]) == 1
    assert "is given twice" in capsys.readouterr().err


def test_behave_is_a_gate_and_compares_two_models(tmp_path, capsys):
    runs = [shutil.copytree(OLD / "toy", tmp_path / name) for name in ("old", "new")]
    small = ["--languages", "de", "--beam", "1", "--gin.Suite.cases=2", "--gin.Suite.corpus="
             f"{str(OLD / 'numbers')!r}", "--gin.Suite.behaviours=['tiny', 'links']",
             "--gin.Decoding.keep_placeholders=False"]  # fmt: skip
    one = ["behave", "--model", str(runs[0])]
    assert main([*one, *small, "--show", "--gin.Suite.threshold=1.0"]) == 1
    out, err = capsys.readouterr()
    assert "| language | tiny | links | mean |" in out and "mmt behave: old: links: " in err
    assert "deu_Latn\tlinks\tlacks https://example.org/a?b=1\t" in out
    (row,) = analysis.read(runs[0] / "analysis.jsonl")
    assert row.origin == "numbers and CLDR" and "split:sentences" in row.decode
    assert "recase_capitals:True" in row.decode
    easy = ["--gin.Suite.threshold=0.0", "--gin.Suite.language_threshold=0.0"]
    assert main([*one, "--model", str(runs[1]), *small, *easy]) == 0
    out, err = capsys.readouterr()
    assert "| behaviour | cases | old | new |" in out and "0/0 sentences" in err
    for arguments, message in (
        (["--languages", "sweedish"], "unknown language 'sweedish'; nearest: Swedish"),
        (["--languages", ""], "unknown language ''"),
        (["--languages", "est"], "est_Latn (Estonian) is none of the 3"),
        (["--gin.Suite.behaviours=['link']"], "nearest: links"),
        (["--gin.Suite.threshold=2"], "Suite.threshold = 2; allowed: 0 to 1"),
        (["--gin.Suite.case=2"], "no such parameter; nearest: Suite.cases"),
        (["--gin.Suite.corpus='nowhere'"], "no test set 'nowhere'"),
        (["--model", str(runs[0])], "expected one, or two with other names"),
    ):
        assert main([*one, *arguments]) == 1
        assert message in capsys.readouterr().err


def test_an_ensemble_is_a_system_of_its_own(tmp_path, capsys):
    toy, other, out = OLD / "toy", tmp_path / "other", tmp_path / "results.jsonl"
    first = Run(toy)
    moved = {name: leaf * 1.1 for name, leaf in derived.parameters(first).items()}
    derived.write_run(first, other, (), read_manifest(first.manifest), moved)
    line = ["evaluate", "--model", str(toy), "--testset", str(OLD / "numbers"), "--beam", "1",
            "--languages", "deu", "--out", str(out)]  # fmt: skip
    assert main([*line, "--ensemble", str(other)]) == 0 and main(line) == 0
    together, alone = results.read_rows(out)
    assert (together.system, together.checkpoint) == ("toy+other", "toy/80, other/0")
    assert alone.system == "toy" and together.config != alone.config
    assert together.train_pairs == alone.train_pairs and together.kind == "multilingual"
    described = {row.system for row in analysis.read(tmp_path / "analysis.jsonl")
                 if isinstance(row, analysis.Cost)}  # fmt: skip
    assert described == {"toy"}
    capsys.readouterr()
    made = hf_runs.make_run(tmp_path / "made")
    for flags, message in (
        (["--engine", "ctranslate2"], "the engine ctranslate2 has no ensembles"),
        (["--ensemble", str(tmp_path / "none")], f"{tmp_path / 'none'}"),
        (["--ensemble", str(made)], "they differ in the source vocabulary"),
    ):
        assert main([*line, "--ensemble", str(other), *flags]) == 1
        assert message in capsys.readouterr().err
    bound = f"--gin.Translator.load.ensemble=['{other}']"
    behave = ["behave", *line[1:3], "--beam", "1", "--languages", "de", "--out", str(out), bound,
              "--gin.Suite.cases=1", "--gin.Suite.behaviours=['tiny']",
              f"--gin.Suite.corpus='{OLD / 'numbers'}'"]  # fmt: skip
    assert main(behave) in (0, 1)
    (tested,) = (row for row in analysis.read(tmp_path / "analysis.jsonl")
                 if isinstance(row, BehaviourShares))  # fmt: skip
    assert (tested.system, tested.checkpoint) == ("toy+other", "toy/80, other/0")
    copy = shutil.copytree(toy, tmp_path / "copy")
    assert main(["calibrate", "--model", str(copy), "--corpus", str(OLD / "numbers"), bound]) == 1
    assert "a calibration is that of one model" in capsys.readouterr().err
    assert not Run(copy).risk.exists()


def test_evaluate_adds_comet_for_the_languages_that_its_encoder_knows(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(model, "KNOWN", model.KNOWN - {"swh_Latn"})
    calls = comet_command.install(tmp_path, monkeypatch)
    comet_command.write_model(tmp_path / "da")
    out = tmp_path / "results.jsonl"
    line = ["evaluate", "--model", str(OLD / "toy"), "--testset", str(OLD / "numbers"), "--beam",
            "1", "--out", str(out), "--comet", str(tmp_path / "da")]  # fmt: skip
    line[1:1] = ["--languages", "deu,swh"]
    assert main([*line[:-1], str(tmp_path / "none")]) == 1 and not out.exists()
    assert "none is no COMET model" in capsys.readouterr().err
    assert main([*line, "--context", "1", "--contrastive"]) == 1
    assert "omit --comet" in capsys.readouterr().err
    assert main(line) == 0
    printed, err = capsys.readouterr()
    assert "COMET: 1 rows scored" in err and "on: swh_Latn" in err
    scores = {row.split("\t")[0]: row.split("\t")[3] for row in printed.splitlines()}
    stored = analysis.read(out.with_name("analysis.jsonl"))
    rows = {row.source: row.score for row in stored if isinstance(row, analysis.Comet)}
    assert rows.keys() == {"deu_Latn"} and len(calls()) == 1
    assert scores == {"swh_Latn": "-", "deu_Latn": f"{rows['deu_Latn']:.4f}"}


def test_evaluate_drops_corpora_of_languages_that_the_run_no_longer_has(tmp_path):
    file = tmp_path / "analysis.jsonl"
    zulu = CorpusUses(system="toy", source="zul_Latn", named=False, corpora=())
    analysis.add(file, [zulu, dataclasses.replace(zulu, system="other")])
    line = ["evaluate", "--model", str(OLD / "toy"), "--testset", str(OLD / "numbers"), "--beam",
            "1", "--languages", "deu", "--out", str(tmp_path / "results.jsonl")]  # fmt: skip
    assert main(line) == 0
    stored = [row for row in analysis.read(file) if isinstance(row, CorpusUses)]
    trained = read_manifest(Run(OLD / "toy").manifest).languages
    assert {row.source for row in stored if row.system == "toy"} == set(trained)
    assert [row.source for row in stored if row.system == "other"] == ["zul_Latn"]


def test_evaluate_is_into_the_target_of_the_model_and_again_with_other_weights(tmp_path):
    run = Run(hf_runs.make_run(tmp_path / "run", target="deu_Latn"))
    (tmp_path / "set").mkdir()
    for language in ("de", "fr"):
        (tmp_path / f"set/test.{language}").write_text("1\n2\n")
    line = ["evaluate", "--model", str(run.directory), "--testset", str(tmp_path / "set"), "--beam",
            "1"]  # fmt: skip
    try:
        assert main(line) == 0
        assert main([*line, "--gin.Translator.load.weights=int8"]) == 0
    finally:
        config.bind([], [])
    rows = results.read_rows(run.results)
    assert [(row.source, row.target) for row in rows] == [("fra_Latn", "deu_Latn")] * 2
    assert [row.decode.endswith("|weights:int8") for row in rows] == [False, True]
