"""The command line: from a toy corpus to a report, and the errors for bad input."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmt.cli.main import main
from mmt.data.cache.manifest import read_manifest
from mmt.run import read_metrics
from mmt.system import lock

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def fails(done, *words) -> None:
    error = done.stderr.decode()
    assert done.returncode not in (0, None)
    assert "Traceback" not in error, error
    for word in words:
        assert word in error, error


def test_help_is_instant():
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "mmt.cli", "--help"], check=True, capture_output=True)
    assert time.perf_counter() - start < 2  # seconds, on a busy machine; idle: under 0.2


def test_a_run_directory_contains_all_that_translation_needs(toy_run):
    names = {path.name for path in toy_run.iterdir()}
    assert {"config.gin", "manifest.json", "vocabulary.model", "checkpoints"} <= names
    rows = read_metrics(toy_run / "metrics.jsonl")
    assert [row["step"] for row in rows if "loss" in row] == [10, 20, 30, 40]
    assert [row["step"] for row in rows if "validation_loss" in row] == [20, 40]
    assert [row["step"] for row in rows if "bleu" in row] == [20, 40]
    assert set(rows[-1]["language_bleu"]) == {"deu_Latn", "fra_Latn", "swh_Latn"}


def test_training_again_leaves_a_trained_run_unchanged(toy_run, mmt_command, tmp_path):
    copy = tmp_path / "toy"
    shutil.copytree(toy_run, copy)
    before = (copy / "config.gin").read_bytes()
    done = mmt_command(
        "train", f"--gin_file={copy / 'config.gin'}", f"--gin.MODEL_DIR={copy}",
        "--gin.DROPOUT_RATE=0.3",
    )  # fmt: skip
    error = done.stderr.decode()
    assert done.returncode == 0, error
    assert f"{copy} is trained with other settings" in error
    assert "DROPOUT_RATE = 0.3, there 0.1. Set another MODEL_DIR to train with them" in error
    assert (copy / "config.gin").read_bytes() == before


def test_refused_settings_leave_the_description_of_a_run_unchanged(toy_run, mmt_command, tmp_path):
    copy = shutil.copytree(toy_run, tmp_path / "toy")
    before = (copy / "config.gin").read_bytes()
    done = mmt_command(
        "train", f"--gin_file={copy / 'config.gin'}", f"--gin.MODEL_DIR={copy}",
        "--gin.TRAIN_STEPS=60", "--gin.SEED=7",
    )  # fmt: skip
    assert done.returncode == 1
    assert "the saved data state has seed 0, this run has 7" in done.stderr.decode()
    assert (copy / "config.gin").read_bytes() == before
    manifest = json.loads((copy / "manifest.json").read_text()) | {"corpus_hash": "0"}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = mmt_command(
        "train", f"--gin_file={copy / 'config.gin'}", f"--gin.MODEL_DIR={copy}",
        "--gin.TRAIN_STEPS=60",
    )  # fmt: skip
    assert "checkpoints of another corpus_hash than the cache" in done.stderr.decode()


@pytest.mark.parametrize("command", ["translate", "score"])
def test_commands_for_lines_cache_their_programs(command, tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "stdin", None)
    assert main([command, "--model", str(OLD / "toy")]) == 1  # without lines
    assert os.environ.get("JAX_COMPILATION_CACHE_DIR", "").startswith(f"{tmp_path}/programs-")


def test_translate_line_by_line(toy_run, mmt_command):
    lines = "eins zwei\n\nnull\n"
    done = mmt_command("translate", "--model", toy_run, "--from", "de", stdin=lines.encode())
    assert done.returncode == 0, done.stderr.decode()
    out = done.stdout.decode().splitlines()
    assert len(out) == 3 and out[1] == ""
    done = mmt_command(
        "translate", "--model", toy_run, "--nbest", 2, "--format", "jsonl", stdin=lines.encode()
    )
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["source"] for row in rows] == lines.splitlines()
    assert len(rows[0]["hypotheses"]) == 2 and rows[0]["hypotheses"][0]["text"] == out[0]


@pytest.mark.slow
def test_decoding_by_gin_and_the_average_of_checkpoints(toy_run, toy_corpus, mmt_command, tmp_path):
    flags = ("--model", toy_run, "--gin.Decoding.prefix=one", "--gin.Translator.load.average=2")
    done = mmt_command("translate", *flags, "--beam", 2, stdin=b"eins zwei\n")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"one")
    results = tmp_path / "results.jsonl"
    done = mmt_command(
        "evaluate", *flags, "--testset", toy_corpus, "--languages", "deu", "--out", results,
        "--gin.Decoding.beam=3", "--gin.Decoding.no_repeat_ngram=4", "--beam", 1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    row = json.loads(results.read_text())
    assert row["checkpoint"] == "toy/20+40"
    assert row["decode"] == "beam:1|alpha:0.8|no_repeat_ngram:4|prefix:'one'"
    wrong = (*flags[:2], "--gin.Decoding.no_repeat=3")
    fails(mmt_command("translate", *wrong, stdin=b"x\n"), "no_repeat_ngram")
    wrong = (*flags[:2], "--gin.Translator.load.average=3")
    fails(mmt_command("translate", *wrong, stdin=b"x\n"), "has 20, 40")
    wrong = (*flags[:2], "--gin.Decoding.top_p=2.0", "--gin.Decoding.temperature=1.0", "--beam", 1)
    fails(mmt_command("translate", *wrong, stdin=b"x\n"), "top_p 2.0; allowed")
    wrong = (*flags[:2], "--gin.Decoding.no_repeat_ngram=three")
    fails(mmt_command("translate", *wrong, stdin=b"x\n"), "no_repeat_ngram = 'three'; allowed: int")


def test_invalid_utf8_keeps_the_line_count(toy_run, mmt_command):
    lines = b"eins\n\xff\xfe\nzwei\n"
    done = mmt_command("translate", "--model", toy_run, "--beam", 1, stdin=lines)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 3
    assert b"UTF-8" in done.stderr


def test_evaluate_baselines_report(toy_run, toy_corpus, toy_training, mmt_command, tmp_path):
    results = tmp_path / "results.jsonl"
    done = mmt_command("evaluate", "--model", toy_run, "--testset", toy_corpus, "--out", results)
    assert done.returncode == 0, done.stderr.decode()
    done = mmt_command(
        "baselines", *toy_training, "--gin_file=gin_configs/models/tiny.gin",
        "--gin_file=gin_configs/runs/baseline.gin", f"--gin.CORPUS={toy_corpus}",
        f"--gin.MODEL_DIR={tmp_path / 'baselines'}", f"--gin.RESULTS={results}",
        "--gin.BASELINE_LANGUAGES=['swh', 'German']", "--gin.baselines.Plan.steps=(20, 20)",
        "--gin.baselines.baselines.classes=[@low/baselines.Class(), @own/baselines.Class()]",
        "--gin.low/baselines.Class.name='low'", "--gin.own/baselines.Class.name='own'",
        "--gin.own/baselines.Class.least=400", "--gin.own/baselines.Class.bindings="
        "['VOCAB_SIZE = 310', 'baselines.Plan.own_vocabulary = True']",
        MMT_DATA=str(toy_corpus.parent),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(row["kind"], row["source"]) for row in rows] == [
        ("multilingual", "deu_Latn"), ("multilingual", "fra_Latn"), ("multilingual", "swh_Latn"),
        ("bilingual", "deu_Latn"), ("bilingual", "swh_Latn"),  # the largest class first
    ]  # fmt: skip
    assert {row["source"]: row["train_pairs"] for row in rows} == {
        "deu_Latn": 400, "fra_Latn": 200, "swh_Latn": 60
    }  # fmt: skip
    shared, separate = (
        read_manifest(tmp_path / f"baselines/{code}/manifest.json").vocabulary_size["source"]
        for code in ("swh_Latn", "deu_Latn")
    )
    assert separate <= 310 < shared
    of_all, of_own = (
        (tmp_path / f"baselines/{code}/config.gin").read_text() for code in ("swh_Latn", "deu_Latn")
    )
    name = "recipe.default_directory.name"
    assert f"{name} = 'numbers_to_eng-340-deu_Latn-310'" in of_own
    assert all("CACHE_DIR = @recipe.default_directory()" in text for text in (of_all, of_own))
    lines = [{line.partition(" =")[0] for line in text.splitlines()} for text in (of_all, of_own)]
    assert lines[0] == lines[1] - {name}  # the defaults in force too
    texts = tmp_path / "hypotheses/bilingual/numbers/swh_Latn"
    scored = subprocess.run(
        [sys.executable, "-m", "sacrebleu", f"{texts}.ref", "-i", f"{texts}.hyp", "-m", "bleu",
         "chrf", "--chrf-word-order", "2", "-w", "4"],
        capture_output=True, check=True,
    )  # fmt: skip
    row = next(row for row in rows if (row["kind"], row["source"]) == ("bilingual", "swh_Latn"))
    for name, score in zip(("bleu", "chrf"), json.loads(scored.stdout), strict=True):
        assert score["score"] == row[name] and score["signature"] == row[f"{name}_signature"]
    done = mmt_command("report", results, "--out", tmp_path / "report", "--corpus", toy_corpus)
    assert done.returncode == 0, done.stderr.decode()
    about = [json.loads(line) for line in (tmp_path / "analysis.jsonl").read_text().splitlines()]
    assert {row["recited"] is None for row in about if row["kind"] == "guards"} == {False}
    for line in done.stdout.decode().splitlines():
        assert os.path.getsize(line) > 100


@pytest.mark.slow  # the same by a signal and in one process: test_train.py
def test_killed_and_started_again_is_bit_identical(
    toy_run, toy_corpus, toy_training, mmt_command, tmp_path
):
    flags = [*toy_training, f"--gin.CORPUS={toy_corpus}", f"--gin.MODEL_DIR={tmp_path / 'run'}",
             "--gin.CHECKPOINT_PERIOD=7"]  # fmt: skip
    environment = {**os.environ, "MMT_DATA": str(toy_corpus.parent)}
    process = subprocess.Popen(
        [sys.executable, "-m", "mmt.cli", "train", *flags], env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    while process.poll() is None and not (tmp_path / "run/checkpoints/14").is_dir():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = mmt_command("train", *flags, MMT_DATA=str(toy_corpus.parent))
    assert done.returncode == 0, done.stderr.decode()

    def losses(directory):
        rows = read_metrics(directory / "metrics.jsonl")
        return [(row["step"], row["loss"]) for row in rows if "loss" in row]

    assert losses(tmp_path / "run") == losses(toy_run)
    same = mmt_command("translate", "--model", toy_run, stdin=b"eins\n").stdout
    assert mmt_command("translate", "--model", tmp_path / "run", stdin=b"eins\n").stdout == same


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "distill", "baselines"])
def test_a_second_run_in_a_directory_is_refused(
    toy_run, toy_corpus, toy_training, mmt_command, tmp_path, command
):
    gin = {
        "train": [],
        "distill": ["--gin_file=gin_configs/runs/distill.gin", f"--gin.TEACHER_DIR={toy_run}"],
        "baselines": ["--gin_file=gin_configs/runs/baseline.gin", "--gin.RESULTS='rows.jsonl'"],
    }
    flags = f"--gin.CORPUS={toy_corpus}", f"--gin.MODEL_DIR={tmp_path / 'run'}"
    with lock.held(tmp_path / "run"):
        (tmp_path / "run/mine").write_text("")
        done = mmt_command(
            command, *toy_training, *gin[command], *flags, MMT_DATA=str(toy_corpus.parent)
        )
        left = sorted(path.name for path in (tmp_path / "run").iterdir())
    fails(done, f"run is in use by process {os.getpid()} on host")
    assert left == ["mine", lock.FILE]


def distil(toy_run, toy_corpus, mmt_command, *flags):
    return mmt_command(
        "distill", f"--gin_file={toy_run / 'config.gin'}", *flags, f"--gin.TEACHER_DIR={toy_run}",
        "--gin.TRAIN_STEPS=20", MMT_DATA=str(toy_corpus.parent),
    )  # fmt: skip


@pytest.mark.slow
def test_distil_by_logits(toy_run, toy_corpus, mmt_command, tmp_path):
    """A dense student of the teacher's weights and logits, which then translates."""
    flags = "--gin_file=gin_configs/runs/distill.gin", "--gin.VOCABULARY_FROM=''"
    done = distil(toy_run, toy_corpus, mmt_command, *flags, f"--gin.MODEL_DIR={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr.decode()
    assert "fresh: decoder/1/mlp, encoder/1/mlp" in done.stderr.decode()
    rows = [row for row in read_metrics(tmp_path / "run/metrics.jsonl") if "loss" in row]
    assert rows[-1]["step"] == 20 and rows[-1]["teacher_loss"] < rows[0]["teacher_loss"]
    done = mmt_command("translate", "--model", tmp_path / "run", stdin=b"eins\n")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1
    # an own vocabulary has other logits
    flags = *flags, "--gin.VOCAB_SIZE=300", f"--gin.MODEL_DIR={tmp_path / 'other'}"
    done = distil(toy_run, toy_corpus, mmt_command, *flags)
    fails(done, "another source vocabulary", "distill_sequences.gin")
    assert not (tmp_path / "other").exists()


def test_distillation_without_a_teacher_is_refused(toy_run, toy_corpus, mmt_command, tmp_path):
    done = mmt_command(
        "distill", f"--gin_file={toy_run / 'config.gin'}", f"--gin.MODEL_DIR={tmp_path / 'run'}",
        MMT_DATA=str(toy_corpus.parent),
    )  # fmt: skip
    fails(done, "no teacher", "gin_configs/runs/distill.gin")


@pytest.mark.slow
def test_distil_by_sequence(toy_run, toy_corpus, mmt_command, tmp_path):
    """A student with its own vocabulary, trained on the teacher's translations."""
    done = distil(
        toy_run, toy_corpus, mmt_command, "--gin_file=gin_configs/models/tiny.gin",
        "--gin_file=gin_configs/runs/distill_sequences.gin", f"--gin.TEACHER_CORPUS={toy_corpus}",
        "--gin.transformer.Config.moe_period=0", "--gin.transformer.Config.emb_dim=32",
        "--gin.transformer.Config.mlp_dim=64", f"--gin.CORPUS={tmp_path / 'said'}",
        "--gin.TEACHER_PAIRS=50", "--gin.MIXTURE_OR_TASK_NAME=numbers_distilled_to_eng",
        "--gin.VOCAB_SIZE=330", f"--gin.MODEL_DIR={tmp_path / 'run'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert "fresh: decoder/1/mlp, encoder/1/mlp, logits, source_embed" in done.stderr.decode()
    lines = (tmp_path / "said/train.deu_Latn.tsv").read_text().splitlines()
    assert len(lines) == 50 and all(len(line.split("\t")) == 2 for line in lines)
    done = mmt_command("translate", "--model", tmp_path / "run", stdin=b"eins\n")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1


def test_training_from_the_cache_needs_no_tensorflow(toy_run, toy_corpus, toy_training, tmp_path):
    """The same run, with TensorFlow, SeqIO and the corpus out of reach."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['tensorflow', 'seqio', 'torch']));"
        "from mmt.cli.main import main; sys.exit(main())"
    )
    flags = [*toy_training, "--gin.CORPUS=gone", f"--gin.MODEL_DIR={tmp_path / 'run'}"]
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *flags], capture_output=True, check=False,
        env={**os.environ, "MMT_DATA": str(toy_corpus.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    last = [read_metrics(d / "metrics.jsonl")[-3]["loss"] for d in (toy_run, tmp_path / "run")]
    assert last[0] == last[1]


def test_bad_training_input_is_an_error(toy_run, toy_corpus, toy_training, mmt_command, tmp_path):
    data = {"MMT_DATA": str(toy_corpus.parent)}
    corpus, place = f"--gin.CORPUS={toy_corpus}", f"--gin.MODEL_DIR={tmp_path / 'run'}"
    fails(
        mmt_command("train", *toy_training, corpus, place, "--gin.TRAIN_STEP=5", **data),
        "TRAIN_STEP", "TRAIN_STEPS",
    )  # fmt: skip
    fails(mmt_command("train", "--gin_file=gin_configs/models/tine.gin"), "tine.gin", "tiny.gin")
    fails(
        mmt_command(
            "train", *toy_training, corpus, place, "--gin.transformer.Config.vocab_size=300", **data
        ),
        "model only 300",
    )  # fmt: skip
    fails(
        mmt_command("train", *toy_training, corpus, f"--gin.MODEL_DIR={toy_run}",
                    "--gin.transformer.Config.mlp_dim=48", **data),
        "another model", "mlp",
    )  # fmt: skip
    fails(
        mmt_command(
            "train", *toy_training, corpus, place, "--gin.mixing.Mixing.languages=['xyz']", **data
        ),
        "xyz",
    )  # fmt: skip
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_broken_corpus_is_refused_before_anything_is_written(
    toy_corpus, toy_training, mmt_command, tmp_path
):
    pytest.importorskip("seqio")
    broken = tmp_path / "numbers"
    shutil.copytree(toy_corpus, broken)
    with (broken / "train.swh.tsv").open("a") as file:
        file.write("moja\n")
    done = mmt_command(
        "train", *toy_training, f"--gin.CORPUS={broken}", f"--gin.MODEL_DIR={tmp_path / 'run'}",
        MMT_DATA=str(tmp_path / "data"),
    )  # fmt: skip
    fails(done, "train.swh.tsv:61")
    assert not (tmp_path / "run").exists() and not (tmp_path / "data" / "caches").exists()


def test_bad_translation_input_is_an_error(
    toy_run, tmp_path, monkeypatch, capsys, as_users_have_it
):
    def fails_here(message, *flags):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
        assert main(["translate", "--model", *map(str, flags)]) == 1
        assert message in capsys.readouterr().err

    fails_here("no config.gin", tmp_path)
    fails_here("German", toy_run, "--from", "Germn")
    fails_here("Zulu", toy_run, "--from", "zul")
    fails_here("English", toy_run, "--to", "fra")
    fails_here("20, 40", toy_run, "--step", 7)
    empty = tmp_path / "run"
    shutil.copytree(toy_run, empty, ignore=shutil.ignore_patterns("checkpoints"))
    fails_here("no checkpoint", empty)


def test_bad_evaluation_input_is_an_error(toy_run, mmt_command, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/deu.src").write_text("eins\nzwei\n")
    (tmp_path / "set/deu.ref").write_text("one\n")
    done = mmt_command("evaluate", "--model", toy_run, "--testset", tmp_path / "set")
    fails(done, "deu.src has 2 lines", "deu.ref has 1")
    results = tmp_path / "results.jsonl"
    results.write_text('{"system": "x"\n')
    fails(mmt_command("report", results, "--out", tmp_path / "r"), "results.jsonl:1")


def test_a_full_or_read_only_disk_is_an_error(toy_corpus, toy_training, toy_run, mmt_command):
    flags = [*toy_training, f"--gin.CORPUS={toy_corpus}", "--gin.MODEL_DIR=/proc/run"]
    fails(mmt_command("train", *flags, MMT_DATA=str(toy_corpus.parent)), "/proc/run")
