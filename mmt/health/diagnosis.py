"""Which host is at fault, from the heartbeats of all processes of a run.

In synchronous training every host has the same time per step, and a host that hangs stops all of
them. So a host is named by what it does itself: it is silent, at another part of the step than the
others, or needs most of the step for its own input and dispatch.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mmt.health.heartbeat import DEVICE, DISPATCH, INPUT, Heartbeat

_SHARE = 0.5  # of a step: a host that needs more of it for itself sets the pace
_RATIO = 2.0  # to the median of the other hosts
_LEAST = 0.01  # seconds per step below which no host is slow
_STEPS = 3  # from which a mean is trusted
_COMPILING = 4  # times as long as later a step may take until it is compiled
DONE, HUNG = "all is written", "hung"  # how a process ended


class HostProblem(NamedTuple):
    """A problem. kind: missing, silent, ended, hung, slow or disk; processes: those named."""

    kind: str
    processes: tuple[int, ...]
    text: str


def examine(beats: Sequence[Heartbeat], now: float) -> list[HostProblem]:
    """Returns the problems of a run, the gravest first.

    Args:
      beats: the heartbeats of one start of the run (`read`).
      now: seconds since 1970. The clocks of the hosts must agree to a few seconds.
    """
    live = [beat for beat in beats if not beat.ended]
    return [*_missing(beats, live, now), *_silent(live, now), *_ended(beats, live),
            *_hung([beat for beat in beats if beat.ended in ("", HUNG)], now), *_slow(live),
            *_disk(beats)]  # fmt: skip


def stalled(beats: Sequence[Heartbeat], now: float) -> float:
    """Returns the seconds in which no process that runs has made progress; 0 if none runs.

    Until all have compiled the first step, they count as a quarter.
    """
    live = [beat for beat in beats if not beat.ended]
    idle = min((_idle(beat, now) for beat in live), default=0.0)
    return idle if all(beat.compiled for beat in live) else idle / _COMPILING


def _idle(beat: Heartbeat, now: float) -> float:
    return beat.idle + max(now - beat.time, 0.0)


def _missing(
    beats: Sequence[Heartbeat], live: Sequence[Heartbeat], now: float
) -> Iterator[HostProblem]:
    if not live or now - live[0].start < live[0].health.silence:
        return
    missing = sorted(set(range(live[0].processes)) - {beat.process for beat in beats})
    if missing:
        text = (
            f"no heartbeat of {_numbers(missing)}: is MODEL_DIR shared by all hosts? Without it, "
            "hosts cannot be watched, and checkpoints are incomplete"
        )
        yield HostProblem("missing", tuple(missing), text)


def _silent(live: Sequence[Heartbeat], now: float) -> Iterator[HostProblem]:
    for beat in live:
        silence = now - beat.time
        if silence > beat.health.silence:
            text = (
                f"{beat.name} has been silent for {_duration(silence)}, since step {beat.step} "
                f"({beat.activity}): it is down, frozen or cannot write to MODEL_DIR"
            )
            yield HostProblem("silent", (beat.process,), text)


def _ended(beats: Sequence[Heartbeat], live: Sequence[Heartbeat]) -> Iterator[HostProblem]:
    for beat in beats:
        if beat.ended and (live or beat.ended != DONE):
            text = f"{beat.name} ended at step {beat.step}: {beat.ended}"
            yield HostProblem("ended", (beat.process,), text)


def _hung(beats: Sequence[Heartbeat], now: float) -> Iterator[HostProblem]:
    """beats: of processes that run, or have ended because the run hung."""
    over = any(beat.ended for beat in beats)
    if not beats or not over and stalled(beats, now) <= 60 * beats[0].health.warn_minutes:
        return
    idle = _duration(min(beat.idle if beat.ended else _idle(beat, now) for beat in beats))
    furthest = max(beats, key=_place)
    named = [beat for beat in beats if _place(beat) < _place(furthest)] or [
        beat for beat in beats if not beat.ended and now - beat.time > beat.health.silence
    ]
    if named and len(named) < len(beats):
        at = "; ".join(f"{beat.name} is at step {beat.step} ({beat.activity})" for beat in named)
        text = f"{at}; the others wait at step {furthest.step} ({furthest.activity})"
    else:
        may = "A device or the network may hang" if furthest.compiled else "They may be compiling"
        text = (
            f"all processes are at step {furthest.step} ({furthest.activity}), so no host can be "
            f"named. {may}"
        )
        named = []
    processes = tuple(beat.process for beat in named)
    yield HostProblem("hung", processes, f"no progress for {idle}: {text}")


def _place(beat: Heartbeat) -> tuple[int, int]:
    """How far a process is: its step, and the part of the step; hooks come last."""
    parts = {"starting": 0, INPUT: 0, DISPATCH: 1, DEVICE: 2}
    return beat.step, parts.get(beat.activity, 3)


def _slow(live: Sequence[Heartbeat]) -> Iterator[HostProblem]:
    known = [beat for beat in live if beat.steps >= _STEPS]
    for beat in known:
        if beat.host_seconds < max(_SHARE * beat.step_seconds, _LEAST):
            continue
        others = [other.host_seconds for other in known if other is not beat]
        usual = float(np.median(others)) if others else np.inf
        if beat.host_seconds >= _RATIO * usual:
            text = (
                f"{beat.name} slows the others down: of a step of {beat.step_seconds:.2f} s it "
                f"needs {beat.host_seconds:.2f} s for its input and dispatch, other hosts "
                f"{usual:.2f} s"
            )
            yield HostProblem("slow", (beat.process,), text)


def _disk(beats: Sequence[Heartbeat]) -> Iterator[HostProblem]:
    low: dict[str, list[Heartbeat]] = {}
    for beat in beats:
        for directory, free in beat.free.items():
            if free < beat.health.free_gib * 2**30:
                low.setdefault(directory, []).append(beat)
    for directory, hosts in low.items():
        least = min(beat.free[directory] for beat in hosts) / 2**30
        names = ", ".join(dict.fromkeys(beat.name for beat in hosts[:8]))
        more = f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
        text = f"{names}{more}: {least:.2f} GiB free for {directory}"
        yield HostProblem("disk", tuple(beat.process for beat in hosts), text)


def table(beats: Sequence[Heartbeat], now: float) -> str:
    """Returns a line for each process: host, step, activity, times per step, free space."""
    heads = ("process", "host", "step", "activity", "idle", "step, s", "own, s", "free, GiB",
             "seen")  # fmt: skip
    rows = [heads]
    for beat in beats:
        free = min(beat.free.values(), default=0) / 2**30
        rows.append((
            str(beat.process), beat.host, str(beat.step), beat.ended or beat.activity,
            _duration(_idle(beat, now)) if not beat.ended else "-", f"{beat.step_seconds:.3f}",
            f"{beat.host_seconds:.3f}", f"{free:.1f}", f"{_duration(now - beat.time)} ago",
        ))  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _numbers(processes: Sequence[int]) -> str:
    shown = ", ".join(map(str, processes[:16])) + (", ..." if len(processes) > 16 else "")
    return f"process{'es' if len(processes) > 1 else ''} {shown}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
