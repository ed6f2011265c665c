"""Writes arrays one at a time, each created when it is written: for models larger than memory.

This module does not know run directories.
"""

import contextlib
import functools
import itertools
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore
from orbax.checkpoint import type_handlers

_PIECE_BYTES = 1 << 24


@contextlib.contextmanager
def without_duplicate_logs() -> Iterator[None]:
    """Silences the logs of Orbax, asyncio and TensorStore for errors that are also raised.

    They log the same error once per array. After an error, late callbacks of TensorStore to a
    closed event loop are ignored too.
    """
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio")]
    levels = [logger.level for logger in loggers]
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_ignore_late_callbacks, hook)
    failed = True
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .*write_fragment' was never awaited")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
            failed = False
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            if not failed:
                sys.unraisablehook = hook


def _ignore_late_callbacks(hook: Callable[[Any], Any], unraisable: Any) -> None:
    if str(unraisable.exc_value) != "Event loop is closed":
        hook(unraisable)


def write_tree(
    directory: Path, shapes: Any, load: Callable[[str, jax.ShapeDtypeStruct], np.ndarray]
) -> None:
    """Writes a tree of arrays into `directory`, one after another.

    shapes: a tree of `jax.ShapeDtypeStruct`.
    load: called as `load(path, shape)` when an array is written, with a path like
        'encoder/norm/scale'. The array is not kept.

    Raises OSError if an array cannot be written.
    """
    tree = jax.tree_util.tree_map_with_path(
        lambda path, shape: _Lazy(shape, functools.partial(load, path_name(path), shape)), shapes
    )
    registry = type_handlers.create_type_handler_registry((_Lazy, _LazyHandler()))
    with without_duplicate_logs():
        handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
        with ocp.Checkpointer(handler) as writer, as_os_error():
            writer.save(directory.absolute(), args=ocp.args.PyTreeSave(tree))


def path_name(path: Any) -> str:
    """Returns the path of a leaf, such as 'encoder/norm/scale', from its keys."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


@contextlib.contextmanager
def as_os_error() -> Iterator[None]:
    """Turns TensorStore's text messages of system errors, such as a full disk, into OSError."""
    try:
        yield
    except Exception as error:
        code = re.search(r"os_error_code='(\d+)'", str(error))
        if code:
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        raise


class _Lazy:
    """An array that is created when it is written."""

    def __init__(self, shape: jax.ShapeDtypeStruct, load: Callable[[], np.ndarray]) -> None:
        self.shape, self.dtype, self.size = shape.shape, shape.dtype, shape.size
        self.nbytes = shape.size * shape.dtype.itemsize
        self.load = load


class _LazyHandler(type_handlers.NumpyHandler):
    """Writes `_Lazy` arrays like NumPy arrays, but one at a time and in pieces.

    Each piece is on disk before the next begins, because pending writes hold a compressed copy in
    memory.
    """

    async def serialize(
        self, values: Sequence[Any], infos: Sequence[Any], args: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        pieces = ocp.SaveArgs(chunk_byte_size=_PIECE_BYTES)
        for lazy, info in zip(values, infos, strict=True):
            await self._background_serialize([lazy.load()], [info], [pieces])
        return []

    async def _open_and_write(self, value: Any, tspec: Any, ts_context: Any) -> None:
        spec = tensorstore.Spec(tspec)
        store = tensorstore.open(spec, create=True, open=True, context=ts_context).result()
        chunk_sizes: Any = store.chunk_layout.write_chunk.shape or ()  # of a scalar, None
        slices = [
            [slice(start, min(start + step, size)) for start in range(0, size, step)]
            for size, step in zip(value.shape, chunk_sizes, strict=True)
        ]
        for piece in itertools.product(*slices):
            store[piece].write(value[piece]).result()
