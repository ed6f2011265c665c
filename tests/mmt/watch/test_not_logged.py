"""Why a run has no values: no hook, or a hook whose first step is still to come."""

import pytest

from mmt.watch.not_logged import HOW, LABELS, reason
from mmt.watch.series import METRICS

CONFIG = """\
EVAL_PERIOD = 350
TRAIN_STEPS = 700

train.Trainer.languages_every = 100

hooks.SourceUse.period = %EVAL_PERIOD

train.train.hooks = \\
    [@hooks.ValidationLoss(),
     @validation.ValidationBleu()]

validation.ValidationBleu.period = 5000
hooks.ValidationLoss.period = %EVAL_PERIOD
"""


def test_every_part_of_the_page_has_a_reason():
    assert set(HOW) == set(METRICS) | set(LABELS)
    assert all(reason(name, "", 0) == HOW[name] for name in HOW)


@pytest.mark.parametrize(
    ("name", "step", "expected"),
    [
        ("loss", 60, "the first values are of step 100"),
        ("share", 99, "the first values are of step 100"),
        ("loss", 100, HOW["loss"]),
        ("validation_loss", 60, "the first values are of step 350, by @hooks.ValidationLoss()"),
        ("rate", 60, "the first values are of step 350, by @hooks.ValidationLoss()"),
        ("overfitting", 400, "@hooks.ValidationLoss() is among the hooks, but has written no"),
        ("bleu", 400, "the first values are of step 700, by @validation.ValidationBleu()"),
        ("samples", 400, "the first values are of step 700, by @validation.ValidationBleu()"),
        ("source_use", 60, HOW["source_use"]),
        ("expert_load", 60, HOW["expert_load"]),
        ("mixing", 60, HOW["mixing"]),
    ],
)
def test_a_hook_that_is_still_to_come(name, step, expected):
    assert reason(name, CONFIG, step).startswith(expected)


def test_sums_by_language_are_a_part_of_training_rows():
    config = CONFIG + "train.Trainer.log_every = 40\n"
    assert reason("loss", config, 100) == "the first values are of step 200"


def test_hooks_by_a_macro_and_in_a_scope():
    config = CONFIG.replace("train.train.hooks = ", "train.train.hooks = %HOOKS\n\nHOOKS = ")
    assert reason("bleu", config, 0) == reason("bleu", CONFIG, 0) != HOW["bleu"]
    scoped = CONFIG.replace("@hooks.ValidationLoss", "@often/mmt.hooks.ValidationLoss")
    assert reason("rate", scoped, 0) == reason("rate", CONFIG, 0) != HOW["rate"]
    assert reason("rate", CONFIG.replace("hooks.ValidationLoss()", "my.Loss()"), 0) == HOW["rate"]
