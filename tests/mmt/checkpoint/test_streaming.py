"""Arrays written one at a time: reading them back, and a full disk."""

import contextlib
import logging
import resource
import sys
import types
import warnings

import jax
import numpy as np
import pytest

from mmt.checkpoint import streaming


def test_a_full_disk_is_an_error_of_the_system(tmp_path):
    shapes = {"a": jax.ShapeDtypeStruct((100, 100), np.float32)}
    random = np.random.default_rng(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            streaming.write_tree(
                tmp_path / "tree", shapes, lambda _, shape: random.normal(size=shape.shape)
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_loggers_filters_and_the_exception_hook_are_restored(fails):
    """Loggers, filters and the hook; where something failed, late callbacks stay unheard."""

    def state():
        return [logging.getLogger(name).level for name in ("absl", "asyncio")], warnings.filters[:]

    heard, hook, before = [], sys.unraisablehook, state()
    sys.unraisablehook = heard.append
    try:
        with contextlib.suppress(OSError), streaming.without_duplicate_logs():
            assert state() != before
            if fails:
                raise OSError("full")
        assert state() == before
        late, other = (types.SimpleNamespace(exc_value=RuntimeError(text))
                       for text in ("Event loop is closed", "mine"))  # fmt: skip
        sys.unraisablehook(late)
        sys.unraisablehook(other)
        assert heard == ([other] if fails else [late, other])
    finally:
        sys.unraisablehook = hook
