"""Why a run has no values of a metric: nothing logs it, or its first values are still to come."""

import math
import re

LABELS = {
    "mixing": "Mixing rates", "expert_load": "Load of experts", "samples": "Sample translations",
}  # fmt: skip
HOW = {  # how a run comes to log what it does not
    "loss": "rows of training have no language_loss",
    "validation_loss": "add @hooks.ValidationLoss() to train.train.hooks",
    "overfitting": "it needs the validation loss",
    "bleu": "add @validation.ValidationBleu() to train.train.hooks",
    "source_use": "add @hooks.SourceUse() to train.train.hooks",
    "epochs": "it needs the ledger, which is written with every checkpoint",
    "share": "rows of training have no language_tokens",
    "rate": "it needs the validation loss",
    "mixing": "it needs the ledger, which is written with every checkpoint",
    "expert_load": "add @hooks.ExpertUse() to train.train.hooks of a model with experts",
    "samples": "add @validation.ValidationBleu() to train.train.hooks",
}
_HOOKS = {
    "validation_loss": "hooks.ValidationLoss", "overfitting": "hooks.ValidationLoss",
    "rate": "hooks.ValidationLoss", "source_use": "hooks.SourceUse",
    "expert_load": "hooks.ExpertUse", "bleu": "validation.ValidationBleu",
    "samples": "validation.ValidationBleu",
}  # fmt: skip
_OF_TRAINING = ("loss", "share")


def reason(name: str, config: str, step: int) -> str:
    """Returns why a run has no values of `name`.

    Args:
      name: a key of `HOW`.
      config: the text of the run's `config.gin`; '' if it is unknown.
      step: the latest step of the run.

    >>> reason("loss", "train.Trainer.languages_every = 100\\n", 60)
    'the first values are of step 100'
    """
    if name in _OF_TRAINING:
        log_every = _number(config, "train.Trainer.log_every") or 1
        first = math.lcm(log_every, _number(config, "train.Trainer.languages_every"))
        return f"the first values are of step {first:,}" if first and step < first else HOW[name]
    hook = _HOOKS.get(name)
    if hook is None or not _has_hook(config, hook):
        return HOW[name]
    period, steps = _number(config, f"{hook}.period"), _number(config, "TRAIN_STEPS")
    first = min(filter(None, (period, steps)), default=0)
    if step < first:
        return f"the first values are of step {first:,}, by @{hook}()"
    return f"@{hook}() is among the hooks, but has written no values yet"


def _has_hook(config: str, hook: str) -> bool:
    name = re.escape(hook.rpartition(".")[2])
    return bool(re.search(rf"@[\w./]*\b{name}\(\)", _value(config, "train.train.hooks")))


def _number(config: str, name: str) -> int:
    value = _value(config, name)
    return int(value) if value.isdigit() else 0


def _value(config: str, name: str) -> str:
    """Returns the text of a binding, or of the macro that it names; '' if there is none."""
    found = re.search(rf"^{re.escape(name)} = (.*(?:\n[ \t].*)*)", config, re.M)
    value = found[1].strip() if found else ""
    return _value(config, value[1:]) if re.fullmatch(r"%[A-Za-z_]\w*", value) else value
