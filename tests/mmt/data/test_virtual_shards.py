"""Draws are random access, the same whatever is asked for; lanes share them without a gap."""

import numpy as np
import pytest

from mmt import languages
from mmt.data import cache, mixing, stages, virtual_shards, vocabulary

COUNTS = {"deu_Latn": 300, "swh_Latn": 20}
SHAPE = {"inputs": 16, "targets": 16}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    texts = [language.name for language in languages.all_languages()]
    vocabulary.train(texts, folder / "vocabulary.model", size=600, tags=["<2eng>"])

    def made_up(count):
        return lambda: ([[3 + i % 500] * (1 + i % 9)] * 2 for i in range(count))

    cache.build(
        folder / "cache", {("train", code): made_up(count) for code, count in COUNTS.items()},
        name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies=dict.fromkeys(("source", "target"), folder / "vocabulary.model"),
    )  # fmt: skip
    return cache.open_cache(folder / "cache")


def drawn(split, mixture):
    timeline = stages.Timeline([stages.Stage(mixing=mixture)], split.counts)
    return virtual_shards.Draws(split, timeline, 0)


@pytest.fixture
def draws(opened):
    split = virtual_shards.Split(opened, "train", list(COUNTS), SHAPE)
    return drawn(split, mixing.Mixing(temperature=2.0))


def test_a_draw_does_not_depend_on_what_else_is_asked(draws):
    together = draws.examples(range(2000))
    assert [example.draw for example in together] == list(range(2000))
    assert draws.examples([1999, 7, 7, 0]) == [together[i] for i in (1999, 7, 7, 0)]
    assert [draws.examples([i])[0] for i in range(0, 2000, 97)] == together[::97]


def test_a_subset_of_languages_keeps_each_ones_order(opened, draws):
    split = virtual_shards.Split(opened, "train", ["swh_Latn"], SHAPE)
    alone = drawn(split, mixing.Mixing()).examples(range(60))
    mixed = [example for example in draws.examples(range(2000)) if example.language == 1][:60]
    assert [example.record for example in alone] == [example.record for example in mixed]
    assert {example.language for example in alone} == {1}  # the manifest's id


@pytest.mark.parametrize("open_rows", [0, 3])
def test_lanes_share_the_draws_without_gap_or_repetition(draws, open_rows):
    taken = []
    for number in range(4):
        lane = virtual_shards.Lane(draws, number, 4, open_rows)
        own = [example for _ in range(50) for example in lane.row()]
        own += draws.examples([d for row in lane.get_state()["open"] for d in row])
        assert all(example.draw % 4 == number for example in own)
        assert sorted(example.draw for example in own) == list(
            range(number, lane.get_state()["next"], 4)
        )
        taken += own
    assert len({example.draw for example in taken}) == len(taken)


def test_only_what_fits_is_counted(opened):
    with pytest.warns(UserWarning, match="left out; most of them: deu_Latn 132, swh_Latn 8$"):
        split = virtual_shards.Split(opened, "train", list(COUNTS), {"inputs": 16, "targets": 6})
    assert split.counts == {"deu_Latn": 168, "swh_Latn": 12}
    lengths = np.array([[e.source, e.target] for e in (split.example(0, 0, i) for i in range(168))])
    assert lengths.max() == 6
