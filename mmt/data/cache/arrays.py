"""The NumPy files of a cache: opened without reading them, and compared with the manifest."""

from pathlib import Path

import numpy as np


def open_array(
    path: Path, shape: tuple[int, ...], dtype: type, *, remedy: str = "build the cache again"
) -> np.ndarray:
    """Returns the memory-mapped array of a .npy file.

    Raises:
      ValueError: the file is damaged, or has another shape or type; the message has the remedy.
    """
    try:
        array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): {remedy}") from error
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"{path} is damaged: it has {array.dtype} {array.shape}, expected {np.dtype(dtype)} "
            f"{shape}: {remedy}"
        )
    return array
