"""Every gin file says what it is, loads, and builds its model's shapes."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from mmt import config, train
from mmt.model.transformer import Transformer

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("gin_configs/**/*.gin"))
OPEN = {
    "MODEL_DIR": "runs/x", "MIXTURE_OR_TASK_NAME": "x_to_eng", "TRAIN_STEPS": "1000",
    "RESULTS": "runs/results.jsonl", "CORPUS": "x", "INITIAL_MODEL_DIR": "runs/parent",
}  # fmt: skip


def with_includes(file: str) -> str:
    text = (ROOT / file).read_text()
    return text + "".join(map(with_includes, re.findall(r"^include '(.+)'", text, re.MULTILINE)))


def load(file: str) -> None:
    """Loads a file, with what it builds on before it and what it leaves open."""
    before = []
    if "/runs/" in file or "/meshes/" in file:
        before = ["gin_configs/models/tiny.gin", "gin_configs/runs/train.gin"]
    files = [one for one in before if one != file] + [file]
    text = "".join(map(with_includes, files))
    closed = re.findall(r"^([A-Z_]+) = (?!%gin.REQUIRED)", (ROOT / file).read_text(), re.MULTILINE)
    left = [name for name in OPEN if re.search(rf"^{name} = %gin.REQ", text, re.MULTILINE)]
    config.load(files, [f"{name}={OPEN[name]}" for name in left if name not in closed])


@pytest.mark.parametrize("file", FILES)
def test_every_file_says_what_it_is(file):
    head = (ROOT / file).read_text().split("from __gin__")[0]
    assert all(line.startswith("#") for line in head.splitlines() if line), head
    for word in ("hardware", "time", "score", "command:"):
        assert word in head.lower(), f"{file}: its head says nothing of {word}"


@pytest.mark.parametrize("file", FILES)
def test_every_file_loads_and_builds_its_shapes(file):
    load(file)
    if "'model': 2" in (ROOT / file).read_text() and jax.device_count() % 2:
        with pytest.raises(ValueError, match="does not fill"):
            config.configured(train.Program)()
        return
    if "/models/" in file:
        model = config.configured(Transformer)()
    else:
        model = config.configured(train.Program)().model
    tokens = jnp.zeros((1, 8), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)["params"]
    assert sum(x.size for x in jax.tree.leaves(shapes)) > 100_000


@pytest.mark.parametrize(
    ("file", "millions"), [("small", 77), ("base", 248), ("large", 783)]
)
def test_dense_sizes_are_t5_1_1s(file, millions):
    """Google's T5 1.1 with its 32,128 pieces: Small 77M, Base 248M, Large 783M."""
    config.load([f"gin_configs/models/{file}.gin"], ["VOCAB_SIZE=32128"])
    model = config.configured(Transformer)()
    tokens = jnp.zeros((1, 8), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)["params"]
    assert round(sum(x.size for x in jax.tree.leaves(shapes)) / 1e6) == millions


def test_a_moe_file_is_a_diff_of_its_dense_one():
    for file in (ROOT / "gin_configs/models").glob("*_moe.gin"):
        assert f"include 'gin_configs/models/{file.stem.removesuffix('_moe')}.gin'" in (
            file.read_text()
        )
