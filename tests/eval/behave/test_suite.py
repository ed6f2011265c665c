"""The suite: rows and texts of each language, resumed after an interruption; thresholds."""

import dataclasses
import json

import pytest

from eval import behave
from eval.behave import Suite
from eval.behave.material import Material, TextPair
from eval.records import analysis
from eval.systems import System
from mmt.decoding import Decoding

SYSTEM = System("toy", "multilingual", "toy/80", "abc", {})
SMALL = Suite(cases=4)


def run(translator, materials, tmp_path, suite=SMALL, **changes):
    options = {"system": SYSTEM, "decode": "beam:1"} | changes
    return behave.run(
        translator, materials, suite, out=tmp_path / "results.jsonl", decoding=Decoding(beam=1),
        **options,
    )  # fmt: skip


def test_right_translations_pass_and_wrong_ones_fail(german, finnish, knows_all, tmp_path):
    result = run(knows_all([german, finnish]), [german, finnish], tmp_path)
    assert [row.source for row in result.rows] == ["deu_Latn", "fin_Latn"]
    assert SMALL.missed(result.rows) == []
    for row in result.rows:
        assert row.passed == row.cases and set(row.cases.values()) <= {2, 3, 4}
        assert row.cases["breaks"] == 4 and row.needed["words"] == 0.8
    assert analysis.read(tmp_path / "analysis.jsonl") == list(result.rows)
    silent = knows_all([], otherwise=lambda line: "")
    result = run(silent, [german, finnish], tmp_path, decode="beam:2")
    assert all(row.passed["sentences"] == row.passed["links"] == 0 for row in result.rows)
    missed = SMALL.missed(result.rows)
    assert "sentences: 0.0% passed, needed 80.0%" in missed
    assert any(fault.startswith("deu_Latn: ") for fault in missed)


def test_an_interrupted_suite_is_resumed(german, finnish, knows_all, tmp_path):
    both = [german, finnish]
    whole = knows_all(both)
    expected = run(whole, both, tmp_path / "whole")
    broken = knows_all(both, most=whole.lines - 3)
    with pytest.raises(OSError, match="switched off"):
        run(broken, both, tmp_path)
    assert [row.source for row in analysis.read(tmp_path / "analysis.jsonl")] == ["deu_Latn"]
    rest = knows_all(both)
    assert run(rest, both, tmp_path) == expected
    assert 0 < rest.lines < whole.lines
    again = knows_all(both, most=0)
    assert run(again, both, tmp_path) == expected
    for changed in ({"checkpoint": "toy/90"}, {"weights": "trained anew"}):
        other = knows_all(both)
        run(other, both, tmp_path, system=dataclasses.replace(SYSTEM, **changed))
        assert other.lines == whole.lines


def test_texts_are_kept_with_their_faults(german, knows_all, tmp_path):
    result = run(knows_all([], otherwise=str.upper), [german], tmp_path)
    file = tmp_path / "behaviour/toy/deu_Latn.jsonl"
    made_by, *rows = map(json.loads, file.read_text().split("\n")[:-1])
    names = {"checkpoint": "toy/80", "decode": "beam:1", "config": "abc"}
    assert made_by == names | {"weights": ""}
    judged = [row for row in rows if "fault" in row]
    assert judged == [dataclasses.asdict(one) for one in result.judged]
    assert any(row["fault"] == "copy of the source" for row in judged)
    wrong = ({"source": "a", "output": 5}, {"source": ["a"], "output": "b"})
    for row in ('{"no', *map(json.dumps, wrong)):
        file.write_text(f"{json.dumps(made_by)}\n{row}\n")
        with pytest.raises(ValueError, match=r"deu_Latn\.jsonl: damaged .*; remove it"):
            run(knows_all([german]), [german], tmp_path)


def test_a_gate_has_thresholds_of_its_own_for_a_behaviour(german, knows_all, tmp_path):
    suite = Suite(cases=4, behaviours=["links", "tiny"], thresholds={"links": 0.0},
                  language_threshold=0.9)  # fmt: skip
    result = run(knows_all([], otherwise=lambda line: ""), [german], tmp_path, suite)
    (row,) = result.rows
    assert list(row.cases) == ["tiny", "links"] and row.passed["links"] == 0
    share = row.passed["tiny"] / 4
    assert suite.missed(result.rows) == [
        f"tiny: {share:.1%} passed, needed 80.0%", f"deu_Latn: {share / 2:.1%} passed, needed 90.0%"
    ]  # fmt: skip
    assert Suite(behaviours=["names"]).missed([row]) != []


def test_a_threshold_that_is_reached_is_not_missed(german, knows_all, tmp_path):
    suite = Suite(cases=4, behaviours=["tiny"], language_threshold=0.8)
    (row,) = run(knows_all([german]), [german], tmp_path, suite).rows
    for languages in range(1, 15):  # sums of 0.8 have rounding errors
        rows = [dataclasses.replace(row, cases={"tiny": 10}, passed={"tiny": 8})] * languages
        assert suite.missed(rows) == []
        rows[0] = dataclasses.replace(row, cases={"tiny": 10}, passed={"tiny": 7})
        assert suite.missed(rows)


def test_a_language_without_cases_is_named(german, knows_all, tmp_path, capsys):
    chavacano = Material("cbk_Latn", "toy", (TextPair("bon dia", "good day"),), None)
    suite = Suite(cases=4, behaviours=["names"])
    result = run(knows_all([german]), [chavacano, german], tmp_path, suite)
    assert [row.source for row in result.rows] == ["deu_Latn"]
    assert "not tested: no cases of names in cbk_Latn" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no cases of names in any of the languages"):
        run(knows_all([]), [chavacano], tmp_path, suite)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cases": 0}, "Suite.cases = 0; allowed: 1 to 1000"),
        ({"threshold": 1.5}, "Suite.threshold = 1.5; allowed: 0 to 1"),
        ({"thresholds": {"links": -1}}, "allowed: 0 to 1"),
        ({"thresholds": {"number": 0.5}}, "'number'; allowed: .*nearest: numbers"),
        ({"behaviours": ["emojis"]}, "nearest: emoji"),
        ({"behaviours": []}, "expected a behaviour or more"),
        ({"behaviours": ["links"], "thresholds": {"tiny": 0.5}}, "'tiny' is not among the"),
    ],
)
def test_bad_values_are_refused(options, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        Suite(**options)


def test_the_languages_are_those_of_the_model(knows_all):
    translator = knows_all([], codes=("deu_Latn", "fin_Latn"))
    assert behave.languages_of(translator, None) == ["deu_Latn", "fin_Latn"]
    assert behave.languages_of(translator, ["Finnish", "fi"]) == ["fin_Latn"]
    with pytest.raises(ValueError, match=r"est_Latn \(Estonian\) is none .*nearest: Finnish"):
        behave.languages_of(translator, ["Estonian"])
    with pytest.raises(ValueError, match="has no languages; name those to test"):
        behave.languages_of(knows_all([]), None)
    assert behave.languages_of(knows_all([]), ["de"]) == ["deu_Latn"]
    translator.manifest = dataclasses.replace(translator.manifest, target="fra_Latn")
    with pytest.raises(ValueError, match="translates into fra_Latn; the suite is for models into"):
        behave.languages_of(translator, None)
