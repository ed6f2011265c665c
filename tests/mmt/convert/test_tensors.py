"""safetensors files: read and written one tensor at a time, equal to the library's."""

import json

import numpy as np
import pytest
import safetensors.numpy

from mmt.convert import tensors

RANDOM = np.random.default_rng(0)
ARRAYS = {f"part.{i}": RANDOM.normal(size=(i + 1, 7)).astype(np.float32) for i in range(9)}
SHAPES = {name: array.shape for name, array in ARRAYS.items()}


def write(directory):
    with tensors.TensorWriter(directory, SHAPES) as writer:
        for name in reversed(ARRAYS):  # any order
            writer[name] = ARRAYS[name]


def same(tensors_read):
    assert tensors_read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(tensors_read[name], array)


@pytest.mark.parametrize("piece", [20, 100, 1 << 24])  # less than a row, some rows, all
def test_a_single_file_round_trips(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(tensors, "PIECE_BYTES", piece)
    write(tmp_path)
    same(safetensors.numpy.load_file(tmp_path / "model.safetensors"))
    tensors_read = tensors.Tensors(tmp_path)
    assert tensors_read.shapes == SHAPES
    same(tensors_read)


def test_shards_as_hugging_face_has_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tensors, "SHARD_BYTES", 400)
    write(tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == ARRAYS.keys()
    assert index["metadata"]["total_size"] == sum(array.nbytes for array in ARRAYS.values())
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert files == sorted(set(index["weight_map"].values())) and len(files) > 2
    read = {}
    for file in files:
        shard = safetensors.numpy.load_file(tmp_path / file)
        assert {index["weight_map"][name] for name in shard} == {file}
        assert sum(array.nbytes for array in shard.values()) <= 400
        read |= shard
    same(read)
    same(tensors.Tensors(tmp_path))


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (2, 3, 4)])
def test_tensors_of_any_rank(tmp_path, shape, monkeypatch):
    monkeypatch.setattr(tensors, "PIECE_BYTES", 8)
    array = RANDOM.normal(size=shape).astype(np.float32)
    with tensors.TensorWriter(tmp_path, {"x": shape}) as writer:
        writer["x"] = array
    np.testing.assert_array_equal(tensors.Tensors(tmp_path)["x"], array)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_nan_is_refused_when_it_is_read(tmp_path, bad):
    safetensors.numpy.save_file(
        {"x": np.float32([[1, 2], [bad, 3]]), "y": np.ones(2, np.float32)},
        tmp_path / "model.safetensors",
    )
    tensors_read = tensors.Tensors(tmp_path)
    np.testing.assert_array_equal(tensors_read["y"], 1)
    with pytest.raises(ValueError, match="model.safetensors: x is not finite: 1 of its numbers"):
        tensors_read["x"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats_become_float32(tmp_path, dtype):
    array = RANDOM.normal(size=(3, 4)).astype(dtype)
    safetensors.numpy.save_file({"x": array}, tmp_path / "model.safetensors")
    read = tensors.Tensors(tmp_path)["x"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, array.astype(np.float32))


def test_integers_are_refused(tmp_path):
    safetensors.numpy.save_file({"x": np.ones(3, np.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="x is I8; allowed: F32, BF16"):
        tensors.Tensors(tmp_path)


def test_an_unwritten_tensor_or_another_shape_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="not written: part.8"):
        with tensors.TensorWriter(tmp_path, SHAPES) as writer:
            for name in list(ARRAYS)[:-1]:
                writer[name] = ARRAYS[name]
    with pytest.raises(ValueError, match=r"part.0 has the shape \(2, 7\), not \(1, 7\)"):
        with tensors.TensorWriter(tmp_path, SHAPES) as writer:
            writer["part.0"] = ARRAYS["part.1"]


@pytest.mark.parametrize(
    "files, message",
    [
        (3, "index.json is no index"),
        (["model.safetensors"], "index.json is no index"),
        ({"x": 5}, "index.json: the file of x is 5; allowed: the name of a file"),
        ({"x": ["a"]}, r"index.json: the file of x is \['a'\]; allowed: the name of a file"),
        ({"x": "../../x"}, "index.json: the file of x is '../../x'; allowed: the name of a file"),
        ({"x": "/etc/x"}, "index.json: the file of x is '/etc/x'; allowed: the name of a file"),
        ({"x": ".."}, r"1 of 1 files named in .* are missing: \.\."),
        ({"part.1": "a.safetensors", "x": "a.safetensors"}, "a.safetensors: missing, but in .*: x"),
    ],
)
def test_a_broken_index_is_an_error(tmp_path, files, message):
    safetensors.numpy.save_file(ARRAYS, tmp_path / "a.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(ValueError, match=message):
        tensors.Tensors(tmp_path)
