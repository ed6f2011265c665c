"""Rows about an evaluated run: its cost, curve, recipe, and routing of training batches."""

import types

from eval.analyses import about
from mmt.run import Run


def test_cost_comes_before_routing_of_the_batches_of_training(monkeypatch, tmp_path):
    seen = {}

    def routing(translator, testset, **options):
        seen.update(options, testset=testset)
        return ["routing"]

    monkeypatch.setattr(about.routing, "routing", routing)
    monkeypatch.setattr(about.routing, "as_trained", lambda directory: {"rows": 7})
    monkeypatch.setattr(about.cost, "cost", lambda directory, system: ["cost", system.name])
    system = types.SimpleNamespace(name="mine", checkpoint="mine/3")
    assert about.rows(Run(tmp_path), system, None, "set") == ["cost", "mine", "routing"]
    assert seen == {"rows": 7, "system": "mine", "checkpoint": "mine/3", "testset": "set"}
