"""Warnings: what is found in a run that has all faults, and nothing in a run that has none."""

import json
import math

import pytest

from mmt.data import ledger
from mmt.data.cache.manifest import read_manifest
from mmt.watch import run_warnings
from mmt.watch.run_metrics import RunMetrics
from tests.mmt.watch.conftest import SIZE


def warnings_of(directory, *, described=True):
    metrics = RunMetrics(directory / "metrics.jsonl", tuple(SIZE.codes))
    while metrics.read():
        pass
    if not described:
        return run_warnings.of_run(metrics)
    manifest = read_manifest(directory / "manifest.json")
    load = json.loads((directory / "expert_load.json").read_text())
    return run_warnings.of_run(metrics, manifest, ledger.load(directory), load)


def test_all_that_is_wrong_with_the_made_up_run(made_up):
    found = warnings_of(made_up)
    by_kind = {kind: [w for w in found if w.kind == kind] for kind in {w.kind for w in found}}
    assert set(by_kind) == {"overfitting", "no validation", "dead expert", "source skipped"}
    codes = SIZE.codes
    assert {w.language for w in by_kind["overfitting"]} == {codes[3], codes[10]}
    assert all(1500 <= w.step <= 2800 for w in by_kind["overfitting"])
    (missing,) = by_kind["no validation"]
    assert missing.language == codes[-1] and "no validation set" in missing.text
    (dead,) = by_kind["dead expert"]
    assert dead.text.startswith("encoder.2: expert 3 of 4") and dead.step == 4000
    (skipped,) = by_kind["source skipped"]
    assert skipped.language == codes[1] and "nothing was read of web" in skipped.text


def test_what_needs_other_files_is_not_guessed(made_up):
    kinds = {warning.kind for warning in warnings_of(made_up, described=False)}
    assert kinds == {"overfitting", "no validation"}


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"step": 3, "stopped": "no gain"}], "stopped at step 3: no gain"),
        ([{"step": 3, "returned_from": 9}], "rolled back to step 2 from step 9"),
        ([{"step": 5, "skipped": 2}, {"step": 9, "skipped": 1}], "3 steps skipped"),
        ([{"step": 5, "skipped": math.inf}], "inf steps skipped"),
        ([{"step": 5, "loss": 1.0, "data_wait": 0.4}], "40% of the time"),
        ([{"step": 5, "loss": 1.0, "data_wait": 0.04}], None),
        ([{"step": 5, "language_loss": {"deu_Latn": 2.0}}], None),  # validation may come later
    ],
)
def test_events(rows, text, tmp_path):
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = warnings_of(tmp_path, described=False)
    assert [warning.text.startswith(text or "") for warning in found] == ([True] if text else [])


def test_names():
    assert run_warnings.name_of("deu_Latn") == "German"
    assert run_warnings.name_of("deu_Latn.monolingual") == "German (monolingual)"
    assert run_warnings.name_of("xxx_Latn") == "xxx_Latn"
