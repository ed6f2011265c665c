"""Draws have random access, and virtual shards take each draw exactly once."""

import pytest

from mmt.data import mixing, stages, virtual_shards
from mmt.data.split import Split
from tests.mmt.data.conftest import COUNTS

SHAPE = {"inputs": 16, "targets": 16}


def drawn(split, mixture):
    sampler = stages.CurriculumSampler([stages.Stage(mixing=mixture)], split.counts)
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
