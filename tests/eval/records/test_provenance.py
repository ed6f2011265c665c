"""Rows about corpora come back as they were, and impossible ones are refused."""

import dataclasses

import pytest

from eval.records import analysis
from eval.records.provenance import CorpusEffect, CorpusUse, CorpusUses

WEB = CorpusUse(
    corpus="web", pairs=70, examples=700, loss=2.5, tokens=4000.0, files={"web.tsv": "0a"},
    read=100, dropped={"overlap: numbers test + flores": 5, "overlap: flores": 4, "ratio": 21},
    changed={"normalise": 3}, overlap={"numbers test": 5, "flores": 9},
    listed="numbers-1/overlap.tsv.zst",
)  # fmt: skip
BOOKS = CorpusUse(corpus="books", pairs=30, examples=300, loss=1.5, tokens=2000.0)
GERMAN = CorpusUses(system="multi", source="deu_Latn", named=True, corpora=(WEB, BOOKS))
SWAHILI = CorpusUses(
    system="multi", source="swh_Latn", named=True, corpora=(dataclasses.replace(WEB, pairs=9),)
)
EFFECT = CorpusEffect(
    system="multi", checkpoint="multi/1", decode="beam:4", against="without:web",
    against_checkpoint="without:web/1", testset="cldr", target="eng_Latn", corpus="web",
    group="with", source="deu_Latn", languages=1, pairs=70, sentences=200, bleu=3.5, bleu_low=2.25,
    bleu_high=4.75, chrf=2.0, chrf_low=-0.5, chrf_high=4.5, resamples=1000, seed=12345,
)  # fmt: skip


def test_rows_come_back(tmp_path):
    rows = [GERMAN, SWAHILI, EFFECT, dataclasses.replace(EFFECT, source="", languages=2)]
    analysis.add(tmp_path / "analysis.jsonl", rows)
    assert analysis.read(tmp_path / "analysis.jsonl") == rows


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (EFFECT, {"group": "wiht"}, "group is 'wiht'; allowed: with, only, others.*'with'"),
        (EFFECT, {"bleu_low": 5.0}, "bleu_low is 5.0, above bleu_high, 4.75"),
        (EFFECT, {"target": "eng"}, "expected 'eng_Latn'"),
        (WEB, {"examples": -1}, "examples is -1; allowed: 0"),
        (WEB, {"dropped": {"ratio": 1.5}}, "dropped is .*; expected"),
    ],
)
def test_impossible_rows_are_refused(row, changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(row, **changes)
