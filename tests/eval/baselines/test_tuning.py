"""Which settings a language's baseline has: by training pairs, and by validation loss."""

import json
import math
from typing import ClassVar

import pytest

from eval.baselines.simultaneous import Diverged
from eval.baselines.tuning import CHOSEN, Class, Plan, grouped, tune
from mmt import config
from mmt.data.stages import Stage


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patience": 0}, "Plan.patience: 0; allowed: 1 or more"),
        ({"epochs": 0.0}, "BASELINE_EPOCHS: 0.0"),
        ({"stages": []}, "stages is empty"),
        ({"stages": [Stage({"examples": 9}), Stage()]}, "until = {'examples': 9}; allowed:"),
        ({"stages": [Stage({"steps": 50}), Stage()]}, "begins after 50 steps, but .* at most 50"),
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused(changes, message):
    fine = {"feature_lengths": {}, "batch_size": 4, "epochs": 3.0, "steps": (5, 50), "period": 1,
            "patience": 1}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        Plan(**fine | changes)


def test_classes_by_training_pairs():
    low, other, high = Class("low"), Class("other"), Class("high", least=20)
    counts = {"yor_Latn": 10, "swh_Latn": 20, "fra_Latn": 30, "deu_Latn": 40}
    assert grouped(counts, [low, high, other]) == [
        ([high], ["deu_Latn", "fra_Latn", "swh_Latn"]), ([low, other], ["yor_Latn"])
    ]  # fmt: skip
    assert grouped(counts, [Class("rich", least=999), low]) == [
        ([low], ["deu_Latn", "fra_Latn", "swh_Latn", "yor_Latn"])
    ]
    with pytest.raises(ValueError, match="no class of baselines for yor_Latn with fewer than 20"):
        grouped(counts, [high])
    with pytest.raises(ValueError, match="low, low; each once"):
        grouped(counts, [low, low])
    with pytest.raises(ValueError, match="tried_on differs at least = 0: low 4, other 2"):
        grouped(counts, [low, Class("other", tried_on=2)])


class Trained:
    """Instead of training, writes the validation losses that the settings' names have."""

    losses: ClassVar = {"dry": 3.0, "wet": 2.5, "wild": 2.75, "mad": math.nan}

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, trial, codes, directory, chosen) -> None:
        self.asked.append((trial.name, list(codes)))
        for i, code in enumerate(codes):
            if (directory / code).exists():  # trained before
                continue
            (directory / code).mkdir(parents=True)
            rows = [{"step": step, "validation_loss": self.losses[trial.name] + i + 1 / step}
                    for step in (1, 2)]  # fmt: skip
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (directory / code / "metrics.jsonl").write_text(text)
            (directory / code / CHOSEN).write_text(chosen + "\n")
        if trial.name == "wild":
            raise Diverged({codes[0]: f"{directory / codes[0]} up to step 2"})


def even(trial, code) -> float:
    return 1.0


def settings(*names: str) -> list[Class]:
    return [Class(name, bindings=[f"A = {name!r}"], tried_on=2) for name in names]


def test_the_class_of_the_least_validation_loss_trains_them_all(tmp_path):
    trainer, classes = Trained(), settings("dry", "wet")
    best, why = tune(classes, ["a", "b", "c"], trainer=trainer, rate=even, directory=tmp_path)
    assert best.name == "wet" and trainer.asked == [("dry", ["a", "c"]), ("wet", ["a", "c"])]
    assert "wet (A = 'wet') 3.500" in why and "dry (A = 'dry') 4.000" in why and "a, c" in why
    table = json.loads((tmp_path / "tuning" / "least_0.json").read_text())
    assert table["chosen"] == "wet" and table["losses"]["wet"] == {"a": 3.0, "c": 4.0}
    taken = {path.parent.name: path.read_text() for path in tmp_path.glob("?/chosen.txt")}
    assert taken == {"a": f"{why}\n", "c": f"{why}\n"}  # what was tried is not trained again
    assert (tmp_path / "c/metrics.jsonl").read_text() == (
        tmp_path / "tuning/wet/c/metrics.jsonl"
    ).read_text()
    assert tune(classes[:1], ["a"], trainer=None, rate=even, directory=tmp_path)[0] == classes[0]
    # a choice holds, whatever the languages of the next start
    assert tune(classes, ["a", "z"], trainer=None, rate=even, directory=tmp_path) == (best, why)


def test_losses_of_other_vocabularies_are_compared_per_text(tmp_path):
    def rate(trial, code) -> float:  # "wet" has 1.5 times the tokens, each easier to predict
        return {"wet": 1.5, "dry": 1.0}[trial.name]

    best, why = tune(
        settings("dry", "wet"), ["a"], trainer=Trained(), rate=rate, directory=tmp_path
    )
    assert best.name == "dry" and "dry (A = 'dry') 3.500, wet (A = 'wet') 4.500" in why


def test_settings_that_diverge_are_not_chosen(tmp_path):
    best, why = tune(
        settings("mad", "wild", "dry"), ["a"], trainer=Trained(), rate=even, directory=tmp_path
    )
    assert best.name == "dry" and "wild (A = 'wild') inf" in why and "mad (A = 'mad') inf" in why
    with pytest.raises(ValueError, match="for 0 pairs or more can be trained: all diverge"):
        tune(settings("mad", "wild"), ["a"], trainer=Trained(), rate=even, directory=tmp_path)


def test_a_trial_with_other_settings_is_not_reused(tmp_path):
    tune(settings("dry", "wet"), ["a"], trainer=Trained(), rate=even, directory=tmp_path)
    other = [Class("dry", bindings=["A = 'drier'"]), Class("wet", bindings=["A = 'wet'"])]
    with pytest.raises(ValueError, match=r"dry.a has other settings \(tried: .* rename the class"):
        tune(other, ["a"], trainer=Trained(), rate=even, directory=tmp_path)


def test_a_class_changes_the_configuration_while_it_trains(tmp_path):
    config.load(
        ["gin_configs/models/tiny.gin", "gin_configs/runs/train.gin",
         "gin_configs/runs/baseline.gin"],
        ["MODEL_DIR=x", "MIXTURE_OR_TASK_NAME=toy", "TRAIN_STEPS=700", "RESULTS=x", "CORPUS=x"],
    )  # fmt: skip
    small = Class("small", bindings=["DROPOUT_RATE = 0.3", "transformer.Config.emb_dim = 64",
                                     "baselines.Plan.epochs = 9.0"])  # fmt: skip
    before = config.complete()
    with small.configured() as (program, plan):
        assert program.model.config.dropout_rate == 0.3 and program.model.config.emb_dim == 64
        assert plan.epochs == 9.0 and plan.steps == (100, 700)
        assert "transformer.Config.emb_dim = 64" in config.complete()
    assert config.complete() == before
    (tmp_path / "low.gin").write_text("DROPOUT_RATE = 0.3\n")
    both = Class("both", gin_file=str(tmp_path / "low.gin"), bindings=["VOCAB_SIZE = 99"])
    assert str(both) == "both (DROPOUT_RATE = 0.3, VOCAB_SIZE = 99)"
    with both.configured() as (program, _):
        assert program.model.config.dropout_rate == 0.3 and program.model.config.vocab_size == 99
    assert config.complete() == before
    (tmp_path / "wrong.gin").write_text("DROPOUT_RAT = 0.3\n")
    for name, message in (
        ("wrong.gin", "Class wrong: .*nothing uses DROPOUT_RAT; nearest: DROPOUT_RATE"),
        ("gone.gin", "Class wrong: no gin file .*gone.gin"),
    ):
        with pytest.raises(ValueError, match=message):
            with Class("wrong", gin_file=str(tmp_path / name)).configured():
                pass
    with pytest.raises(ValueError, match="nearest: DROPOUT_RATE"):
        with Class("wrong", bindings=["DROPOUT_RAT = 0.3"]).configured():
            pass
    with pytest.raises(ValueError, match=r"Class wrong: --gin\.DROPOUT_RATE = \): "):
        with Class("wrong", bindings=["DROPOUT_RATE = )"]).configured():
            pass
