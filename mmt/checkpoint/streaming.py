"""Arrays written one at a time, each made when its turn comes: for models larger than memory.

With `mmt.checkpoint` the door to Orbax; this half knows no run directory.
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
def raised_alone() -> Iterator[None]:
    """Inside, what fails in Orbax is raised and not also told, once for each array that shares its
    fate, by its log, by asyncio and by TensorStore.

    Where something failed inside, TensorStore's callbacks may still come after, to a loop that is
    gone: these stay unheard.
    """
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio")]
    levels = [logger.level for logger in loggers]
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_but_late_callbacks, hook)
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


def _but_late_callbacks(hook: Callable[[Any], Any], unraisable: Any) -> None:
    if str(unraisable.exc_value) != "Event loop is closed":
        hook(unraisable)


def write_tree(
    directory: Path, shapes: Any, load: Callable[[str, jax.ShapeDtypeStruct], np.ndarray]
) -> None:
    """Writes a tree of arrays into `directory`.

    shapes: a tree of `jax.ShapeDtypeStruct`. Each array is asked for by `load(path, shape)`, with a
    path like 'encoder/norm/scale', when it is written, one after another, and not kept. OSError
    where it cannot be written.
    """
    tree = jax.tree_util.tree_map_with_path(
        lambda path, shape: _Lazy(shape, functools.partial(load, path_name(path), shape)), shapes
    )
    registry = type_handlers.create_type_handler_registry((_Lazy, _LazyHandler()))
    with raised_alone():
        handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
        with ocp.Checkpointer(handler) as writer, of_the_system():
            writer.save(directory.absolute(), args=ocp.args.PyTreeSave(tree))


def path_name(path: Any) -> str:
    """'encoder/norm/scale' of the keys on the way to a leaf."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


@contextlib.contextmanager
def of_the_system() -> Iterator[None]:
    """A full disk and the like, which TensorStore tells in words, as OSError."""
    try:
        yield
    except Exception as error:
        code = re.search(r"os_error_code='(\d+)'", str(error))
        if code:
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        raise


class _Lazy:
    """An array that is made when it is written."""

    def __init__(self, shape: jax.ShapeDtypeStruct, load: Callable[[], np.ndarray]) -> None:
        self.shape, self.dtype, self.size = shape.shape, shape.dtype, shape.size
        self.nbytes = shape.size * shape.dtype.itemsize
        self.load = load


class _LazyHandler(type_handlers.NumpyHandler):
    """Writes `_Lazy` arrays as NumPy's are written, but one at a time and in pieces, each on disk
    before the next: whatever is on its way there is held in memory once more, and compressed.
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
        steps: Any = store.chunk_layout.write_chunk.shape or ()  # of a scalar, None
        cuts = [
            [slice(start, min(start + step, size)) for start in range(0, size, step)]
            for size, step in zip(value.shape, steps, strict=True)
        ]
        for piece in itertools.product(*cuts):
            store[piece].write(value[piece]).result()
