"""Draws have random access, and virtual shards take each draw exactly once."""

import pytest

from mmt.data import curriculum, ledger, mixing, stages, virtual_shards
from mmt.data.split import Split
from tests.mmt.data.conftest import COUNTS

SHAPE = {"inputs": 16, "targets": 16}


def drawn(split, mixture):
    sampler = curriculum.CurriculumSampler([stages.Stage(mixing=mixture)], split.counts)
    return virtual_shards.SampleOrder(split, sampler, 0)


@pytest.fixture
def order(opened):
    split = Split(opened, "train", list(COUNTS), SHAPE)
    return drawn(split, mixing.Mixing(temperature=2.0))


def test_a_draw_does_not_depend_on_the_other_draws(order):
    together = order.examples(range(2000))
    assert [example.draw for example in together] == list(range(2000))
    assert order.examples([1999, 7, 7, 0]) == [together[i] for i in (1999, 7, 7, 0)]
    assert [order.examples([i])[0] for i in range(0, 2000, 97)] == together[::97]


def test_a_subset_of_languages_keeps_each_ones_order(opened, order):
    split = Split(opened, "train", ["swh_Latn"], SHAPE)
    alone = drawn(split, mixing.Mixing()).examples(range(60))
    mixed = [example for example in order.examples(range(2000)) if example.language == 1][:60]
    assert [example.record for example in alone] == [example.record for example in mixed]
    assert {example.language for example in alone} == {1}  # the manifest's id


@pytest.mark.parametrize("open_rows", [0, 3])
def test_virtual_shards_share_the_draws_without_gap_or_repetition(order, open_rows):
    taken = []
    for number in range(4):
        shard = virtual_shards.VirtualShard(order, number, 4, open_rows)
        taken_here = [example for _ in range(50) for example in shard.row()]
        taken_here += order.examples([d for row in shard.get_state()["open"] for d in row])
        assert all(example.draw % 4 == number for example in taken_here)
        assert sorted(example.draw for example in taken_here) == list(
            range(number, shard.get_state()["next"], 4)
        )
        taken += taken_here
    assert len({example.draw for example in taken}) == len(taken)


def staged(opened, end, limit=5, last=None):
    split = Split(opened, "train", list(COUNTS), SHAPE)
    first = stages.Stage({"examples": end}, mixing.Mixing(temperature=2.0), max_targets=limit)
    both = [first, stages.Stage(mixing=mixing.Mixing(temperature=2.0), max_targets=last)]
    return virtual_shards.SampleOrder(split, curriculum.CurriculumSampler(both, split.counts), 0)


def test_a_stage_of_short_lines_repeats_none_before_all_were_drawn(opened):
    """The fixture's examples have 1 to 9 tokens in turn; with EOS, 4 of 9 are of at most 5."""
    short = staged(opened, 900)
    drawn_first, drawn_after = short.examples(range(900)), short.examples(range(900, 1800))
    assert {example.target for example in drawn_first} == {2, 3, 4, 5}
    assert {example.target for example in drawn_after} == set(range(2, 11))
    assert drawn_after == staged(opened, 900, None).examples(range(900, 1800))
    for language, count in enumerate(COUNTS.values()):
        allowed = [index for index in range(count) if index % 9 < 4]
        records = [example.record for example in drawn_first if example.language == language]
        assert len(records) >= 2 * len(allowed)
        assert sorted(records[: len(allowed)]) == allowed
        assert sorted(records[len(allowed) : 2 * len(allowed)]) == allowed
    assert short.examples([1000, 3]) == [drawn_after[100], drawn_first[3]]


def test_the_last_example_of_a_language_is_merged_before_a_stage_of_short_lines_without_it(opened):
    split = Split(opened, "train", list(COUNTS), SHAPE)
    first = stages.Stage({"examples": 40}, mixing.Mixing(), {"merged": 1.0})
    last = stages.Stage(mixing=mixing.Mixing(languages=["deu"]), max_targets=5)
    sampler = curriculum.CurriculumSampler([first, last], split.counts)
    order = virtual_shards.SampleOrder(split, sampler, 0)
    examples = order.examples(range(80))
    assert sum(example.language == 1 for example in examples) == sampler.before(40)[1] > 0
    assert {example.target for example in examples[40:]} <= {2, 3, 4, 5}


@pytest.mark.parametrize("limits", [(5, None), (None, 5), (4, 8)])
def test_merged_examples_do_not_depend_on_the_end_of_their_stage(opened, limits):
    """A validation loss may end a stage when its examples are in open rows already."""
    split = Split(opened, "train", list(COUNTS), SHAPE)

    def ending_at(draw):
        first = stages.Stage({"examples": draw}, mixing.Mixing(), {"merged": 1.0}, limits[0])
        last = stages.Stage(mixing=mixing.Mixing(), max_targets=limits[1])
        sampler = curriculum.CurriculumSampler([first, last], split.counts)
        return virtual_shards.SampleOrder(split, sampler, 0)

    late = ending_at(900).examples(range(200))
    assert [ending_at(end).examples(range(end)) == late[:end] for end in range(60, 200, 20)] == (
        [True] * 7
    )
    assert len({example.target for example in late}) > 5  # some are merged


@pytest.mark.parametrize("last", [None, 8])
def test_the_ledger_counts_stages_of_short_lines(opened, last):
    order = staged(opened, 900, last=last)
    counter = ledger.Counter(order)
    since, until = (order.sampler.before(draw) for draw in (100, 4000))
    examples = order.examples(range(100, 4000))
    counted = counter.appearances(since, until).sum(axis=0)
    targets = sum(example.target for example in examples)
    assert counted[[0, 2]].tolist() == [len(examples), targets]


def test_a_stage_of_short_lines_has_some_of_every_language(opened):
    split = Split(opened, "train", list(COUNTS), SHAPE)
    sampler = curriculum.CurriculumSampler([stages.Stage(max_targets=1)], split.counts)
    with pytest.raises(ValueError, match=r"max_targets = 1, but .* deu_Latn has 2; allowed: 2"):
        virtual_shards.SampleOrder(split, sampler, 0)
    with pytest.raises(ValueError, match=r"max_targets = 0; allowed: a number of tokens, 1"):
        curriculum.CurriculumSampler([stages.Stage(max_targets=0)], split.counts)
