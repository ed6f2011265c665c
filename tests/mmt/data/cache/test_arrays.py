"""An array of a cache is opened as it was written; a file of another shape or type is refused."""

import numpy as np
import pytest

from mmt.data.cache.arrays import open_array


def test_an_array_is_mapped_not_read(tmp_path):
    lengths = np.arange(6, dtype=np.int32).reshape(3, 2)
    np.save(tmp_path / "lengths.npy", lengths)
    opened = open_array(tmp_path / "lengths.npy", (3, 2), np.int32)
    assert isinstance(opened, np.memmap) and (opened == lengths).all()


@pytest.mark.parametrize(
    "content", [np.zeros((2, 2), np.int32), np.zeros((3, 2), np.int64)], ids=["shape", "type"]
)
def test_an_unexpected_array_is_refused(tmp_path, content):
    np.save(tmp_path / "lengths.npy", content)
    with pytest.raises(
        ValueError, match=r"lengths.npy is damaged: .*expected int32 \(3, 2\): copy"
    ):
        open_array(tmp_path / "lengths.npy", (3, 2), np.int32, remedy="copy it again")


@pytest.mark.parametrize("kept", [0, 60], ids=["empty", "truncated"])
def test_a_truncated_file_is_refused(tmp_path, kept):
    file = tmp_path / "lengths.npy"
    np.save(file, np.zeros((3, 2), np.int32))
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ValueError, match="lengths.npy is damaged .*: build the cache again"):
        open_array(file, (3, 2), np.int32)
