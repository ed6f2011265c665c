"""benchmarks/goodput: the killer with a made-up clock, the constants, and the kept rows."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.goodput import __main__ as command
from benchmarks.goodput import forecasts
from benchmarks.goodput.killed_runs import constants, kill_until_done
from mmt.plan import goodput

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
    first, *rows = [json.loads(line) for line in command.KILLED_RUNS.open(encoding="utf-8")]
    known = forecasts.mean_constants(first["constants"])
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


@pytest.mark.slow
@pytest.mark.timeout(1800)
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
    first, *rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").open()]
    known = forecasts.mean_constants(first["constants"])
    for row in rows:
        forecast = forecasts.quantities(known, forecasts.with_same_kills(known, row))
        measured = forecasts.quantities(known, row)
        assert measured["goodput"] / forecast["goodput"] == pytest.approx(1, abs=0.25)
