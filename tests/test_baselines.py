"""Which baselines, and how long each; training them is tested by the road in test_cli."""

import dataclasses
import json

import numpy as np
import pytest

from eval.baselines import (
    CHOSEN,
    Class,
    Judge,
    Plan,
    _steps,
    _Trainer,
    baselines,
    choose,
    grouped,
    tune,
)
from mmt import config
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
    plan = Plan({"inputs": 10, "targets": 20}, batch_size=4, epochs=3.0, steps=(5, 50), period=1,
                patience=1)  # fmt: skip
    # 40 examples of 9+1 source tokens and 4+1 target tokens: 10 batches of 4 rows of 10
    assert _steps(plan, np.full((40, 2), [9, 4])) == 30
    assert _steps(plan, np.full((4, 2), [9, 4])) == 5
    assert _steps(plan, np.full((4000, 2), [9, 4])) == 50


@pytest.fixture
def toy(tmp_path):
    """A cache of one language, 5 examples a split."""
    vocab.train(["eins zwei", "one two"], tmp_path / "v.model", size=280, tags=["<2eng>"])
    files = dict.fromkeys(("source", "target"), tmp_path / "v.model")
    made = vocab.Vocabulary.load(tmp_path / "v.model")
    pairs = [(made.encode("<2eng> eins zwei"), made.encode("one two"))] * 5
    examples = {(split, "deu_Latn"): lambda: pairs for split in ("train", "validation")}
    cache.build(
        tmp_path / "cache", examples, name="toy", target="eng_Latn", corpus_hash="0",
        vocabularies=files,
    )  # fmt: skip
    return tmp_path / "cache"


def load(*bindings):
    config.load(
        ["gin_configs/models/tiny.gin", "gin_configs/runs/train.gin",
         "gin_configs/runs/baseline.gin"],
        ["MODEL_DIR=x", "MIXTURE_OR_TASK_NAME=toy", "TRAIN_STEPS=700", "RESULTS=x", "CORPUS=x",
         *bindings],
    )  # fmt: skip


@pytest.mark.parametrize(("limit", "batches"), [("None", 3), ("2", 1)])
def test_the_configuration_says_how_many_examples_decide_when_one_stops(toy, limit, batches):
    load("BASELINE_BATCH_SIZE=2", f"pipeline.eval_batches.limit={limit}")
    with Class("all").configured() as (program, plan):
        trainer = _Trainer(cache.open_cache(toy), None)
        train, held_out = trainer._job(program, plan, "deu_Latn", toy).data()
        train.close()
        assert len(list(held_out)) == batches
        short = dataclasses.replace(plan, feature_lengths={"inputs": 1, "targets": 1})
        job = trainer._job(program, short, "deu_Latn", toy)
        with (
            pytest.warns(UserWarning, match="nothing is left of deu_Latn"),
            pytest.raises(ValueError, match="deu_Latn: no validation example fits in"),
        ):
            job.data()


@pytest.mark.slow
def test_training_may_begin_with_a_stage_of_copying(toy):
    load(
        "BASELINE_BATCH_SIZE=1", "baselines.Plan.stages=[@a/stages.Stage(), @b/stages.Stage()]",
        "a/stages.Stage.modifiers={'copied': 1.0}", "a/stages.Stage.until={'steps': 1}",
    )  # fmt: skip
    with Class("all").configured() as (program, plan):
        made, _ = _Trainer(cache.open_cache(toy), None)._job(program, plan, "deu_Latn", toy).data()
        texts = vocab.Vocabulary.load(toy.parent / "v.model")
        read = [texts.decode(next(made)["encoder_input_tokens"][0].tolist()) for _ in range(40)]
        made.close()
    assert read[0].startswith("<2eng> one two")
    assert read[-1].startswith("<2eng> eins zwei") and "one" not in read[-1]


def test_a_cache_of_other_special_ids_is_refused_before_anything_is_written(toy, tmp_path):
    load("transformer.Config.eos_id=2")
    with pytest.raises(ValueError, match=r"the cache has the eos id 1, the model 2"):
        baselines(
            1, cache_dir=str(toy), directory=str(tmp_path / "out"), judge=None, describe_run=None
        )
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_judged_is_refused_before_anything_is_written(toy, tmp_path):
    load()
    judge = Judge(testset="cldr", out=str(tmp_path / "rows.jsonl"))
    with pytest.raises(ValueError, match="no test set has got_Goth: cldr; add one"):
        judge.check(["deu_Latn", "got_Goth"])
    manifest = toy / "manifest.json"
    counts = json.loads(manifest.read_text())
    counts["counts"]["validation"]["deu_Latn"] = 0
    manifest.write_text(json.dumps(counts))
    with pytest.raises(ValueError, match="no validation examples for deu_Latn: a baseline stops"):
        baselines(
            1, cache_dir=str(toy), directory=str(tmp_path / "out"), judge=judge, describe_run=None
        )
    assert not (tmp_path / "out").exists()


def test_what_is_done_keeps_the_words_it_was_done_by(toy, tmp_path):
    load("BASELINE_BATCH_SIZE=2", "baselines.Plan.steps=(1, 1)")
    done = tmp_path / "deu_Latn"
    (done / "checkpoints" / "1").mkdir(parents=True)
    (done / CHOSEN).write_text("as it was\n")
    _Trainer(cache.open_cache(toy), None)(Class("all"), ["deu_Latn"], tmp_path, "otherwise")
    assert (done / CHOSEN).read_text() == "as it was\n"


def test_classes_by_training_pairs():
    low, other, high = Class("low"), Class("other"), Class("high", least=20)
    assert grouped(COUNTS, [low, high, other]) == [
        ([high], ["deu_Latn", "fra_Latn", "swh_Latn"]), ([low, other], ["yor_Latn"])
    ]  # fmt: skip
    assert grouped(COUNTS, [Class("rich", least=999), low]) == [
        ([low], ["deu_Latn", "fra_Latn", "swh_Latn", "yor_Latn"])
    ]
    with pytest.raises(ValueError, match="no class of baselines for yor_Latn with fewer than 20"):
        grouped(COUNTS, [high])
    with pytest.raises(ValueError, match="low, low; each once"):
        grouped(COUNTS, [low, low])
    with pytest.raises(ValueError, match="tried_on differs at least = 0: low 4, other 2"):
        grouped(COUNTS, [low, Class("other", tried_on=2)])


def test_the_class_of_the_least_validation_loss_trains_them_all(tmp_path):
    losses = {"dry": 3.0, "wet": 2.5, "wild": 2.75}
    asked = []

    def trainer(one, codes, directory, chosen):
        asked.append((one.name, list(codes)))
        for i, code in enumerate(codes):
            (directory / code).mkdir(parents=True)
            rows = [{"step": step, "validation_loss": losses[one.name] + i + 1 / step}
                    for step in (1, 2)]  # fmt: skip
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (directory / code / "metrics.jsonl").write_text(text)

    classes = [Class(name, bindings=[f"A = {name!r}"], tried_on=2) for name in losses]
    best, why = tune(classes, ["a", "b", "c"], trainer=trainer, directory=tmp_path)
    assert best.name == "wet" and asked == [(name, ["a", "c"]) for name in losses]
    assert "wet (A = 'wet') 3.500" in why and "dry (A = 'dry') 4.000" in why and "a, c" in why
    table = json.loads((tmp_path / "tuning" / "least_0.json").read_text())
    assert table["chosen"] == "wet" and table["losses"]["wild"] == {"a": 3.25, "c": 4.25}
    taken = {path.parent.name: path.read_text() for path in tmp_path.glob("?/chosen.txt")}
    assert taken == {"a": f"{why}\n", "c": f"{why}\n"}  # what was tried is not trained again
    assert (tmp_path / "c/metrics.jsonl").read_text() == (
        tmp_path / "tuning/wet/c/metrics.jsonl"
    ).read_text()
    assert tune(classes[:1], ["a"], trainer=None, directory=tmp_path)[0] == classes[0]


def test_a_class_changes_the_configuration_while_it_trains():
    load()
    small = Class("small", bindings=["DROPOUT_RATE = 0.3", "transformer.Config.emb_dim = 64",
                                     "baselines.Plan.epochs = 9.0"])  # fmt: skip
    before = config.complete()
    with small.configured() as (program, plan):
        assert program.model.config.dropout_rate == 0.3 and program.model.config.emb_dim == 64
        assert plan.epochs == 9.0 and plan.steps == (100, 700)
        assert "transformer.Config.emb_dim = 64" in config.complete()
    assert config.complete() == before
    with pytest.raises(ValueError, match="nearest: DROPOUT_RATE"):
        with Class("wrong", bindings=["DROPOUT_RAT = 0.3"]).configured():
            pass
    with pytest.raises(ValueError, match="gin: "):
        with Class("wrong", bindings=["DROPOUT_RATE = )"]).configured():
            pass
