"""Losses of runs at equal steps and at equal tokens, and by language."""

import json

import numpy as np
import pytest

from eval.compare import compared_run, training
from eval.compare.training import LossAt


def test_losses_at_equal_steps_and_tokens(made_run):
    """The second run sees twice the tokens per step, so equal tokens are at half the steps."""
    first = made_run("a", losses={100: 3.0, 200: 2.0, 300: 1.0})
    other = made_run("b", losses={100: 2.5, 200: 1.5}, tokens=2000)
    made = training.compare(compared_run.read([first, other]))
    assert made.comparable == (True, True) and not made.notes
    assert {point.amount: point.losses for point in made.at_steps} == {
        100: (LossAt(3.0, False), LossAt(2.5, False)),
        200: (LossAt(2.0, False), LossAt(1.5, False)),
    }
    # the first run ends at 3,000 tokens; a quarter of it, 750, is before its first validation
    assert [point.amount for point in made.at_tokens] == [2250, 3000]
    ours, theirs = made.at_tokens[1].losses
    assert ours == (1.0, False)
    assert theirs.loss == pytest.approx(np.interp(3000, [2000, 4000], [2.5, 1.5]))
    assert theirs.interpolated


def test_tokens_between_logged_rows_are_interpolated(made_run):
    """The tokens of 100 steps are logged together; validation is at other steps."""
    run = made_run("a")
    rows = [
        {"step": 50, "validation_loss": 3.0}, {"step": 100, "target_tokens": 1000.0},
        {"step": 150, "validation_loss": 2.0}, {"step": 200, "target_tokens": 3000.0},
    ]  # fmt: skip
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    first, _ = compared_run.read([run, made_run("b")])
    assert training.summary(first.metrics).validation.tokens == (500, 2500)


def test_a_summary(made_run):
    runs = compared_run.read([made_run("a", losses={100: 3.0, 200: 1.0, 300: 2.0}), made_run("b")])
    one = training.summary(runs[0].metrics)
    assert (one.steps, one.tokens, one.best_bleu) == (300, 3000, None)
    assert one.hours == pytest.approx(3 * 36 / 3600)
    assert (one.best_loss, one.best_step, one.last_loss, one.last_step) == (1.0, 200, 2.0, 300)
    assert one.validation.tokens == (1000, 2000, 3000)
    made = training.compare(runs)
    deu, fra, _ = made.languages
    assert deu.losses == (1.0, 1.5) and fra.losses == pytest.approx((1.1, 1.6))  # at 200 and 200


def test_steps_without_a_common_validation_are_interpolated(made_run):
    runs = [made_run("a", losses={40: 4.0, 80: 2.0}), made_run("b", losses={30: 4.0, 60: 1.0})]
    made = training.compare(compared_run.read(runs))
    assert [point.amount for point in made.at_steps] == [45, 60]
    assert made.at_steps[1].losses == (LossAt(3.0, True), LossAt(1.0, False))


def test_validations_that_do_not_overlap_are_said(made_run):
    runs = [made_run("a", losses={10: 4.0, 20: 3.0}), made_run("b", losses={30: 4.0, 60: 1.0})]
    made = training.compare(compared_run.read(runs))
    assert not made.at_steps and made.at_tokens  # a row has as many tokens in both runs
    why = "the validations of no two runs overlap"
    assert made.notes == (f"validation losses are not compared at equal steps: {why}",)


def test_losses_of_other_vocabularies_and_sets_are_not_compared(made_run):
    runs = [
        made_run("a"),
        made_run("b", vocabulary="other"),
        made_run("c", codes=("deu_Latn", "wol_Latn")),
        made_run("d", corpus="another text"),
    ]
    made = training.compare(compared_run.read(runs))
    assert made.comparable == (True, False, False, True)
    by_code = {one.language: one for one in made.languages}
    assert by_code["deu_Latn"].comparable == (True, False, True, True)
    assert by_code["wol_Latn"].losses[0] is None
    assert [note.split(":")[0] for note in made.notes] == ["b", "c", "d"]
    assert "target vocabularies" in made.notes[0] and "validation sets" in made.notes[1]


def test_losses_of_fewer_validation_lines_are_not_compared(made_run):
    """A validation is limited by its budget, so runs with another EVAL_PERIOD use other lines."""
    runs = [made_run(name) for name in "abc"]
    for run, tokens in zip(runs[:2], (9000, 3000), strict=True):
        with (run / "metrics.jsonl").open("a") as file:
            file.write(f'{{"step": 200, "validation_tokens": {tokens}}}\n')
    made = training.compare(compared_run.read(runs))
    assert made.comparable == (True, False, True)  # nothing is known of c
    assert made.languages[0].comparable == (True, False, True)
    (note,) = made.notes
    assert note.startswith("b: validation losses are not compared with a: 3,000 target tokens")
    assert "there 9,000 (hooks.ValidationLoss.budget and EVAL_PERIOD" in note


def test_a_run_without_metrics_has_none(made_run):
    runs = [made_run("a"), made_run("b")]
    (runs[1] / "metrics.jsonl").unlink()
    made = training.compare(compared_run.read(runs))
    assert made.summaries[1].best_loss is None and made.summaries[1].hours is None
    assert (made.summaries[0].steps, made.summaries[1].steps) == (200, None)
    assert not made.at_steps and not made.at_tokens
    assert not made.languages  # one run has losses: there is nothing to compare
    assert made.notes[-2:] == (
        "validation losses are not compared at equal steps: none are known of b",
        "validation losses are not compared at equal target tokens: none are known of b",
    )


def test_a_long_curve_has_few_points(made_run):
    losses = {10 * step: 1 + 1 / step for step in range(1, 601)}
    runs = compared_run.read([made_run("a", losses=losses), made_run("b")])
    one = training.summary(runs[0].metrics)
    assert len(one.training.steps) == training.POINTS and one.training.steps[-1] == 6_000
    assert one.training.tokens[-1] == 600_000
    assert len(one.validation.steps) == 600
