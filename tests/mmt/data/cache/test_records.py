"""The wire format against TensorFlow's parser and by round trip; reading at random; full disks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.data.cache import records

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=200)


@given(st.lists(st.tuples(IDS, IDS, st.integers(0, 1000)), min_size=1, max_size=5))
def test_decode_is_the_inverse_of_encode(examples):
    decoded = records.decode([records.encode(*example) for example in examples])
    assert decoded.input_lengths.tolist() == [len(inputs) for inputs, _, _ in examples]
    assert decoded.target_lengths.tolist() == [len(targets) for _, targets, _ in examples]
    assert decoded.inputs.tolist() == [i for inputs, _, _ in examples for i in inputs]
    assert decoded.targets.tolist() == [i for _, targets, _ in examples for i in targets]
    assert decoded.languages.tolist() == [language for _, _, language in examples]


def test_tensorflow_reads_and_writes_the_same_bytes():
    tf = pytest.importorskip("tensorflow")
    random = np.random.default_rng(0)
    for length in (0, 1, 50, 3000):
        inputs = random.integers(0, 2**31 - 1, length).tolist()
        targets = random.integers(0, 300, length // 2).tolist()
        record = records.encode(inputs, targets, 7)
        parsed = tf.train.Example.FromString(record)
        values = {k: list(v.int64_list.value) for k, v in parsed.features.feature.items()}
        assert values == {"inputs": inputs, "language": [7], "targets": targets}
        assert parsed.SerializeToString(deterministic=True) == record
        features = tf.io.parse_single_example(
            record, {k: tf.io.VarLenFeature(tf.int64) for k in values}
        )
        assert features["targets"].values.numpy().tolist() == targets


def test_other_bytes_are_errors():
    record = records.encode([1, 300], [2], 0)
    for broken in (record[:-1], record + b"\0", b"", b"\x0a\x00", record.replace(b"inp", b"out")):
        with pytest.raises(ValueError, match="a record is"):
            records.decode([record, broken])
    with pytest.raises(ValueError, match="got -1"):
        records.encode([-1], [2], 0)


def test_reads_at_random_across_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "SHARD_RECORDS", 300)
    random = np.random.default_rng(0)
    examples = [
        (random.integers(0, 9000, random.integers(1, 9)), random.integers(0, 9, 3).tolist())
        for _ in range(1000)
    ]
    with records.RecordWriter(tmp_path, "deu_Latn", 4) as writer:
        for inputs, targets in examples:
            writer.add(inputs, targets)
    assert writer.count == 1000
    names = sorted(path.name for path in tmp_path.iterdir())
    shards = [f"deu_Latn-0000{i}-of-00004.arrayrecord" for i in range(4)]
    assert names == [*shards, "deu_Latn.lengths.npy"]
    lengths = np.load(tmp_path / "deu_Latn.lengths.npy")
    assert lengths.dtype == np.int32
    assert lengths.tolist() == [[len(inputs), len(targets)] for inputs, targets in examples]
    reader = records.RecordReader(tmp_path, "deu_Latn", 1000)
    assert len(reader) == 1000
    for index in [999, 0, 300, 299, *random.integers(0, 1000, 50).tolist()]:
        np.testing.assert_array_equal(reader[index]["inputs"], examples[index][0])
        assert reader[index]["targets"].tolist() == examples[index][1]
    for index in (-1, 1000):
        with pytest.raises(IndexError, match=f"no record {index}"):
            reader[index]
    with pytest.raises(ValueError, match="1000 records, the manifest says 1001"):
        records.RecordReader(tmp_path, "deu_Latn", 1001)[0]


def test_without_examples_there_are_no_shards(tmp_path):
    with records.RecordWriter(tmp_path, "deu_Latn", 0):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["deu_Latn.lengths.npy"]
    assert np.load(tmp_path / "deu_Latn.lengths.npy").shape == (0, 2)
