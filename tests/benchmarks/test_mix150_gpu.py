"""benchmarks/mix150/gpu: the pack of a cache, and a dry run of the pieces on a CPU."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mix150.gpu import piece, token_pack
from eval.records import results
from mmt import config
from mmt.data import vocabulary
from mmt.data.cache import build, open_cache
from mmt.plan import parameters
from mmt.run import Run

ROOT = Path(__file__).resolve().parents[2]
GPU = "benchmarks/mix150/gpu"
SIZES = {"deu_Latn": 300, "swh_Latn": 40, "tel_Telu": 40}
SIZE = 320  # pieces
# A GPU machine trains without these.
ABSENT = (
    "tensorflow", "tensorflow_datasets", "seqio", "babel", "matplotlib", "py3langid", "datasketch",
    "systran_align", "ctranslate2",
)  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache whose languages share target lines; its sources are the targets, each id plus 1."""
    folder = tmp_path_factory.mktemp("tokens")
    model = folder / "vocabulary.model"
    random = np.random.default_rng(0)
    letters = random.choice(list("abcdefgh"), (2000, 30))
    vocabulary.train(map("".join, letters), model, size=SIZE, tags=["<2eng>"])
    lines = [random.integers(10, SIZE - 1, random.integers(1, 9)).tolist() for _ in range(90)]

    def examples(split, code):
        count = SIZES[code] if split == "train" else 5
        for number in range(count):
            target = lines[(number * 7 + len(split)) % len(lines)]
            yield [token + 1 for token in target], target, f"corpus {number // 100}"

    directory = folder / "caches" / "mix150_to_eng"
    build(
        directory,
        {(s, c): lambda s=s, c=c: examples(s, c) for s in ("train", "validation") for c in SIZES},
        name="mix150_to_eng", target="eng_Latn", corpus_hash="made up",
        vocabularies={"source": model, "target": model},
    )  # fmt: skip
    return open_cache(directory)


@pytest.fixture(scope="module")
def absent(tmp_path_factory):
    """A folder that shadows the absent libraries: importing one fails."""
    folder = tmp_path_factory.mktemp("absent")
    for name in ABSENT:
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is absent')\n")
    return folder


def content(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_an_unpacked_cache_is_the_packed_one(cache, tmp_path):
    size = token_pack.pack(cache, tmp_path / "tokens.pack")
    token_pack.unpack(tmp_path / "tokens.pack", tmp_path / "cache")
    assert content(tmp_path / "cache") == content(cache.directory)
    assert size < sum(map(len, content(cache.directory).values()))


def test_a_pack_of_some_splits_has_these_alone(cache, tmp_path):
    token_pack.pack(cache, tmp_path / "tokens.pack", ["validation"])
    token_pack.unpack(tmp_path / "tokens.pack", tmp_path / "cache")
    assert list(open_cache(tmp_path / "cache").manifest.counts) == ["validation"]


def test_what_is_no_pack_and_no_split_is_named(cache, tmp_path):
    (tmp_path / "x").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="x is no pack of tokens"):
        token_pack.unpack(tmp_path / "x", tmp_path / "cache")
    with pytest.raises(ValueError, match="has no split 'tset'"):
        token_pack.pack(cache, tmp_path / "y", ["tset"])


def test_int8_weights_fit_into_24_mib_and_experts_have_two_mlps_a_token(monkeypatch):
    monkeypatch.chdir(ROOT)
    models = {}
    for name in ("dense", "top2"):
        config.load([f"{GPU}/{name}.gin"])
        models[name] = parameters.count(config.macro("MODEL"))
    dense, top2 = models.values()
    assert dense.whole.total < 24 * 2**20
    assert top2.whole.total < 64 * 2**20  # travels in one call
    mlps = 4 * 3 * 320 * 1280  # of four layers
    assert top2.whole.active - top2.parts["routers"].active == dense.whole.active + mlps


def test_what_training_imports_needs_no_absent_library(absent):
    """The test below takes minutes; this one says at once which import is wrong."""
    modules = "mmt.cli, mmt.train, mmt.data.pipeline, eval.evaluate, mmt.convert.published"
    path = os.pathsep.join([str(absent), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", f"import {modules}"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_in_pieces_on_a_cpu_without_tensorflow(cache, absent, tmp_path, monkeypatch):
    """Also the dry run: the GPU's gin file with a small model and few rows."""
    monkeypatch.chdir(ROOT)
    token_pack.pack(cache, tmp_path / "tokens.pack")
    token_pack.unpack(tmp_path / "tokens.pack", tmp_path / "cache")
    testset = tmp_path / "testset"
    testset.mkdir()
    for name in ("test.de", "test.en"):
        (testset / name).write_text("a line of words\n" * 3)
    small = {
        "MODEL_DIR": repr(str(tmp_path / "run")), "CACHE_DIR": repr(str(tmp_path / "cache")),
        "VOCAB_SIZE": SIZE, "BATCH_SIZE": 4, "TRAIN_STEPS": 100000, "COOLDOWN_STEPS": 5,
        "TASK_FEATURE_LENGTHS": {"inputs": 16, "targets": 16}, "LARGE": ["deu_Latn"],
        "transformer.Config.emb_dim": 16, "transformer.Config.num_heads": 2,
        "transformer.Config.head_dim": 8, "transformer.Config.mlp_dim": 32,
        "transformer.Config.encoder_layers": 2, "transformer.Config.decoder_layers": 2,
    }  # fmt: skip

    def run(seconds: float, **changed: int) -> str:
        command = [sys.executable, "-m", "benchmarks.mix150.gpu.piece",
                   f"--gin_file={GPU}/dense.gin", f"--seconds={seconds}", "--saving=30",
                   f"--testset={testset}",
                   *(f"--gin.{name}={value}" for name, value in (small | changed).items()),
                   ]  # fmt: skip
        path = os.pathsep.join([str(absent), str(ROOT)])
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=400, check=False,
            env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "left: training" in run(75)
    reached = max(Run(tmp_path / "run").checkpoint_steps())
    assert 0 < reached < 100000
    assert run(400, TRAIN_STEPS=reached + 3).strip() == "done"
    assert max(Run(tmp_path / "run").checkpoint_steps()) == reached + 3
    rows = results.read_rows(tmp_path / "run/results.jsonl")
    assert [(row.testset, row.source) for row in rows] == [("testset", "deu_Latn")]


def test_a_piece_without_time_to_train_is_refused():
    with pytest.raises(ValueError, match="saving is 60; allowed: between 0 and the 50 seconds"):
        piece.piece(f"{GPU}/dense.gin", seconds=50)
