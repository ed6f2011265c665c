"""The stream: its examples, nothing is cut off, and its state and virtual shards are exact."""

import json
import time
import warnings
from collections import Counter

import numpy as np
import pytest

from mmt.data import cache, mixing, pipeline, schedule
from mmt.data import vocabulary as vocab
from mmt.data.cache import alignments, records
from tests.helpers.streams import (
    LENGTHS,
    batches_of,
    example,
    examples_of,
    part,
    rows_of,
    write_cache,
)

COUNTS = {"deu_Latn": 2000, "fra_Latn": 700, "jpn_Jpan": 250, "swh_Latn": 80, "yor_Latn": 11}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS)


@pytest.fixture
def batches(directory):
    with batches_of(directory) as make:
        yield make


def take(stream, count):
    return [next(stream) for _ in range(count)]


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.keys() == yours.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], yours[name], err_msg=name)


def test_batches_have_the_documented_arrays(batches):
    stream = batches()
    assert stream.manifest.languages == tuple(COUNTS)
    for batch in take(stream, 3):
        assert len(batch) == 9
        for name, array in batch.items():
            assert array.shape == (8, 24 if name.startswith("encoder") else 20)
            assert array.dtype == (np.float32 if name == "decoder_loss_weights" else np.int32)
        assert len(examples_of(batch)) > 8  # packed


def test_alignments_point_to_the_source_of_the_same_example(batches, directory):
    """Here source token i is aligned with target token i where both sides have one."""
    opened = cache.open_cache(directory)
    for code in COUNTS:
        lengths = opened.lengths(code, "train").tolist()
        flat = [i + 1 if i < source else 0 for source, target in lengths for i in range(target)]
        alignments.write(alignments.path_of(opened, code), np.array(flat, np.uint16))
    aligned = take(batches(alignment=True), 4)
    for batch, plain in zip(aligned, take(batches(), 4), strict=True):
        found = batch.pop("decoder_alignment")
        assert_equal([batch], [plain])
        text = batch["decoder_target_tokens"] > vocab.EOS
        assert (found[~text] == -1).all() and (found >= 0).sum() > 50
        rows, targets = np.nonzero(found >= 0)
        sources = found[rows, targets]
        for name in ("positions", "segment_ids"):
            np.testing.assert_array_equal(
                batch[f"encoder_{name}"][rows, sources], batch[f"decoder_{name}"][rows, targets]
            )
        unaligned = text & (found < 0)
        ends = {(row, int(segment)): int((batch["encoder_segment_ids"][row] == segment).sum()) - 1
                for row in range(8) for segment in batch["encoder_segment_ids"][row]}  # fmt: skip
        for row, target in zip(*np.nonzero(unaligned), strict=True):
            segment = int(batch["decoder_segment_ids"][row, target])
            assert batch["decoder_positions"][row, target] >= ends[row, segment]


def test_unpacked_batches_have_one_example_a_row(batches):
    for batch in take(batches(packing=False), 5):
        assert len(examples_of(batch)) == 8
        assert batch["encoder_segment_ids"].max() == 1


def test_drawn_as_often_as_the_mixture_says_rare_ones_early(batches):
    drawn = examples_of(next(batches(packing=False, batch_size=4096, virtual_shards=64)))
    seen = Counter(language for language, _ in drawn)
    shares = mixing.mixing_rates(COUNTS, 5.0)
    for number, code in enumerate(COUNTS):
        assert seen[number] / len(drawn) == pytest.approx(shares[code], rel=0.02)
    in_order = batches(packing=False, batch_size=64, virtual_shards=1)
    drawn = examples_of(next(in_order))
    for number, code in enumerate(COUNTS):
        first = [language for language, _ in drawn].index(number)
        assert first < np.ceil(1 / shares[code])


def test_an_epoch_shows_everything_once_and_the_next_in_another_order(batches):
    stream = batches(packing=False, batch_size=40, virtual_shards=1)
    drawn = [pair for batch in take(stream, 60) for pair in examples_of(batch)]
    assert len(drawn) == 2400
    for number, (code, count) in enumerate(COUNTS.items()):
        order = [index for language, index in drawn if language == number]
        epochs = [order[i : i + count] for i in range(0, len(order) - count + 1, count)]
        for epoch in epochs:
            assert sorted(epoch) == list(range(count)), code
        assert len({tuple(epoch) for epoch in epochs}) == len(epochs), code
        if count < 100:
            assert len(epochs) > 3
    other = next(batches(packing=False, batch_size=40, virtual_shards=1, seed=1))
    assert examples_of(other) != drawn[:40]


def test_mixing_by_gin_names(batches):
    chosen = mixing.Mixing(temperature=1.0, languages=["German", "yo"])
    stream = batches(packing=False, batch_size=2011, virtual_shards=1, mixing=chosen)
    seen = Counter(examples_of(next(stream)))
    assert len(seen) == 2011 and set(seen.values()) == {1}  # T = 1: exactly one epoch of both
    assert {language for language, _ in seen} == {0, 4}


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("after", [0, 1, 7])
def test_state_is_of_the_batch_returned_last(batches, packing, after):
    stream = batches(packing=packing)
    take(stream, after)
    time.sleep(0.2)  # prefetching runs ahead
    state = json.loads(json.dumps(stream.get_state()))
    expected = take(stream, 12)
    restored = batches(packing=packing)
    take(restored, 3)
    restored.set_state(state)
    assert restored.get_state() == state
    assert_equal(take(restored, 12), expected)
    assert restored.get_state() == stream.get_state()


def test_state_of_one_pipeline_goes_back_and_forth(batches):
    stream = batches()
    states, taken = [], []
    for _ in range(6):
        states.append(stream.get_state())
        taken.append(next(stream))
    for index in (5, 0, 3, 3):
        stream.set_state(states[index])
        assert_equal([next(stream)], [taken[index]])
    assert len(json.dumps(states)) < 6 * 10_000


def test_a_state_of_other_settings_is_an_error(batches):
    state = batches().get_state()
    for options, message in (
        ({"seed": 3}, "seed 0, this run has 3"),
        ({"mixing": mixing.Mixing(temperature=1.0)}, "temperature 5.0, this run has 1.0"),
        ({"packing": False}, "packing True"),
        ({"feature_lengths": LENGTHS | {"targets": 30}}, "targets 20"),
        ({"batch_size": 12, "virtual_shards": 4}, "batch_size 12 must be .* virtual_shards, 8"),
    ):
        with pytest.raises(ValueError, match=message):
            batches(**options).set_state(state)
    with pytest.raises(ValueError, match="version 0"):
        batches().set_state(state | {"version": 0})
    with pytest.raises(ValueError, match="lacks the virtual shards 4, 5, 6, 7"):
        batches(process=1, processes=2).set_state(batches(process=0, processes=2).get_state())


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_the_batches_of_one(batches, processes):
    together = take(batches(batch_size=16), 10)
    parts = [
        take(batches(batch_size=16, process=process, processes=processes), 10)
        for process in range(processes)
    ]
    joined = [
        {name: np.concatenate([part[name] for part in step]) for name in step[0]}
        for step in zip(*parts, strict=True)
    ]
    assert_equal(joined, together)


def test_rows_of_a_process_need_not_be_contiguous(batches):
    together = take(batches(batch_size=16, virtual_shards=8), 5)
    stream = batches(batch_size=16, virtual_shards=8)
    stream.share(lambda size: [range(2, 4), range(8, 12)])
    numbers = [2, 3, 8, 9, 10, 11]
    assert_equal(take(stream, 5), [{k: v[numbers] for k, v in batch.items()} for batch in together])


def test_a_process_reads_its_share_alone(batches, monkeypatch):
    read = []
    raw = records.RecordReader.raw
    monkeypatch.setattr(records.RecordReader, "raw", lambda *at: read.append(at) or raw(*at))
    counts = []
    for process, processes in ((0, 1), (0, 2), (1, 2)):
        stream = batches(process=process, processes=processes)
        read.clear()
        rows = take(stream, 30)
        stream.close()  # up to four batches were made ahead
        counts.append(len(read))
        assert counts[-1] >= sum(len(examples_of(batch)) for batch in rows)
    assert max(counts[1:]) < 0.75 * counts[0]


def test_rows_do_not_depend_on_the_batch_size(batches):
    small = rows_of(take(batches(batch_size=4, virtual_shards=4), 12))
    large = rows_of(take(batches(batch_size=16, virtual_shards=4), 3))
    assert len(small) == 48
    assert Counter(small) == Counter(large)
    assert len(set(small)) == 48


def test_a_run_moves_to_other_process_counts_and_batch_sizes(batches):
    stream = batches(batch_size=16, virtual_shards=8)
    take(stream, 5)
    later = take(stream, 4)
    halves = [batches(batch_size=16, virtual_shards=8, process=p, processes=2) for p in (0, 1)]
    for half in halves:
        take(half, 5)
    states = [half.get_state() for half in halves]
    joined = states[0] | {"lane": states[0]["lane"] | states[1]["lane"]}
    alone = batches(batch_size=16)  # 16 virtual shards by itself; the state says 8
    alone.set_state(joined)
    assert_equal(take(alone, 4), later)
    quarter = batches(batch_size=16, virtual_shards=8, process=3, processes=4)
    quarter.set_state(joined)
    assert_equal(take(quarter, 4), [{k: v[12:] for k, v in batch.items()} for batch in later])
    bigger = batches(batch_size=32, virtual_shards=8)
    bigger.set_state(joined)
    assert Counter(rows_of(take(bigger, 2))) == Counter(rows_of(later))


def test_examples_that_do_not_fit_are_left_out_and_counted(batches):
    short = {"inputs": 12, "targets": 20}
    long = sum(len(example(0, i)[0]) + 1 > 12 for count in COUNTS.values() for i in range(count))
    with pytest.warns(UserWarning, match=f"^{long:,} train examples do not fit in inputs 12"):
        stream = batches(feature_lengths=short)
    for batch in take(stream, 20):
        for language, index in examples_of(batch):
            assert len(example(language, index)[0]) < 12
    with (
        pytest.warns(UserWarning, match="no example remains of"),
        pytest.raises(ValueError, match="empty"),
    ):
        batches(feature_lengths={"inputs": 3, "targets": 20})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size 0; allowed: 1 or more"),
        ({"virtual_shards": 3}, "batch_size 8 must be a positive multiple of virtual_shards, 3"),
        (
            {"batch_size": 12, "virtual_shards": 6, "processes": 4},
            "6 virtual shards of 2 rows .* 3 of 12 rows each",
        ),
        (
            {"batch_size": 12, "virtual_shards": 4, "processes": 3},
            "set .*virtual_shards to a multiple of 3 that",
        ),
        ({"feature_lengths": {"inputs": 9}}, "must give 'inputs' and 'targets'"),
        ({"mixing": mixing.Mixing(languages=["swh_Ltn"])}, "nearest: swh_Latn"),
        ({"mixing": mixing.Mixing(languages=[])}, "the mixture is empty"),
        ({"mixing": mixing.Mixing(max_epochs=1.0, examples=10**6)}, "language reaches its cap"),
    ],
)
def test_bad_settings_are_errors(batches, options, message):
    with pytest.raises(ValueError, match=message):
        batches(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": schedule.Schedule}, "schedule is <class .*; allowed: @schedule.Schedule()"),
        ({"schedule": 5}, "schedule is 5; allowed"),
        ({"workers": 1.5}, "workers is 1.5; allowed: whole numbers from 0 on"),
    ],
)
def test_values_of_a_wrong_type_are_errors(batches, options, message, as_users_have_it):
    with pytest.raises(ValueError, match=f"pipeline.train_batches.{message}"):
        batches(**options)


def test_reading_closed_batches_is_an_error(batches, tmp_path):
    stream = batches()
    next(stream)
    stream.close()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        next(stream)
    with pytest.raises(ValueError, match="holds no cache"):
        pipeline.train_batches(tmp_path, feature_lengths=LENGTHS, batch_size=8)


def evaluated(directory, **options):
    return pipeline.eval_batches(
        directory, **{"feature_lengths": LENGTHS, "batch_size": 4, "split": "validation"} | options
    )


def test_evaluation_sees_every_example_once_in_order(directory):
    seen = evaluated(directory)
    assert len(seen) == len(list(seen)) == 9
    everything = [(number, i) for number in range(5) for i in range(5 + number)]
    for _ in range(2):  # as often as one likes
        assert [pair for batch in seen for pair in examples_of(batch)] == everything
    last = list(seen)[-1]
    assert last["decoder_loss_weights"].shape == (4, 20)
    assert last["decoder_loss_weights"].any(axis=1).tolist() == [True, True, True, False]
    assert all(not array[3].any() for array in last.values())


def test_evaluation_of_some_languages_a_limit_a_share(directory):
    swahili = evaluated(directory, languages=["sw"], limit=6)
    assert [examples_of(batch) for batch in swahili] == [
        [(3, 0), (3, 1), (3, 2), (3, 3)],
        [(3, 4), (3, 5)],
    ]
    limited = [pair for batch in evaluated(directory, limit=1) for pair in examples_of(batch)]
    assert limited == [(number, 0) for number in range(5)]
    halves = []
    for process in (0, 1):
        half = evaluated(directory)
        half.share(part(process, 2))
        halves.append(list(half))
    joined = [
        {name: np.concatenate([part[name] for part in step]) for name in step[0]}
        for step in zip(*halves, strict=True)
    ]
    assert_equal(joined, list(evaluated(directory)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "valid"}, "nearest: validation"),
        ({"languages": ["Klingon"]}, "'Klingon' is not among the 5 languages"),
        ({"limit": 0}, "limit must be positive"),
        ({"batch_size": 0}, "batch_size 0; allowed: 1 or more"),
    ],
)
def test_bad_settings_of_evaluation_are_errors(directory, options, message):
    with pytest.raises(ValueError, match=message):
        evaluated(directory, **options)


def test_fewer_held_out_batches_have_fewer_examples_of_every_language(directory):
    given = pipeline.eval_batches(directory, feature_lengths=LENGTHS, batch_size=8, split="train")
    fewer = given.at_most(20)
    assert len(fewer) <= 20 < len(given)
    ids = np.concatenate([
        batch["decoder_language_ids"].max(axis=1)[batch["decoder_segment_ids"].any(axis=1)]
        for batch in fewer
    ])  # fmt: skip
    counts = Counter(ids.tolist())
    assert len(counts) == len(COUNTS) and counts[4] == 11
    assert {counts[n] for n in range(4)} == {min(counts[0], 160)}
    assert sum(counts.values()) + len(COUNTS) > 160


def test_evaluation_of_training_examples_has_no_monolingual_text(tmp_path):
    vocab.train(["Zug train"] * 9, tmp_path / "v.model", size=300, tags=["<extra_id_0>"])
    sides = {"deu_Latn": [[5, 6]] * 2, "deu_Latn.monolingual": [[], [5, 6, 7]]}
    cache.build(
        tmp_path / "mixed",
        {("train", code): (lambda pair=pair: iter([pair] * 3)) for code, pair in sides.items()},
        name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), tmp_path / "v.model"),
    )  # fmt: skip
    seen = evaluated(tmp_path / "mixed", split="train")
    assert seen.languages() == ["deu_Latn"]
    (batch,) = seen
    assert batch["decoder_segment_ids"].tolist() == [[1, 1, 1] + [0] * 17] * 3 + [[0] * 20]
