"""benchmarks/goodput: the killer with a made-up clock, the constants, and the kept rows."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.goodput import __main__ as command
from benchmarks.goodput import forecasts
from benchmarks.goodput.killed_runs import constants, kill_until_done
from benchmarks.goodput.launched_runs import LaunchedLife
from mmt.plan import goodput
from mmt.run import Run

ROOT = Path(__file__).resolve().parents[2]


class FakeTraining:
    """A training of 100 steps of a second, with a start of 10 s and a save every 20 steps, which
    takes 3 s and is complete at once. Its clock advances by 1/64 s at each look.
    """

    def __init__(self, run: dict) -> None:
        self.run, self.clock, self.step, self.killed = run, 0.0, run["saved"], None
        run["starts"] += 1

    def seconds(self) -> float:
        return self.clock

    def done(self) -> bool:
        return self.run["saved"] >= 100

    def pause(self) -> None:
        self.clock += 1 / 64
        saves = int(max(self.clock - 10.0, 0.0) / 23)
        self.run["saved"] = self.step + 20 * saves

    def kill(self) -> None:
        assert not self.done()

    def end(self) -> None:
        assert self.done()


def made(mean: float) -> goodput.FailingRun:
    return forecasts.failing(
        {"step": 1.0, "save": 3.0, "write": 0.0, "start": 10.0, "restart": 10.0}, 100, mean
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_simulator_fails_when_the_killer_kills(seed):
    """Both draw the same numbers, so a training without noise ends when it is forecast to end."""
    run, random = {"saved": 0, "starts": 0}, np.random.default_rng(seed)
    limits = (float(random.exponential(60.0)) for _ in itertools.count())
    lives = list(kill_until_done(lambda: FakeTraining(run), limits))
    assert [life.killed for life in lives] == [True] * (len(lives) - 1) + [False]
    done = goodput.simulate(made(60.0), 20.0, [np.random.default_rng(seed)])
    assert (run["starts"], len(lives)) == (done.failures + 1, done.failures + 1)
    assert sum(life.seconds for life in lives) == pytest.approx(done.mean, abs=len(lives) / 32)


def test_constants_are_recovered_from_starts_without_kills():
    """Steps of 0.02 s, saves that make it 0.3 s later and are complete 0.1 s after that."""
    parts = ((800, 800), (1200, 50), (1610, 50))
    rows, seconds, before = [], [], 0
    for (steps, _), saves in zip(parts, (1, 8, 9), strict=True):
        start = 5.0 + before / 800
        rows.append({"start": before, "cpu_seconds": start, "seconds": 9.0, "first_step": 0.1,
                     "parts": {"compiling": 4.0, "other": 5.0}})  # fmt: skip
        save = {"save": 0, "cpu_seconds": 0.4, "seconds": 0.5, "blocked": 0.2, "bytes": 7}
        rows += [save] * saves
        seconds.append(start + 0.02 * (steps - before) + 0.3 * saves)
        before = steps
    known = constants(parts, seconds, rows)
    assert (known["step"], known["save"], known["write"]) == pytest.approx((0.02, 0.3, 0.1))
    assert (known["start"], known["restart"]) == pytest.approx((5.0, 6.25))
    assert known["wall"]["parts"] == {"compiling": 4.0, "other": 5.0}


def test_the_kept_runs_agree_with_their_forecasts():
    """The goal: goodput within 10 % of the forecast, and the better interval is the better one."""
    first, *rows = command.load(command.KILLED_RUNS)[1]
    known = forecasts.known(first)
    shares: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        assert row["seconds"] == pytest.approx(sum(life["seconds"] for life in row["lives"]))
        both = forecasts.with_same_kills(known, row), row
        forecast, measured = (forecasts.quantities(known, one)["goodput"] for one in both)
        shares.setdefault(row["period"], []).append((forecast, measured))
    means = {period: np.mean(pairs, axis=0) for period, pairs in shares.items()}
    assert len(means) >= 2
    for forecast, measured in means.values():
        assert measured / forecast == pytest.approx(1, abs=0.1)
    order = [sorted(means, key=lambda period: means[period][which]) for which in (0, 1)]
    assert order[0] == order[1]


def test_rows_of_several_processes_have_detection(tmp_path):
    """Rows without `processes` are of one, and their simulated failures need no detection."""
    constants = {"step": 1.0, "save": 3.0, "write": 0.0, "start": 10.0, "restart": 10.0}
    kills = [{"seconds": 2.0}, {"seconds": 4.0}]
    row = {"steps": 100, "period": 20, "seed": 0, "mean": 60.0}
    rows = [{"constants": [constants]}, row,
            {"constants": [constants], "detections": kills, "processes": 2},
            {**row, "processes": 2}]  # fmt: skip
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    groups = command.load(file)
    assert groups == {1: rows[:2], 2: rows[2:]} and command.load(tmp_path / "none") == {}
    one, two = (forecasts.with_same_kills(forecasts.known(first), row)
                for first, row in groups.values())  # fmt: skip
    assert one.failures == two.failures > 0
    assert two.mean - one.mean == pytest.approx(3.0 * one.failures)
    assert forecasts.quantities(constants, two)["detection, s"] == 3.0 * two.failures


def test_after_a_kill_the_seconds_until_all_have_ended_and_the_message_are_kept(tmp_path):
    """The victim would live for a minute; the other ends half a second later."""
    stderr = tmp_path / "stderr"
    with stderr.open("wb") as out:
        tasks = [subprocess.Popen(["sleep", "60"]),
                 subprocess.Popen(["sh", "-c", "sleep 0.5; echo it lost another one >&2"],
                                  stderr=out)]  # fmt: skip
    launcher = SimpleNamespace(run=Run(tmp_path / "run"), stderr=stderr)
    pids = {index: task.pid for index, task in enumerate(tasks)}
    life = LaunchedLife(launcher, pids, victim=0, number=signal.SIGKILL)
    assert life.seconds() >= 0 and life.starting is None
    life.kill()
    assert life.noticed == "lost another one" and 0.1 < life.detection < 30
    assert [task.wait() for task in tasks] == [-9, 0]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_killed_training_takes_as_long_as_forecast(tmp_path):
    """One run of each interval; the rows go elsewhere."""
    code = (
        "import sys; from pathlib import Path; from benchmarks.goodput import __main__ as command; "
        f"command.KILLED_RUNS = Path({str(tmp_path / 'rows.jsonl')!r}); "
        "sys.argv[1:] = ['--real', '--seeds', '1']; command.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    groups = command.load(tmp_path / "rows.jsonl")
    assert list(groups) == [1, 2]
    for first, row in ((rows[0], row) for rows in groups.values() for row in rows[1:]):
        known = forecasts.known(first)
        forecast = forecasts.quantities(known, forecasts.with_same_kills(known, row))
        measured = forecasts.quantities(known, row)
        assert measured["goodput"] / forecast["goodput"] == pytest.approx(1, abs=0.25)
