"""Hooks of a step: their order, stopping and rolling back."""

import types

from mmt import step
from tests.conftest import ToyBatches


def finished(number=1):
    log = types.SimpleNamespace(stopped=False)
    now = object.__new__(step.Step)
    now.__dict__ |= {"number": number, "state": "new", "loss": None, "log": log, "steps": 9}
    now.__dict__ |= {"stop": False, "rolled_back": False}
    return now


def test_every_hook_is_called_and_any_may_stop():
    called = []
    hooks = [lambda now, i=i: called.append(i) or i == 0 for i in range(3)]
    now = finished()
    assert step.run_hooks.__wrapped__(hooks, now) == ("new", 1, None)
    assert called == [0, 1, 2] and now.log.stopped


def test_after_a_rollback_no_hook_is_called_and_the_run_continues():
    def rollback(now):
        now.state, now.number, now.rolled_back = "old", 0, True

    now = finished()
    hooks = [lambda now: True, rollback, lambda now: 1 / 0]
    assert step.run_hooks.__wrapped__(hooks, now) == ("old", 0, None)
    assert not now.log.stopped


def test_toy_batches_satisfy_the_protocol():
    assert isinstance(ToyBatches(), step.Batches)
