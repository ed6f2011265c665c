"""Which baselines, and how long each; training them is tested by the road in test_cli."""

import types

import numpy as np
import pytest

from eval.baselines import Plan, _steps, baselines, choose
from mmt.data import cache, vocab

COUNTS = {f"{code}_Latn": 10 * size for size, code in enumerate(["yor", "swh", "fra", "deu"], 1)}


def test_a_number_is_spread_over_the_sizes():
    assert choose(COUNTS, 2) == ["deu_Latn", "yor_Latn"]
    assert choose(COUNTS, 9) == choose(COUNTS, 4)  # at most so many
    assert choose(COUNTS, 4) == ["deu_Latn", "fra_Latn", "swh_Latn", "yor_Latn"]
    many = {f"x{i:03}_Latn": 1000 - i for i in range(130)}
    ranks = [sorted(many).index(code) for code in choose(many, 12)]
    assert ranks[0] == 0 and ranks[-1] == 129 and max(np.diff(ranks)) - min(np.diff(ranks)) <= 1


def test_names_in_their_order():
    assert choose(COUNTS, ["Swahili", "de"]) == ["swh_Latn", "deu_Latn"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [(0, "0 baselines"), (["zul"], "zul_Latn.*deu_Latn"), (["Germn"], "German")],
)
def test_what_cannot_be_had(wanted, message):
    with pytest.raises(ValueError, match=message):
        choose(COUNTS, wanted)


def test_steps_are_epochs_within_bounds():
    plan = Plan(1, {"inputs": 10, "targets": 20}, batch_size=4, epochs=3.0, steps=(5, 50), period=1,
                patience=1)  # fmt: skip
    # 40 examples of 9+1 source tokens and 4+1 target tokens: 10 batches of 4 rows of 10
    assert _steps(plan, np.full((40, 2), [9, 4])) == 30
    assert _steps(plan, np.full((4, 2), [9, 4])) == 5
    assert _steps(plan, np.full((4000, 2), [9, 4])) == 50


def test_a_cache_of_other_special_ids_is_refused_before_anything_is_written(tmp_path):
    vocab.train(["eins zwei", "one two"], tmp_path / "v.model", size=280, tags=["<2eng>"])
    files = dict.fromkeys(("source", "target"), tmp_path / "v.model")
    examples = {(split, "deu_Latn"): lambda: [([5], [6])] for split in ("train", "validation")}
    cache.build(
        tmp_path / "cache", examples, name="toy", target="eng_Latn", corpus_hash="0",
        vocabularies=files,
    )  # fmt: skip
    own = types.SimpleNamespace(pad_id=0, eos_id=2, start_id=0)
    program = types.SimpleNamespace(model=types.SimpleNamespace(config=own))
    with pytest.raises(ValueError, match=r"the cache has the eos id 1, the model 2"):
        baselines(
            program, Plan(1, {}, 1, 1.0, (1, 1), 1, 1), cache_dir=str(tmp_path / "cache"),
            directory=str(tmp_path / "out"), judge=None, describe_run=None,
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
