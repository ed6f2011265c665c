"""Broken checkpoints: the saved state is restored, or the error names the directory."""

import shutil
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import strategies as st

from mmt import checkpoint
from mmt.checkpoint import Checkpoints, Policy
from mmt.run import Run
from tests.fuzz.strategies import damage, fuzzed
from tests.helpers.runs import equal_trees

ITEMS = {
    "params": {"a": np.arange(12.0).reshape(3, 4), "b": {"c": np.full(5, 7.0)}},
    "optimizer": {"m": np.full((3, 4), 2.0)},
    "progress": {"step": np.array(3)},
}
DATA = {"lanes": 1, "next": [3, 4]}


def arrays(step):
    return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf + step), ITEMS)


SHAPES = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), arrays(0)
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoints")
    with Checkpoints(directory, Policy(keep=5)) as checkpoints:
        for step in (3, 6):
            checkpoints.save(step, arrays(step), data=DATA | {"step": step}, measured={})
    return directory


@st.composite
def faults(draw) -> list:
    """(which file of all, what is done to it), a few."""
    kinds = ["remove", "empty", "damage", "folder", "link", "remove folder"]
    fault = st.tuples(st.integers(0, 10**6), st.sampled_from(kinds))
    return draw(st.lists(fault, min_size=1, max_size=3))


def break_(file: Path, kind: str, example) -> None:
    if kind == "damage":
        file.write_bytes(example.draw(damage(file.read_bytes())))
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "remove folder":
        shutil.rmtree(file.parent)
    else:
        file.unlink()
        if kind == "folder":
            file.mkdir()
        elif kind == "link":
            file.symlink_to("/nowhere")


@fuzzed(st.data(), short=4, long=1000)
def test_a_broken_checkpoint_restores_what_was_saved_or_is_named(example, whole):
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        shutil.copytree(whole, run)
        files = sorted(file for file in run.rglob("*") if file.is_file() and file.stat().st_size)
        for place, kind in example.draw(faults()):
            file = files[place % len(files)]
            if file.is_file():
                break_(file, kind, example)
        known = jax.tree.map(lambda leaf: leaf, SHAPES)
        try:
            params = checkpoint.restore_params(run, known["params"])
            step = Run(run).best_step()
            assert equal_trees(params, arrays(step)["params"])
        except (ValueError, OSError) as error:
            assert str(run) in str(error), error
        try:
            checkpoint.check_model(run, known)
            with Checkpoints(run, Policy(keep=5)) as checkpoints:
                restored = checkpoints.restore(known)
        except (ValueError, OSError) as error:
            assert str(run) in str(error), error
            return
        if restored is not None:
            step, items = restored
            assert items["data"] == DATA | {"step": step}
            assert all(equal_trees(items[name], arrays(step)[name]) for name in ITEMS)
