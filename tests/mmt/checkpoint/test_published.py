"""Published weights: their size. tests/mmt/convert/test_published.py has a whole model."""

from pathlib import Path

import jax
import numpy as np
import pytest

from mmt import config
from mmt.checkpoint import published
from mmt.model.transformer import parameter_shapes
from mmt.run import Run

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("dtype", "most"), [("int8", 13 << 20), ("bfloat16", 24 << 20)])
def test_the_weights_of_mix150_are_small(tmp_path, monkeypatch, dtype, most):
    monkeypatch.chdir(ROOT)
    config.load(["benchmarks/mix150/dense.gin"])
    shapes = parameter_shapes(config.macro("MODEL"))
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, np.float32), shapes)
    published.write_weights(tmp_path, params, step=1, dtype=dtype)
    size = Run(tmp_path).weights(1).stat().st_size
    assert size <= most, size


def test_faults_of_parameters_and_options_are_named(tmp_path):
    with pytest.raises(ValueError, match="dtype: 'int4'; allowed: bfloat16, int8"):
        published.write_weights(tmp_path, {}, step=1, dtype="int4")
    params = {"table": np.full((8, 8), np.nan, np.float32)}
    with pytest.raises(ValueError, match="table is not finite"):
        published.write_weights(tmp_path, params, step=1, dtype="int8")


def test_sums_leave_exports_out(tmp_path):
    for name in ("config.gin", "ctranslate2/3/model.bin", "checkpoints/3/weights.npz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    published.write_hashes(tmp_path)
    lines = Run(tmp_path).hashes.read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["checkpoints/3/weights.npz", "config.gin"]


def test_rows_of_an_evaluation_get_no_sum(tmp_path):
    weights = Run(tmp_path).weights(3)
    weights.parent.mkdir(parents=True)
    for file in (weights, Run(tmp_path).card, tmp_path / "risk.json"):
        file.write_text("old")
    published.write_hashes(tmp_path)
    (tmp_path / "analysis.jsonl").write_text("{}")
    with published.updated(tmp_path):
        (tmp_path / "risk.json").write_text("new")
        (tmp_path / "languages.npz").write_text("new")
    (tmp_path / "analysis.jsonl").write_text("{}, {}")
    published.check(tmp_path)
    names = {line.split("  ")[1] for line in Run(tmp_path).hashes.read_text().splitlines()}
    assert names == {"README.md", "checkpoints/3/weights.npz", "languages.npz", "risk.json"}
