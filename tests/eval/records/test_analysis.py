"""analysis.jsonl: rows of every kind, strict and replaced by key."""

import dataclasses
import json

import numpy as np
import pytest

from eval import metrics
from eval.records import analysis

KEY = {
    "system": "tiny", "testset": "phrases", "source": "deu_Latn", "target": "eng_Latn",
    "checkpoint": "tiny/100", "decode": "beam:4",
}  # fmt: skip
SHARES = dict.fromkeys(("copies", "empty", "short", "long", "looping", "not_english"), 0.25)
ROWS = [
    analysis.Interval(
        **KEY, bleu_low=10.0, bleu_high=12.5, chrf_low=30.0, chrf_high=31.0, resamples=1000,
        seed=12345, hypotheses="abc",
    ),
    analysis.OutputChecks(**KEY, **SHARES, recited=None, sentences=80, hypotheses="abc"),
    analysis.Paired(
        **KEY, against="bilingual", against_checkpoint="deu/5", delta=-1.0, delta_low=-2.0,
        delta_high=0.5, p_bootstrap=0.2, p_randomization=0.3, chrf_delta=1.0, resamples=1000,
        seed=12345, hypotheses="abc", against_hypotheses="def",
    ),
    analysis.SentenceCounts(
        **KEY, packed=metrics.packed(np.ones((80, 10))), sentences=80, hypotheses="abc",
        references="def",
    ),
    analysis.TestsetDescription(testset="phrases", target="eng_Latn", domain="news", licence="CC0"),
    analysis.TestsetQuality(
        testset="phrases", source="deu_Latn", target="eng_Latn", mark="poor",
        reasons=("only 80 sentences",), sentences=80,
    ),
    analysis.TrainOverlap(
        **KEY,
        bins=(
            analysis.Bin(low=0.0, high=0.5, sentences=80, bleu=12.0),
            analysis.Bin(low=0.5, high=1.0, sentences=0, bleu=None),
        ),
        hypotheses="abc",
    ),
    analysis.ExpertLoad(
        system="tiny", checkpoint="tiny/100", testset="toy", layer="encoder.1", source="deu_Latn",
        load=(0.25, 0.75), drop_rate=0.1, entropy=0.8, tokens=1000,
    ),
    analysis.Curve(
        system="tiny", steps=(1, 2), tokens=(10, 20), seconds=(1.0, None), loss=(5.0, 4.0),
        validation_loss=(None, 4.5), bleu=(None, None),
    ),
    analysis.Cost(
        system="tiny", steps=100, tokens=1000, seconds=5.0, devices=1, device="CPU",
        parameters=10, active_parameters=5, device_hours=0.1, epochs={"deu_Latn": 2.5},
    ),
    analysis.SystemRecipe(
        system="bilingual", source="deu_Latn", config="abc", text="A = 1\n", seed=0,
        versions={"jax": "1.0"}, chosen="by size",
    ),
    analysis.Remark(title="Dropout", text="0.3 helped the small ones"),
]  # fmt: skip


def test_rows_of_all_kinds_come_back(tmp_path):
    path = analysis.path_for(tmp_path / "results.jsonl")
    analysis.add(path, ROWS)
    assert path.name == "analysis.jsonl" and analysis.read(path) == ROWS
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == [
        "interval", "guards", "paired", "counts", "texts", "trust", "overlap", "routing", "curve",
        "cost", "recipe", "remark",
    ]  # fmt: skip
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_a_missing_file_has_no_rows(tmp_path):
    assert analysis.read(tmp_path / "analysis.jsonl") == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind)
def test_a_row_replaces_only_the_one_with_its_key(tmp_path, row):
    path = tmp_path / "analysis.jsonl"
    analysis.add(path, ROWS)
    analysis.add(path, [row])
    assert analysis.read(path) == [item for item in ROWS if item != row] + [row]
    for name in row.about:
        changed = {
            "source": "fra_Latn", "target": "fra_Latn", "layer": "decoder.3",
        }.get(name, "other")  # fmt: skip
        analysis.add(path, [dataclasses.replace(row, **{name: changed})])
        assert row in analysis.read(path)


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        ("interval", {"kind": "intervall"}, "kind is 'intervall'; allowed: interval"),
        ("interval", {"kind": "intervall"}, "nearest: 'interval'"),
        ("interval", {"kind": None}, "kind is 'None'"),
        ("interval", {"bleu_hight": 3}, "unknown key 'bleu_hight'; nearest: 'bleu_high'"),
        ("interval", {"bleu_low": 13.0}, "bleu_low is 13.0, above bleu_high, 12.5"),
        ("interval", {"source": "deu"}, "source is 'deu'; expected 'deu_Latn'"),
        ("interval", {"source": ""}, "unknown language ''"),
        ("interval", {"seed": 1.5}, "seed is 1.5; expected a whole number"),
        ("guards", {"copies": 1.2}, "copies is 1.2; allowed: 0.0 to 1.0"),
        ("guards", {"copies": None}, "copies is None; expected a number"),
        ("paired", {"delta": 101}, "delta is 101; allowed: -100.0 to 100.0"),
        ("paired", {"p_bootstrap": -0.1}, "p_bootstrap is -0.1"),
        ("counts", {"packed": "c-nocut"}, "packed is 'c-nocut'…, which cannot be unpacked"),
        ("counts", {"packed": ""}, "packed is ''…, which cannot be unpacked"),
        ("counts", {"sentences": 79}, "packed holds 480 bytes; expected 79 sentences"),
        ("counts", {"sentences": 0}, "packed holds 480 bytes; expected 0 sentences"),
        ("trust", {"mark": "god"}, "mark is 'god'; allowed: good, fair, poor; nearest: 'good'"),
        ("trust", {"reasons": "few"}, "reasons is 'few'; expected a list"),
        ("texts", {"licence": None}, "licence is None; expected text"),
        ("overlap", {"bins": [{"low": 0.5, "high": 0.1, "sentences": 1, "bleu": 1}]}, "low is 0.5"),
        ("overlap", {"bins": [{"low": 0}]}, "missing key 'high'"),
        ("routing", {"layer": "encoder1"}, "layer is 'encoder1'"),
        ("routing", {"load": [0.5, 0.4]}, "load sums to 0.9; expected 1"),
        ("curve", {"loss": [1.0]}, "loss has 1 values, steps 2"),
        ("curve", {"loss": [1.0, -1.0]}, "loss is -1.0; allowed: 0.0 or more"),
        ("cost", {"epochs": {"deu_Latn": -1}}, "epochs is -1"),
        ("cost", {"devices": 0}, "devices is 0"),
        ("recipe", {"chosen": "a\x00"}, "chosen is 'a\\x00'; expected text on one line"),
        ("recipe", {"versions": {"jax": 1}}, "an object, each value text"),
    ],
)  # fmt: skip
def test_a_broken_row_names_file_and_line(tmp_path, kind, edit, message):
    path = tmp_path / "analysis.jsonl"
    analysis.add(path, ROWS)
    row = next(row for row in ROWS if row.kind == kind)
    broken = {"kind": kind, **dataclasses.asdict(row)} | edit
    content = path.read_text() + json.dumps(broken) + "\n"
    path.write_text(content)
    with pytest.raises(ValueError) as error:
        analysis.read(path)
    assert str(error.value).startswith(f"{path}:{len(ROWS) + 1}: ") and message in str(error.value)
    with pytest.raises(ValueError, match=f":{len(ROWS) + 1}: "):
        analysis.add(path, ROWS[:1])
    assert path.read_text() == content


def test_a_row_without_a_kind_is_an_error(tmp_path):
    (tmp_path / "analysis.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="jsonl:1: missing key 'kind'"):
        analysis.read(tmp_path / "analysis.jsonl")


def test_kinds_that_know_a_source_or_not():
    """A system's cost row is about all its languages; a baseline's is about one language."""
    cost = next(row for row in ROWS if row.kind == "cost")
    assert cost.source == "" and dataclasses.replace(cost, source="deu_Latn").key != cost.key
    with pytest.raises(ValueError, match="expected 'deu_Latn'"):
        dataclasses.replace(cost, source="de")
