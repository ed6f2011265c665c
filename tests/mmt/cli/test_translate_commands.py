"""`mmt translate --in` writes what `mmt translate` prints, and its flags are checked."""

import fcntl
import functools
import io
import json
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from mmt.cli.main import main
from mmt.system import lock
from tests.helpers import bulk_lines, comet_command

OLD = Path(__file__).resolve().parents[2] / "data/old_run"
MIX150 = Path(__file__).resolve().parents[3] / "benchmarks/mix150/model"
TEXT = "eins zwei\n\ndrei vier null\nmoja mbili\nun deux\n"


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """The working directory, with a folder of two files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.de").write_text(TEXT)
    (tmp_path / "texts/b.de").write_text("null\n")
    return tmp_path / "texts"


def typed(flags, stdin, monkeypatch, capsys):
    """The status, stdout and stderr of `mmt translate`."""
    stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    status = main(["translate", "--model", str(OLD / "toy"), *flags.split()])
    return status, *capsys.readouterr()


def test_files_hold_what_stdout_would(texts, tmp_path, monkeypatch, capsys):
    """With --nbest, lines are numbered by file, though shards have two lines."""
    flags = "--beam 2 --nbest 2 --weights float32 --from de"
    status, printed, _ = typed(flags, TEXT, monkeypatch, capsys)
    assert status == 0 and printed.count("\n") == 2 * TEXT.count("\n") - 1  # one of an empty line
    bulk = f"{flags} --in texts --out en --shard_lines 2"
    status, _, err = typed(f"{bulk} --step 7", "", monkeypatch, capsys)
    assert status == 1 and "checkpoints/7; there are: 80" in err
    status, out, err = typed(bulk, "", monkeypatch, capsys)
    assert (status, out) == (0, "en/a.de\nen/b.de\n"), err
    assert (tmp_path / "en/a.de").read_text() == printed
    assert (tmp_path / "en/b.de").read_text().startswith("0 ||| ")
    assert sorted(path.name for path in (tmp_path / "en").iterdir()) == [
        "a.de", "b.de", "translation.json"
    ]  # fmt: skip
    recipe = json.loads((tmp_path / "en/translation.json").read_text())
    assert recipe["decoding"] == (
        "beam:2|alpha:0.8|early_stopping:unlikely|nbest:2|split:sentences|keep_placeholders:True"
        "|recase_capitals:True"
    )
    assert recipe["model"] == str(OLD / "toy") and recipe["weights"] == "float32"
    status, _, err = typed(bulk.replace("de --in", "fr --in"), "", monkeypatch, capsys)
    assert status == 1 and "another recipe (from: 'de' there, 'fr' requested)" in err


def test_an_ensemble_is_part_of_the_recipe_of_files(texts, tmp_path, monkeypatch, capsys):
    other = shutil.copytree(OLD / "toy", tmp_path / "other")
    bulk = "--beam 1 --weights float32 --from de --in texts --out en"
    status, _, err = typed(f"{bulk} --ensemble {other}", "", monkeypatch, capsys)
    assert status == 0, err
    (member,) = json.loads((tmp_path / "en/translation.json").read_text())["ensemble"]
    assert member["model"] == str(other) and member["steps"] == [80]
    alone = typed("--beam 1 --weights float32 --from de", TEXT, monkeypatch, capsys)[1]
    assert (tmp_path / "en/a.de").read_text() == alone  # a model and its copy
    assert typed(bulk, "", monkeypatch, capsys)[0] == 1
    for flags, message in (
        ("--risk", "calibrated for one model"),
        ("--corpus cldr --out new", "--ensemble are not for --corpus"),
    ):
        status, _, err = typed(f"{flags} --ensemble {other}", "", monkeypatch, capsys)
        assert status == 1 and message in err
    bound = f"--gin.Translator.load.ensemble=['{other}']"
    status, _, err = typed(f"--corpus {OLD / 'numbers'} --out new {bound}", "", monkeypatch, capsys)
    assert status == 1 and "translated by one model; omit Translator.load.ensemble" in err


def test_a_bound_checkpoint_is_part_of_the_recipe_of_files(texts, tmp_path, monkeypatch, capsys):
    run = shutil.copytree(OLD / "toy", tmp_path / "toy")
    shutil.copytree(run / "checkpoints/80", run / "checkpoints/40")
    bulk = f"--model {run} --beam 1 --weights float32 --in texts --out en"
    for step in (40, 80):
        shutil.rmtree(tmp_path / "en", ignore_errors=True)
        flags = f"{bulk} --gin.Translator.load.step={step}"
        status, _, err = typed(flags, "", monkeypatch, capsys)
        assert status == 0, err
        assert json.loads((tmp_path / "en/translation.json").read_text())["steps"] == [step]
    status, _, err = typed(f"{bulk} --gin.Translator.load.step=40", "", monkeypatch, capsys)
    assert status == 1 and "steps: [80] there, [40] requested" in err


def test_a_folder_in_use_is_refused(texts, tmp_path, monkeypatch, capsys):
    (tmp_path / "en").mkdir()
    with open(tmp_path / "en" / lock.FILE, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        status, _, err = typed("--in texts --out en", "", monkeypatch, capsys)
    assert status == 1 and "en is in use by another run" in err
    assert [path.name for path in (tmp_path / "en").iterdir()] == [lock.FILE]


@pytest.mark.slow
def test_a_killed_command_is_resumed(tmp_path):
    lines = bulk_lines.write_lines(tmp_path / "a.de", 3000)
    out, shards = tmp_path / "out/a.de", tmp_path / "out/.shards/a.de"
    command = [
        sys.executable, "-m", "mmt.cli", "translate", "--model", OLD / "toy", "--beam", "1",
        "--weights", "float32",
    ]  # fmt: skip
    bulk = [*command, "--in", tmp_path / "a.de", "--out", tmp_path / "out", "--shard_lines", "100"]
    with subprocess.Popen(bulk, stderr=subprocess.DEVNULL) as process:
        while len(list(shards.glob("*-of-000030"))) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    kept = {path.name: path.stat().st_mtime_ns for path in shards.glob("*-of-000030")}
    assert 2 <= len(kept) < 30 and not out.exists()
    with subprocess.Popen(bulk, stderr=subprocess.DEVNULL) as process:
        last = shards / f"{len(kept):06}-of-000030"
        while not last.exists() and not out.exists():
            assert process.poll() is None
            time.sleep(0.001)
        times = {name: (shards / name).stat().st_mtime_ns for name in kept if not out.exists()}
    assert process.returncode == 0 and times.items() <= kept.items()
    single = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    translations = dict(zip(lines, single, strict=True))
    expected = [translations[line] for line in (tmp_path / "a.de").read_text().splitlines()]
    assert out.read_text().splitlines() == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--in texts", "--in FILES needs --out DIR"),
        ("--in texts --out en --corpus c", "not --file, --corpus or --overwrite"),
        ("--shard_lines 5", "--shard_lines belongs to --in FILES --out DIR"),
        ("--out en --beam_runner DirectRunner", "--beam_runner belongs to --in"),
        ("--in texts --out en --pipeline_options=--a=b", "belongs to --beam_runner"),
        ("--in texts/a.d --out en", "texts/a.d: no such file; nearest: a.de"),
        ("--in texts --out texts", "would be written to texts/a.de, which is an input"),
        ("--in texts --out en --from Germn", "unknown language 'Germn'"),
        ("--in texts --out en --beam 2 --nbest 3", "3-best of beam size 2"),
        ("--in texts --out en --risk", "mmt calibrate"),
        ("--in texts --out en --glossary no.tsv", "no.tsv"),
        (f"--in texts --out en --ensemble {MIX150}", "they differ in the source vocabulary"),
        (f"--in texts --out en --engine ctranslate2 --ensemble {OLD / 'toy'}", "no ensembles"),
    ],
)
def test_faults_are_found_before_anything_is_written(
    flags, message, texts, tmp_path, monkeypatch, capsys
):
    status, _, err = typed(flags, "", monkeypatch, capsys)
    assert status == 1 and message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts"]
    assert sorted(path.name for path in texts.iterdir()) == ["a.de", "b.de"]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A stand-in for COMET's command, and the models `kiwi` and `da`."""
    comet_command.write_model(tmp_path / "kiwi", "referenceless_regression_metric")
    comet_command.write_model(tmp_path / "da", "regression_metric")
    return comet_command.install(tmp_path, monkeypatch)


def test_the_translation_of_highest_neural_score_is_printed(
    calls, texts, tmp_path, monkeypatch, capsys
):
    flags = "--beam 4 --weights float32 --from de"
    _, hypotheses, _ = typed(f"{flags} --nbest 4", TEXT, monkeypatch, capsys)
    by_line: dict[int, list[str]] = {}
    for row in hypotheses.splitlines():
        number, text, _ = row.split(" ||| ")
        by_line.setdefault(int(number), []).append(text)
    expected = [
        max(by_line[i], key=functools.partial(comet_command.quality, line))
        for i, line in enumerate(TEXT.splitlines())
    ]
    rerank = f"{flags} --rerank kiwi"
    status, printed, err = typed(rerank, TEXT, monkeypatch, capsys)
    assert (status, printed.splitlines()) == (0, expected), err
    assert printed.splitlines() != [by_line[i][0] for i in range(5)] and len(calls()) == 1
    _, two, _ = typed(f"{rerank} --nbest 2", TEXT, monkeypatch, capsys)
    assert [len(row.split(" ||| ")) for row in two.splitlines()] == [4, 4, 3, 4, 4, 4, 4, 4, 4]
    status, _, err = typed(f"{rerank} --in texts --out en", "", monkeypatch, capsys)
    assert status == 0 and (tmp_path / "en/a.de").read_text() == printed, err
    recipe = json.loads((tmp_path / "en/translation.json").read_text())
    assert recipe["rerank"].startswith("kiwi:")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--rerank none --from de", "none is no COMET model"),
        ("--rerank da --from de", "a model that needs references"),
        ("--rerank kiwi", "needs the language of the lines"),
        ("--rerank kiwi --from auto", "needs the language of the lines"),
        ("--rerank kiwi --from sag", "no neural scores for sag_Latn (Sango)"),
        ("--rerank kiwi --from de --to sag", "no neural scores for sag_Latn (Sango)"),
        ("--rerank kiwi --from de --beam 1", "--beam 1 has only one"),
        ("--rerank kiwi --from de --context 1", "--context excludes --rerank"),
        ("--rerank kiwi --file a.html --out b.html", "are for lines, not for --file"),
        ("--rerank kiwi --corpus a --out b", "--context and --ensemble are not for --corpus"),
    ],
)
def test_neural_scores_are_refused_where_they_mean_nothing(
    flags, message, calls, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    status, printed, err = typed(flags, TEXT, monkeypatch, capsys)
    assert (status, printed, calls()) == (1, "", []) and message in err


def test_context_needs_a_run_that_was_trained_with_it(monkeypatch, capsys):
    status, _, err = typed("--context 1", TEXT, monkeypatch, capsys)
    assert status == 1 and "no stage in" in err and "the modifier 'context'" in err
    for more in ("--corpus x --out y", "--risk", "--retry"):
        status, _, err = typed(f"--context 1 {more}", TEXT, monkeypatch, capsys)
        assert status == 1 and "--context" in err


def test_all_models_of_an_ensemble_need_context(tmp_path, monkeypatch, capsys):
    run = shutil.copytree(OLD / "toy", tmp_path / "run")
    with (run / "config.gin").open("a") as file:
        file.write("from mmt.data import stages\nstages.Stage.modifiers = {'context': 0.6}\n")
    flags = f"--context 1 --model {run} --ensemble {OLD / 'toy'}"
    status, _, err = typed(flags, TEXT, monkeypatch, capsys)
    assert status == 1 and f"no stage in {OLD / 'toy/config.gin'} has the modifier" in err
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/deu.tsv").write_text("eins\tone\td\nzwei\ttwo\td\n")
    evaluate = ["evaluate", "--testset", "tests", "--out", "results.jsonl"]
    monkeypatch.chdir(tmp_path)
    assert main([*evaluate, *flags.split()]) == 1
    assert f"no stage in {OLD / 'toy/config.gin'} has" in capsys.readouterr().err


@pytest.mark.slow
def test_lines_whose_context_fails_are_those_without_context(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mmt.translate.context.trained.trained_lines", lambda _: 1)
    flags = "--beam 1 --weights float32 --from de"
    status, printed, _ = typed(flags, TEXT, monkeypatch, capsys)
    (tmp_path / "a.txt").write_text(TEXT)
    bulk = f"{flags} --context 1 --in {tmp_path}/a.txt --out {tmp_path}/out"
    status, _, err = typed(bulk, "", monkeypatch, capsys)
    assert status == 0
    # The model does not write separators, so all lines are translated without context in the end.
    assert "context: 2 of 4 different sentences had previous sentences; 2 of these" in err
    assert (tmp_path / "out/a.txt").read_text() == printed
    assert json.loads((tmp_path / "out/translation.json").read_text())["context"] == 1
