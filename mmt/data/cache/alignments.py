"""Word alignments of a language's training examples: a file beside its records.

`<language>.alignment-<digest>.npy` has a uint16 per target token, in the order of the records: the
index of the aligned source token in `inputs` plus 1, or 0. The digest identifies the tokens, so
that a file of other tokens is never read. `mmt data align` writes the files.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
from jaxtyping import Int32, UInt16

from mmt.data.cache.arrays import open_array
from mmt.data.cache.cache import Cache
from mmt.system.atomic import disk_errors

NONE = -1  # no aligned source token
SPLIT = "train"


class Alignments:
    """Random access to the alignments of one language's training examples.

    Raises:
      ValueError: the language has no file, or one of other tokens; the message names the command.
    """

    def __init__(self, cache: Cache, language: str):
        ends = np.cumsum(cache.lengths(language, SPLIT)[:, 1], dtype=np.int64)
        path = path_of(cache, language)
        remedy = f"run `mmt data align {cache.directory}`"
        if not path.is_file():
            stale = " for its present text and vocabulary" if _stale(path) else ""
            raise ValueError(
                f"{cache.directory} has no word alignments of {language}{stale}: {remedy}, "
                "or set pipeline.train_batches.alignment = False"
            )
        self._flat = open_array(
            path, (int(ends[-1]),), np.uint16, remedy=f"delete it, then {remedy}"
        )
        self._ends = ends

    def __getitem__(self, record: int) -> Int32[np.ndarray, "T"]:
        """Returns the index of the aligned source token per target token of a record, or `NONE`."""
        start = self._ends[record - 1] if record else 0
        return self._flat[start : self._ends[record]].astype(np.int32) - 1


def path_of(cache: Cache, language: str) -> Path:
    """Returns the path of the alignments of a language, for the tokens that the cache has now."""
    manifest = cache.manifest
    tokens = [manifest.corpus_hash, manifest.vocabulary_hash, manifest.counts[SPLIT][language]]
    digest = hashlib.sha256(json.dumps(tokens, sort_keys=True).encode()).hexdigest()[:8]
    return cache.directory / SPLIT / f"{language}.alignment-{digest}.npy"


def write(path: Path, aligned: UInt16[np.ndarray, "T"]) -> None:
    """Writes a language's file atomically, and removes those of former tokens."""
    unfinished = path.with_suffix(".part")
    with disk_errors(path):
        with unfinished.open("wb") as stream:
            np.save(stream, aligned)
        unfinished.replace(path)
        for former in _stale(path):
            former.unlink(missing_ok=True)


def _stale(path: Path) -> list[Path]:
    """Returns the files of the same language for other tokens."""
    language = path.name.partition(".")[0]
    return [former for former in path.parent.glob(f"{language}.alignment-*.npy") if former != path]
