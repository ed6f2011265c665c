"""Rows about an evaluated run: its cost, curve, recipe, and routing of training batches."""

import types
from dataclasses import replace

from eval.analyses import about
from eval.records.analysis import ExpertLoad, Reliability
from eval.records.provenance import CorpusUses
from mmt.run import Run
from mmt.translate.risk import Calibration
from mmt.translate.translation import Signals


def test_cost_comes_before_routing_of_the_batches_of_training(monkeypatch, tmp_path):
    seen = {}

    def routing(translator, testset, **options):
        seen.update(options, testset=testset)
        return ["routing"]

    monkeypatch.setattr(about.routing, "routing", routing)
    monkeypatch.setattr(about.routing, "as_trained", lambda directory: {"rows": 7})
    monkeypatch.setattr(about.cost, "cost", lambda directory, system: ["cost", system.name])
    monkeypatch.setattr(about.provenance, "uses", lambda directory, system: ["corpora"])
    system = types.SimpleNamespace(name="mine", checkpoint="mine/3")
    assert about.rows(Run(tmp_path), system, None, "set") == ["cost", "mine", "corpora", "routing"]
    assert seen == {"rows": 7, "system": "mine", "checkpoint": "mine/3", "testset": "set"}


def test_rows_of_languages_and_layers_that_a_run_no_longer_has_are_outdated():
    german = CorpusUses(system="mine", source="deu_Latn", named=False, corpora=())
    swahili, other = replace(german, source="swh_Latn"), replace(german, system="other")
    load = ExpertLoad(
        system="mine", checkpoint="mine/3", testset="set", layer="encoder.1", source="deu_Latn",
        load=(0.5, 0.5), drop_rate=0.0, entropy=1.0, tokens=9,
    )  # fmt: skip
    french, zulu = replace(load, source="fra_Latn"), replace(load, source="zul_Latn")
    earlier = replace(zulu, checkpoint="mine/2")
    wider = replace(load, load=(0.25,) * 4, checkpoint="mine/2")
    deeper = replace(load, layer="encoder.3", testset="news")
    system = types.SimpleNamespace(name="mine", checkpoint="mine/3")
    testset = types.SimpleNamespace(name="set", languages={"deu_Latn": (), "fra_Latn": ()})
    is_outdated = about.outdated([german, load], system, testset)
    gone = [swahili, zulu, wider, deeper]
    kept = [german, other, load, french, earlier, replace(deeper, system="other")]
    assert all(map(is_outdated, gone)) and not any(map(is_outdated, kept))
    dense = about.outdated([german], system, testset)
    assert all(map(dense, [load, french, earlier])) and not dense(german)


def test_a_calibrated_run_has_its_reliability(monkeypatch, tmp_path):
    monkeypatch.setattr(about.routing, "routing", lambda *_, **options: [])
    monkeypatch.setattr(about.routing, "as_trained", lambda directory: {})
    monkeypatch.setattr(about.cost, "cost", lambda directory, system: [])
    monkeypatch.setattr(about.provenance, "uses", lambda directory, system: [])
    weights = dict.fromkeys(Signals._fields, 0.0)
    bins = [[0.1, 0.15, 7.0], [0.4, 0.35, 6.0]]
    Calibration(weights, 0.0, decode="beam:1", reliability=bins).save(tmp_path)
    system = types.SimpleNamespace(name="mine", checkpoint="mine/3")
    assert about.rows(Run(tmp_path), system, None, "set") == [
        Reliability(
            system="mine", decode="beam:1", confidence=(0.1, 0.4), chrf=(0.15, 0.35), lines=(7, 6)
        )
    ]
