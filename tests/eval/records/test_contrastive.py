"""Rows about contrastive examples: checked, written, read and summed."""

import dataclasses

import pytest

from eval.records import analysis
from eval.records.contrastive import ContrastiveAccuracy, summaries

ROW = ContrastiveAccuracy(
    system="tiny", testset="talks", source="deu_Latn", target="eng_Latn", checkpoint="tiny/5",
    config="abc", phenomenon="she", context_lines=1, examples=10, in_context=9, without_context=2,
    other_context=5, gained=8, gained_over_other=4,
)  # fmt: skip


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "analysis.jsonl"
    other = dataclasses.replace(ROW, context_lines=2)
    analysis.add(path, [ROW, other])
    newer = dataclasses.replace(ROW, in_context=10, gained=8, gained_over_other=5)
    analysis.add(path, [newer])
    assert analysis.read(path) == [other, newer]


def test_losses_follow_from_gains():
    assert (ROW.lost, ROW.lost_to_other) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phenomenon": "her"}, "phenomenon is 'her'; allowed: he, she, it, name"),
        ({"in_context": 11}, "in_context is 11, above examples, 10"),
        ({"gained": 6}, "gained is 6, which contradicts"),  # 9 in context, of which 3 without; of 2
        ({"gained_over_other": 10}, "gained_over_other is 10, which contradicts"),
        ({"context_lines": 0}, "context_lines"),
    ],
)
def test_faults_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(ROW, **changes)


def test_summaries_are_sums():
    rows = [ROW, dataclasses.replace(ROW, source="fra_Latn"),
            dataclasses.replace(ROW, phenomenon="it"),
            dataclasses.replace(ROW, phenomenon="name")]  # fmt: skip
    sums = summaries(rows)
    assert {name: each.examples for name, each in sums.items()} == {
        "she": 20, "it": 10, "pronouns": 30, "names": 10
    }  # fmt: skip
    assert (sums["pronouns"].in_context, sums["pronouns"].lost) == (27, 3)
