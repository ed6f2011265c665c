"""Side by side is as alone: losses, validation, early stopping, checkpoints; kills lose nothing."""

import copy
import itertools

import jax
import numpy as np
import pytest

from eval.baselines import simultaneous
from eval.baselines.simultaneous import BaselineJob
from mmt import checkpoint, hooks, train
from mmt.run import Run
from tests.helpers.runs import rows_without_clocks

# One step of a mapped model differs from one alone in the order of float32 sums, 1e-7 of a sum;
# 40 steps of Adafactor at a high rate let that grow.
NEAR = 2e-4


class Data:
    """The toy's batches from another position, and held-out ones."""

    def __init__(self, toy_batches, start: int, held_out: int) -> None:
        self.batches = toy_batches()
        self.batches.index = start * 1000
        rows = toy_batches()
        rows.index = 10**6 + start
        self.held_out = [next(rows) for _ in range(held_out)]

    def begins(self) -> None:
        pass

    def __call__(self):
        self.begins()
        return self.batches, self.held_out


def stops_early(job: BaselineJob) -> BaselineJob:
    """Its held-out targets are a token that training never has: ever less likely."""
    for batch in job.data.held_out:
        batch["decoder_target_tokens"] = np.zeros_like(batch["decoder_target_tokens"])
    return job


def jobs(directory, toy_batches, **options) -> list[BaselineJob]:
    """Three that end at different times, with different amounts of held-out data."""
    return [
        BaselineJob(
            name, directory / name, Data(toy_batches, start, start),
            **{"steps": steps, "period": 8, "patience": 9} | options,
        )
        for name, start, steps in (("one", 1, 16), ("two", 2, 24), ("three", 3, 20))
    ]  # fmt: skip


def alone(program, job: BaselineJob) -> None:
    batches, held_out = job.data()
    train.train(
        program, batches, model_dir=str(job.model_dir), steps=job.steps,
        policy=checkpoint.Policy(job.period, keep=1),
        hooks=[hooks.ValidationLoss(held_out, job.period), hooks.EarlyStop(job.patience)],
    )  # fmt: skip


def near(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    return a == b if isinstance(a, str) else bool(np.isclose(a, b, rtol=NEAR))


@pytest.fixture
def compiled():
    """A list that grows by one with every compiled program."""
    names: list[str] = []

    def note(event: str, seconds: float, **_) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield names
    jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("at_once", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_models_trained_together_equal_models_trained_alone(
    tmp_path, toy_program, toy_batches, at_once, compiled
):
    program, made, begun = toy_program(), jobs(tmp_path, toy_batches), {}
    for job in made:
        job.data.begins = lambda name=job.name: begun.setdefault(name, len(compiled))
    simultaneous.train(program, made, memory=1.0, at_once=at_once)
    if at_once:  # the shortest takes the place of one that is done, in its programs
        assert 0 < begun["one"] == len(compiled)
    for job in jobs(tmp_path / "alone", toy_batches):
        alone(program, job)
        stacked, single = map(rows_without_clocks, (tmp_path / job.name, job.model_dir))
        assert [row["step"] for row in stacked] == [row["step"] for row in single]
        assert all(map(near, stacked, single))
        ours, theirs = tmp_path / job.name, job.model_dir
        assert Run(ours).checkpoint_steps() == Run(theirs).checkpoint_steps()
        assert Run(ours).best_step() == Run(theirs).best_step()


def diverging(batches):
    """The same batches, but their loss is not finite from the fourth on."""

    class Diverging(type(batches)):
        def __next__(self) -> dict[str, np.ndarray]:
            batch = super().__next__()
            if self.index % 1000 > 3:
                batch["decoder_loss_weights"][0, 0] = np.nan
            return batch

    changed = copy.copy(batches)
    changed.__class__ = Diverging
    return changed


@pytest.mark.slow
def test_a_diverged_model_is_named_after_the_others_finish(
    tmp_path, toy_program, toy_batches
):
    made = jobs(tmp_path, toy_batches, steps=16, period=4)[:2]
    made[1].data.batches = diverging(made[1].data.batches)
    with pytest.raises(simultaneous.Diverged, match="two up to step 14; .*trained$") as e:
        simultaneous.train(toy_program(log_every=2), made, memory=1.0)
    assert e.value.names == ("two",)
    assert [job.finished() for job in made] == [True, False]
    assert rows_without_clocks(tmp_path / "two")[-1] == {"step": 14, "skipped": 2}  # ten in a row


@pytest.mark.slow
def test_stopped_early_and_killed_models_resume(tmp_path, toy_program, toy_batches, monkeypatch):
    program = toy_program()

    def two(folder) -> list[BaselineJob]:
        made = jobs(tmp_path / folder, toy_batches, steps=16, period=4, patience=1)
        return [made[0], stops_early(made[1])]

    simultaneous.train(program, two("whole"), memory=1.0)
    rows = rows_without_clocks(tmp_path / "whole/two")
    assert [row["step"] for row in rows if "stopped" in row] == [8]
    assert Run(tmp_path / "whole/two").best_step() == 4

    class Killed(Exception):
        pass

    step, count = simultaneous._Training.step, itertools.count(1)

    def killed(training):
        if next(count) == 11:  # "two" is done; the last checkpoint of "one" is of step 8
            raise Killed
        step(training)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(simultaneous._Training, "step", killed)
        simultaneous.train(program, two("parts"), memory=1.0)
    assert [job.finished() for job in two("parts")] == [False, True]
    for _ in range(2):  # the second time there is nothing to do
        simultaneous.train(program, two("parts"), memory=1.0)
        assert [job.finished() for job in two("parts")] == [True, True]
        for name in ("one", "two"):
            runs = tmp_path / "whole" / name, tmp_path / "parts" / name
            whole, parts = map(rows_without_clocks, runs)
            assert whole == parts


@pytest.mark.parametrize("wrong", ["steps", "period", "patience"])
def test_numbers_out_of_range_are_errors(tmp_path, toy_batches, wrong):
    with pytest.raises(ValueError, match=f"one: {wrong} 0; allowed: 1 or more"):
        jobs(tmp_path, toy_batches, **{wrong: 0})


def test_the_time_left_counts_the_steps_of_running_models(monkeypatch, capsys, tmp_path):
    now = [0.0]
    monkeypatch.setattr(simultaneous.time, "perf_counter", lambda: now[0])
    jobs = [BaselineJob(name, tmp_path, dict, steps=100, period=50, patience=2) for name in "abcd"]
    run = object.__new__(simultaneous._Run)  # no model
    run.job, run.number = jobs[0], 97
    with simultaneous._Bar(jobs, jobs) as bar:
        bar.update_steps(4)
        now[0] = 6000.0
        bar.update_steps(4 * 97)
        bar.finished(run)
    assert "a: 97 steps; 1 of 4 trained, about 2 min left" in capsys.readouterr().err
