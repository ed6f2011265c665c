"""Validation by BLEU: which steps, which sentences; its rows are read in test_cli."""

import types

import pytest

from eval import validation


def test_only_every_period_and_at_the_end():
    hook = validation.ValidationBleu("no cache here", period=10)
    hook(types.SimpleNamespace(number=7, last=False))  # looks at nothing
    for number, last in ((10, False), (7, True)):
        with pytest.raises(ValueError, match="no cache"):
            hook(types.SimpleNamespace(
                number=number, last=last, program=types.SimpleNamespace(model=None),
                state=types.SimpleNamespace(params=None),
            ))  # fmt: skip
