"""Placement of parameters: a binding wins; a single device without a binding needs no layout."""

import jax
import pytest

from mmt import config, sharding
from mmt.translate import layout_of


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
