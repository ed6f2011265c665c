"""Broken JSON of ours: rows of results and analysis, manifests, ledgers. What is raised names the
file; and a report of rows that are whole is made or refused.
"""

import dataclasses
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval import report
from eval.records import analysis, results
from mmt.data import ledger
from mmt.data.cache.manifest import Manifest, read_manifest
from tests.fuzz.strategies import PROFILE, damage, fuzzed
from tests.helpers.made_up import made_up

ROWS, ABOUT = made_up(2, ("dense", "moe"))
MANIFEST = Manifest(
    "toy", "eng_Latn", ("deu_Latn",), {"train": {"deu_Latn": 3}}, "c0ffee",
    {"source": "1", "target": "2"}, {"source": 700, "target": 600},
    corpora={"train": {"deu_Latn": [["news", 3]]}},
)  # fmt: skip
LEDGER = {
    "step": 3,
    "position": {"lanes": 1, "lane": {"0": {"next": 3, "open": []}}},
    "rows": [{
        "language": "deu_Latn", "pairs": 3, "examples": 3, "foreseen": 3.0, "share": 1.0,
        "epochs": 1.0, "tokens": 60,
        "corpora": {"news": {"examples": 3, "source_tokens": 30, "target_tokens": 30}},
    }],
}  # fmt: skip


def _lines(rows) -> str:
    return "\n".join(json.dumps(row) for row in rows)


TEXTS = {
    "results.jsonl": _lines(map(dataclasses.asdict, ROWS)),
    "analysis.jsonl": _lines({"kind": row.kind, **dataclasses.asdict(row)} for row in ABOUT),
    "manifest.json": json.dumps(dataclasses.asdict(MANIFEST)),
    "ledger.json": json.dumps(LEDGER),
}
WHOLE = {name: text.encode() for name, text in TEXTS.items()}
READERS = {
    "results.jsonl": results.read_rows,
    "analysis.jsonl": analysis.read,
    "manifest.json": read_manifest,
    "ledger.json": lambda file: ledger.table(ledger.load(file.parent)),
}

ODD = [
    None, True, 0, -1, 1e308, float("nan"), float("inf"), 10**400, "", "\ud800", "a\x00b",
    "x" * 5000, [], [[]], [None], {}, {"": 0}, {"deu_Latn": {"": []}}, "deu_Latn", "../..",
    ["train"], -(10**400),
]  # fmt: skip


@st.composite
def broken(draw) -> tuple[str, bytes]:
    """A file's name, and what it holds: damaged text, or values of another kind."""
    name = draw(st.sampled_from(sorted(WHOLE)))
    lines = TEXTS[name].splitlines()
    if draw(st.booleans()):
        place = draw(st.integers(0, len(lines) - 1))
        value = json.loads(lines[place])
        for _ in range(draw(st.integers(1, 2))):
            value = _replaced(draw, value)
        lines[place] = json.dumps(value)
    text = "\n".join(lines).encode()
    if draw(st.booleans()):
        text = draw(damage(text))
    return name, text


def _replaced(draw, value):
    """With something odd somewhere in it."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _replaced(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 2)):
        return [_replaced(draw, value[0]), *value[1:]]
    return draw(st.sampled_from(ODD))


@fuzzed(broken(), short=150)
def test_broken_rows(example):
    name, content = example
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(content)
        try:
            READERS[name](file)
        except ValueError as error:
            assert folder in str(error) and file.name in str(error), error


@pytest.mark.slow
@settings(PROFILE, max_examples=40)
@given(broken(), broken())
def test_reports_of_broken_rows(results_rows, analysis_rows):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {**WHOLE, **dict([results_rows, analysis_rows])}.items():
            Path(folder, name).write_bytes(content)
        try:
            report.report([Path(folder, "results.jsonl")], Path(folder, "out"))
        except ValueError as error:
            assert str(error).strip() and not Path(folder, "out").exists(), error
        else:
            assert Path(folder, "out/report.html").exists()
