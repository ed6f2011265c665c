"""Packing loses nothing and overfills nothing; arrays as a plain loop and as SeqIO make them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.data import packing
from mmt.data.cache import records

LENGTHS = st.lists(st.tuples(st.integers(1, 10), st.integers(1, 8)), max_size=60)
INTEGERS = (
    "encoder_input_tokens", "encoder_segment_ids", "encoder_positions", "decoder_input_tokens",
    "decoder_target_tokens", "decoder_segment_ids", "decoder_positions", "decoder_language_ids",
)  # fmt: skip


def make_up(lengths):
    """Examples of these lengths (with EOS), and their tokens."""
    random = np.random.default_rng(0)
    examples, texts = [], []
    for index, (source, target) in enumerate(lengths):
        examples.append(packing.PackedExample(index, index % 3, index, source, target))
        texts.append([random.integers(3, 99, n - 1).tolist() for n in (source, target)])
    return examples, texts


def assembled(rows, texts, source, target, **options):
    flat = [example for row in rows for example in row]
    raw = [records.encode(*texts[e.record], e.language) for e in flat]
    return packing.assemble(rows, records.decode(raw), source=source, target=target, **options)


def test_the_ids_are_those_of_the_vocabulary_and_the_model():
    examples = [packing.PackedExample(0, 0, 0, 3, 2), packing.PackedExample(1, 0, 1, 2, 3)]
    texts = [([5, 6], [7]), ([8], [9, 2])]
    batch = assembled([examples], texts, 6, 6, pad=90, eos=91, start=92)
    expected = {
        "encoder_input_tokens": [5, 6, 91, 8, 91, 90],
        "encoder_segment_ids": [1, 1, 1, 2, 2, 0],
        "decoder_target_tokens": [7, 91, 9, 2, 91, 90],
        "decoder_input_tokens": [92, 7, 92, 9, 2, 90],
        "decoder_positions": [0, 1, 0, 1, 2, 0],
        "decoder_loss_weights": [1, 1, 1, 1, 1, 0],
    }
    assert {name: batch[name][0].tolist() for name in expected} == expected


@given(LENGTHS, st.integers(0, 4))
def test_packer_keeps_every_example_once_and_fills_no_row_over(lengths, open_rows):
    examples, _ = make_up(lengths)
    packer = packing.Packer(10, 8, open_rows=open_rows)
    done = []
    for example in examples:
        row = packer.add(example)
        done += [row] if row else []
        assert len(packer.open) <= open_rows
    rows = done + packer.open
    assert sorted(example for row in rows for example in row) == examples
    for row in rows:
        assert row == sorted(row)
        assert sum(e.source for e in row) <= 10 and sum(e.target for e in row) <= 8
    assert [row[0].draw for row in rows] == sorted(row[0].draw for row in rows)  # oldest first
    if open_rows == 0:
        assert rows == [[example] for example in examples]


@given(LENGTHS, LENGTHS)
def test_packer_resumes_from_its_open_rows(lengths, more):
    examples, _ = make_up(lengths + more)
    packer = packing.Packer(10, 8, open_rows=3)
    for example in examples[: len(lengths)]:
        packer.add(example)
    other = packing.Packer(10, 8, open_rows=3)
    other.restore([list(row) for row in packer.open])
    for example in examples[len(lengths) :]:
        assert other.add(example) == packer.add(example)


@settings(deadline=None)
@given(LENGTHS)
def test_arrays_are_those_of_a_plain_loop(lengths):
    examples, texts = make_up(lengths)
    packer = packing.Packer(10, 8, open_rows=2)
    rows = [row for example in examples if (row := packer.add(example))] + packer.open + [[]]
    batch = assembled(rows, texts, 10, 8)
    expected = {name: np.zeros((len(rows), 10 if "enc" in name else 8), int) for name in INTEGERS}
    for index, row in enumerate(rows):
        at = {"encoder": 0, "decoder": 0}
        for segment, example in enumerate(row, 1):
            for side, text in zip(("encoder", "decoder"), texts[example.record], strict=True):
                for position, token in enumerate([*text, 1]):
                    here = (index, at[side] + position)
                    expected[f"{side}_segment_ids"][here] = segment
                    expected[f"{side}_positions"][here] = position
                    if side == "encoder":
                        expected["encoder_input_tokens"][here] = token
                    else:
                        before = text[position - 1] if position else 0
                        expected["decoder_input_tokens"][here] = before
                        expected["decoder_target_tokens"][here] = token
                        expected["decoder_language_ids"][here] = example.language
                at[side] += len(text) + 1
    assert set(batch) == {*INTEGERS, "decoder_loss_weights"}
    for name in INTEGERS:
        assert batch[name].dtype == np.int32
        np.testing.assert_array_equal(batch[name], expected[name], err_msg=name)
    weights = batch["decoder_loss_weights"]
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, expected["decoder_target_tokens"] > 0)


@settings(deadline=None)
@given(LENGTHS)
def test_alignments_are_positions_in_the_row_of_the_encoder(lengths):
    examples, texts = make_up(lengths)
    packer = packing.Packer(10, 8, open_rows=2)
    rows = [row for example in examples if (row := packer.add(example))] + packer.open + [[]]
    random = np.random.default_rng(1)
    aligned = {e.record: random.integers(-1, e.source - 1, e.target - 1) for e in examples}
    flat = [position for row in rows for e in row for position in aligned[e.record].tolist()]
    batch = assembled(rows, texts, 10, 8, alignment=np.array(flat, np.int32))
    plain = assembled(rows, texts, 10, 8)
    expected = np.full((len(rows), 8), -1)
    for index, row in enumerate(rows):
        source = target = 0
        for example in row:
            for token, position in enumerate(aligned[example.record].tolist()):
                if position >= 0:
                    expected[index, target + token] = source + position
            source, target = source + example.source, target + example.target
    np.testing.assert_array_equal(batch["decoder_alignment"], expected)
    assert batch["decoder_alignment"].dtype == np.int32
    assert batch.keys() - plain.keys() == {"decoder_alignment"}
    for name, array in plain.items():
        np.testing.assert_array_equal(batch[name], array, err_msg=name)


@pytest.mark.parametrize("count", [1, 3])
def test_seqio_makes_the_same_arrays(count):
    seqio = pytest.importorskip("seqio")
    import tensorflow as tf

    examples, texts = make_up([(5, 4), (3, 6), (7, 2)][:count])
    ours = assembled([examples], texts, 20, 16)
    features = {
        name: tf.ragged.constant([[*text[side], 1] for text in texts], dtype=tf.int32)
        for side, name in enumerate(("inputs", "targets"))
    }
    converter = seqio.EncDecFeatureConverter(pack=count > 1)
    dataset = tf.data.Dataset.from_tensor_slices(features).map(
        lambda example: {name: tf.convert_to_tensor(ids) for name, ids in example.items()}
    )
    theirs = next(converter(dataset, {"inputs": 20, "targets": 16}).as_numpy_iterator())
    assert len(theirs) == (8 if count > 1 else 4)
    # Without packing SeqIO shifts the padded row: EOS stands, without weight, after the end.
    is_text = ours["decoder_target_tokens"][0] > 0
    for name, array in theirs.items():
        if name == "decoder_input_tokens":
            array = array * is_text
        np.testing.assert_array_equal(ours[name][0], array, err_msg=name)


def test_records_that_are_not_the_planned_ones_are_an_error():
    examples, texts = make_up([(5, 4), (3, 6)])
    with pytest.raises(ValueError, match="do not match"):
        assembled([examples], texts[::-1], 20, 16)
