"""Which baselines, and how long each; training them is tested by the road in test_cli."""

import dataclasses
import json

import numpy as np
import pytest

from eval.baselines import Judge, baselines, choose
from eval.baselines.bilingual import _steps, _Trainer
from eval.baselines.simultaneous import Diverged
from eval.baselines.tuning import CHOSEN, Class, Plan
from mmt import config, translate
from mmt.data import cache, vocabulary
from mmt.data.stages import Stage
from mmt.run import Run

COUNTS = {f"{code}_Latn": 10 * size for size, code in enumerate(["yor", "swh", "fra", "deu"], 1)}


def test_a_number_of_languages_is_spread_over_the_sizes():
    assert choose(COUNTS, 2) == ["deu_Latn", "yor_Latn"]
    assert choose(COUNTS, 9) == choose(COUNTS, 4)  # at most so many
    assert choose(COUNTS, 4) == ["deu_Latn", "fra_Latn", "swh_Latn", "yor_Latn"]
    sizes = {f"x{i:03}_Latn": 1000 - i for i in range(130)}
    ranks = [sorted(sizes).index(code) for code in choose(sizes, 12)]
    assert ranks[0] == 0 and ranks[-1] == 129 and max(np.diff(ranks)) - min(np.diff(ranks)) <= 1


def test_names_in_their_order():
    assert choose(COUNTS, ["Swahili", "de"]) == ["swh_Latn", "deu_Latn"]


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (0, "0 baselines"), ([], "a list of names"), ("deu", "a list of names"),
        (["zul"], "zul_Latn.*deu_Latn"), (["Germn"], "German"),
    ],
)
def test_languages_that_cannot_have_baselines_are_errors(languages, message):
    with pytest.raises(ValueError, match=message):
        choose(COUNTS, languages)


def test_steps_are_epochs_within_bounds():
    plan = Plan({"inputs": 10, "targets": 20}, batch_size=4, epochs=3.0, steps=(5, 50), period=1,
                patience=1)  # fmt: skip
    # 40 examples of 9+1 source tokens and 4+1 target tokens: 10 batches of 4 rows of 10
    assert _steps(plan, np.full((40, 2), [9, 4])) == 30
    assert _steps(plan, np.full((4, 2), [9, 4])) == 5
    assert _steps(plan, np.full((4000, 2), [9, 4])) == 50
    copies = Stage({"steps": 7}, modifiers={"copied": 1.0})
    staged = dataclasses.replace(plan, stages=[copies, Stage()])
    assert _steps(staged, np.full((40, 2), [9, 4])) == 37  # passes are those over pairs


@pytest.fixture
def toy(tmp_path):
    """A cache of one language, 5 examples a split."""
    return cache_of(tmp_path, {"deu_Latn": 5})


def cache_of(tmp_path, sizes):
    """A cache of these languages with as many examples a split."""
    vocabulary.train(["eins zwei", "one two"], tmp_path / "v.model", size=280, tags=["<2eng>"])
    files = dict.fromkeys(("source", "target"), tmp_path / "v.model")
    made = vocabulary.Vocabulary.load(tmp_path / "v.model")
    pair = (made.encode("<2eng> eins zwei"), made.encode("one two"))
    examples = {
        (split, code): lambda size=size: [pair] * size
        for split in ("train", "validation")
        for code, size in sizes.items()
    }
    cache.build(
        tmp_path / "cache", examples, name="toy", target="eng_Latn", corpus_hash="0",
        vocabularies=files,
    )  # fmt: skip
    return tmp_path / "cache"


class Judging:
    """Accepts every language; records which are evaluated."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    def check(self, languages, manifest) -> None:
        pass

    def __call__(self, translator, model_dir, language) -> None:
        self.judged.append(language)


def load(*bindings):
    config.load(
        ["gin_configs/models/tiny.gin", "gin_configs/runs/train.gin",
         "gin_configs/runs/baseline.gin"],
        ["MODEL_DIR=x", "MIXTURE_OR_TASK_NAME=toy", "TRAIN_STEPS=700", "RESULTS=x", "CORPUS=x",
         *bindings],
    )  # fmt: skip


@pytest.mark.parametrize(("limit", "batches"), [("None", 3), ("2", 1)])
def test_the_configuration_bounds_the_examples_of_early_stopping(toy, limit, batches):
    load("BASELINE_BATCH_SIZE=2", f"pipeline.eval_batches.limit={limit}")
    with Class("all").configured() as (program, plan):
        opened = cache.open_cache(toy)
        trainer, text = _Trainer(opened), ("deu_Latn", opened)
        train, held_out = trainer._job(program, plan, text, toy).data()
        train.close()
        assert len(list(held_out)) == batches
        short = dataclasses.replace(plan, feature_lengths={"inputs": 1, "targets": 1})
        job = trainer._job(program, short, text, toy)
        with (
            pytest.warns(UserWarning, match="no example remains of deu_Latn"),
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
        text = "deu_Latn", cache.open_cache(toy)
        made, _ = _Trainer(text[1])._job(program, plan, text, toy).data()
        texts = vocabulary.Vocabulary.load(toy.parent / "v.model")
        read = [texts.decode(next(made)["encoder_input_tokens"][0].tolist()) for _ in range(40)]
        made.close()
    assert read[0].startswith("<2eng> one two")
    assert read[-1].startswith("<2eng> eins zwei") and "one" not in read[-1]


@pytest.mark.parametrize(
    ("binding", "message"),
    [("transformer.Config.eos_id=2", "the cache has the eos id 1, the model 2"),
     ("pipeline.train_batches.leave_out=['web']", "baselines are trained on all corpora")],
)  # fmt: skip
def test_what_does_not_fit_baselines_is_refused_before_anything_is_written(
    toy, tmp_path, binding, message
):
    load(binding)
    with pytest.raises(ValueError, match=message):
        baselines(
            1, cache_dir=str(toy), directory=str(tmp_path / "out"), judge=Judging(),
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_judged_is_refused_before_anything_is_written(toy, tmp_path):
    load()
    (folder := tmp_path / "one").mkdir()
    (folder / "de.tsv").write_text("eins\tone\n")
    judge = Judge(testset=str(folder), out=str(tmp_path / "rows.jsonl"))
    with pytest.raises(ValueError, match="no test set has got_Goth: .*one; add one"):
        judge.check(["deu_Latn", "got_Goth"], cache.open_cache(toy).manifest)
    manifest = toy / "manifest.json"
    counts = json.loads(manifest.read_text())
    counts["counts"]["validation"]["deu_Latn"] = 0
    manifest.write_text(json.dumps(counts))
    with pytest.raises(ValueError, match="no validation examples for deu_Latn: baselines need"):
        baselines(
            1, cache_dir=str(toy), directory=str(tmp_path / "out"), judge=judge
        )
    manifest.write_text(json.dumps(counts | {"source": "eng_Latn", "target": ""}))
    with pytest.raises(ValueError, match="from eng_Latn into other languages, but baselines are"):
        baselines(1, cache_dir=str(toy), directory=str(tmp_path / "out"), judge=judge)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("period", "warned"), [(1, 1), (2, 0)])
def test_a_finished_baseline_keeps_its_description(toy, tmp_path, recwarn, period, warned):
    """A warning names it if its last validation of several was the best."""
    load("BASELINE_BATCH_SIZE=2", "baselines.Plan.steps=(2, 2)", f"EVAL_PERIOD={period}")
    done = tmp_path / "deu_Latn"
    (done / "checkpoints" / "2").mkdir(parents=True)
    (done / CHOSEN).write_text("as it was\n")
    _Trainer(cache.open_cache(toy))(Class("all"), ["deu_Latn"], tmp_path, "otherwise")
    assert (done / CHOSEN).read_text() == "as it was\n"
    told = [str(each.message) for each in recwarn if "class all: 1 of 1" in str(each.message)]
    assert len(told) == warned and all("(deu_Latn)" in text for text in told)


def test_settings_without_effect_on_finished_baselines_are_named(toy, tmp_path, recwarn):
    sizes = "BASELINE_BATCH_SIZE=2", "baselines.Plan.steps=(2, 2)", "EVAL_PERIOD=2"
    load(*sizes, "DROPOUT_RATE=0.1")
    opened = cache.open_cache(toy)
    done = Run(tmp_path / "deu_Latn")
    done.describe(opened, ["deu_Latn"])
    (done.checkpoints / "2").mkdir(parents=True)
    trainer = _Trainer(opened)
    load(*sizes, "DROPOUT_RATE=0.1", "BASELINE_LANGUAGES=3", "TESTSET=y")
    trainer(Class("all"), ["deu_Latn"], tmp_path, "")
    assert not recwarn.list
    load(*sizes, "DROPOUT_RATE=0.3")
    with pytest.warns(UserWarning, match="DROPOUT_RATE = 0.3, there 0.1 .deu_Latn.. Set another"):
        trainer(Class("all"), ["deu_Latn"], tmp_path, "")
    manifest = json.loads(done.manifest.read_text()) | {"corpus_hash": "1"}
    done.manifest.write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match="another corpus .deu_Latn."):
        trainer(Class("all"), ["deu_Latn"], tmp_path, "")


def test_a_diverged_baseline_is_named_and_not_evaluated(toy, tmp_path, monkeypatch):
    load("BASELINE_BATCH_SIZE=2")
    judge = Judging()

    def diverges(trainer, chosen_class, codes, directory, chosen):
        raise Diverged({"deu_Latn": "x/deu_Latn up to step 20"})

    monkeypatch.setattr(_Trainer, "__call__", diverges)
    with pytest.raises(ValueError, match="no finite loss or gradient: x/deu_Latn up to step 20"):
        baselines(1, cache_dir=str(toy), directory=str(tmp_path / "out"),
                  judge=judge)  # fmt: skip
    assert not judge.judged


def test_a_class_is_evaluated_before_the_next_is_trained(tmp_path, monkeypatch):
    load("BASELINE_BATCH_SIZE=2")
    made = cache_of(tmp_path, {"deu_Latn": 5, "yor_Latn": 3})
    judge = Judging()
    events = judge.judged

    def trains(self, best, codes, directory, chosen):
        events.append(best.name)

    monkeypatch.setattr(_Trainer, "__call__", trains)
    monkeypatch.setattr(translate.Translator, "load", lambda model_dir: None)
    baselines(
        2, cache_dir=str(made), directory=str(tmp_path / "out"), judge=judge,
        classes=[Class("low"), Class("high", least=5)],
    )  # fmt: skip
    assert events == ["high", "deu_Latn", "low", "yor_Latn"]


STAGES = "baselines.Plan.stages = [@stages.Stage()]"


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        (["baselines.Plan.patience = 0"], "Class hasty: .*patience: 0"),
        ([STAGES, "stages.Stage.modifiers = {'typoes': 0.1}"], "'typoes'; nearest: typos"),
        ([STAGES, "stages.Stage.modifiers = {'typos': {'fra': 0.1}}"], "'fra' is not among"),
    ],
)
def test_what_a_class_cannot_have_is_refused_before_anything_is_trained(
    toy, tmp_path, bindings, message
):
    load()
    with pytest.raises(ValueError, match=message):
        baselines(
            1, cache_dir=str(toy), directory=str(tmp_path / "out"), judge=Judging(),
            classes=[Class("hasty", bindings=bindings)],
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_losses_of_other_vocabularies_are_compared_on_the_same_sentences(toy):
    load()
    trainer = _Trainer(cache.open_cache(toy))
    bindings = ["VOCAB_SIZE = 270", "baselines.Plan.own_vocabulary = True"]
    assert trainer.rate(Class("all"), "deu_Latn") == 1.0
    rate = trainer.rate(Class("few", bindings=bindings), "deu_Latn")
    opened = cache.open_cache(toy.with_name("cache-deu_Latn-270"))
    few, target = (
        int(each.lengths("deu_Latn", "validation")[0, 1]) + 1 for each in (opened, trainer.opened)
    )
    assert rate == few / target > 1
    room = f"baselines.Plan.feature_lengths = {{'inputs': 40, 'targets': {target}}}"
    few_fit = pytest.warns(UserWarning, match="short: 0 of 5 validation examples of deu_Latn fit")
    with few_fit, pytest.raises(ValueError, match="no validation example of deu_Latn fits"):
        trainer.rate(Class("short", bindings=[*bindings, room]), "deu_Latn")
