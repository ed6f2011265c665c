"""Rows of the behaviour suite are checked."""

import dataclasses

import pytest

from eval.records import analysis
from eval.records.behaviour import BehaviourShares

ROW = BehaviourShares(
    system="tiny", source="deu_Latn", target="eng_Latn", checkpoint="tiny/100", decode="beam:4",
    config="abc", origin="CLDR", suite="def", passed={"links": 3, "tiny": 4},
    cases={"links": 4, "tiny": 4}, needed={"links": 0.8, "tiny": 0.9},
)  # fmt: skip


def test_rows_come_back_with_their_shares(tmp_path):
    analysis.add(tmp_path / "analysis.jsonl", [ROW])
    assert analysis.read(tmp_path / "analysis.jsonl") == [ROW]
    assert ROW.shares == {"links": 0.75, "tiny": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"passed": {"links": 5, "tiny": 4}}, r"passed\[links\] is 5, above cases, 4"),
        ({"passed": {"links": 3}}, "passed has links; expected those of cases: links, tiny"),
        ({"needed": {"links": 2.0}}, "needed is .* allowed: 0.0 to 1.0"),
        ({"source": "deu"}, "expected 'deu_Latn'"),
    ],
)
def test_impossible_rows_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(ROW, **changes)
