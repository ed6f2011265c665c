"""Placement of parameters: a binding wins; a single device without a binding needs no layout."""

import jax
import pytest

from mmt import config, sharding
from mmt.run import Run
from mmt.translate import layout_of, placement


@pytest.fixture
def bound():
    config.bind(["Layout.over={}"], [sharding.Layout])
    yield
    config.bind([], [])


def test_one_device_has_no_layout_unless_it_is_bound(tmp_path):
    config.bind([], [])
    assert jax.device_count() == 1 and layout_of(tmp_path / "none") is None


def test_a_binding_gives_a_layout(tmp_path, bound):
    assert layout_of(tmp_path / "none").mesh.size == 1


def test_an_old_best_checkpoint_is_none_of_the_last(tmp_path):
    for step in (2, 8, 10):
        (tmp_path / f"checkpoints/{step}/state").mkdir(parents=True)
    assert placement.steps(Run(tmp_path), None, 3) == [2, 8, 10]  # nothing says how many it keeps
    header = "from __gin__ import dynamic_registration\nfrom mmt import checkpoint\n"
    (tmp_path / "config.gin").write_text(header)
    assert placement.steps(Run(tmp_path), None, 2) == [8, 10]
    with pytest.raises(ValueError, match=r"has 2, 8, 10 \(a run keeps the last 2,"):
        placement.steps(Run(tmp_path), None, 3)
    (tmp_path / "config.gin").write_text(header + "checkpoint.Policy.keep = 3\n")
    assert placement.steps(Run(tmp_path), None, 3) == [2, 8, 10]
