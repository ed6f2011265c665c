"""The card of a published model is refused, with all names, if facts or scores are missing."""

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from eval import card
from tests.mmt.translate.test_risk import CALIBRATION

ROOT = Path(__file__).resolve().parents[2]
OLD = ROOT / "tests/data/old_run"
FACTS = ROOT / "benchmarks/mix150/card.toml"


def test_missing_facts_are_all_named(tmp_path):
    file = tmp_path / "card.toml"
    file.write_text(FACTS.read_text().replace("licence =", "x =").replace("risks =", "y ="))
    with pytest.raises(ValueError, match=r"facts are missing: licence, risks, sources\[0\].lic"):
        card.facts(file)
    file.write_text(re.sub(r"(?m)^pairs = .*", "pairs = 'many'", FACTS.read_text(), count=1))
    with pytest.raises(ValueError, match=r"missing: sources\[0\].pairs as a whole number"):
        card.facts(file)
    none = tmp_path / "results.jsonl"
    none.write_text("")
    with pytest.raises(ValueError, match="facts are missing: no score of toy"):
        card.Card(OLD / "toy", FACTS, none, dtype="int8")


def test_a_card_has_every_source_with_its_licence():
    text = card.Card(OLD / "toy", FACTS, OLD / "results.jsonl", dtype="int8").text("abc", 7)
    for source in card.facts(FACTS)["sources"]:
        assert f"| {source['source']} |" in text and source["licence"] in text
    assert f"| started from | {card.facts(FACTS)['started_from']} |" in text
    assert "int8, 7 bytes, sha256 `abc`" in text
    assert "`beam:2\\|alpha:0.8`" in text and "risk.json" not in text


def test_optional_files_of_the_run_are_named(tmp_path):
    model = tmp_path / "toy"
    shutil.copytree(OLD / "toy", model)
    dataclasses.replace(CALIBRATION, decode="beam:1", lines=1234).save(model)
    text = card.Card(model, FACTS, OLD / "results.jsonl", dtype="int8").text("abc", 7)
    assert "| `risk.json` | confidence of translations, calibrated on 1,234 validation" in text
