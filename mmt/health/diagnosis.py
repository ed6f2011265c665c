"""Finds the host at fault from the heartbeats of all processes of a run.

In synchronous training every host has the same time per step, and a host that hangs stops all of
them. A host is therefore named if it is silent, if it is behind the others, or if its own input and
dispatch take most of the step.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mmt.health.heartbeat import DEVICE, DISPATCH, INPUT, Heartbeat
from mmt.system.text_table import aligned

_SLOW_SHARE = 0.5  # of a step: a host whose own work takes more slows all hosts down
_SLOW_RATIO = 2.0  # to the median of the other hosts
_MIN_SLOW_SECONDS = 0.01  # seconds per step below which no host is slow
_MIN_STEPS = 3  # fewer are too few for a mean
_COMPILE_FACTOR = 4  # the first step may take this many times as long as later ones
DONE, HUNG = "all is written", "hung"  # how a process ended


class HostProblem(NamedTuple):
    """A problem of a run.

    Attributes:
        kind: missing, silent, ended, hung, slow or disk.
        processes: the processes at fault.
        text: a message for the user.
    """

    kind: str
    processes: tuple[int, ...]
    text: str


def examine(beats: Sequence[Heartbeat], now: float) -> list[HostProblem]:
    """Returns the problems of a run, the most serious first.

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
    return idle if all(beat.compiled for beat in live) else idle / _COMPILE_FACTOR


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
            f"no heartbeat of {_process_list(missing)}: is MODEL_DIR shared by all hosts? Without "
            "it, hosts cannot be watched, and checkpoints are incomplete"
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
    """Yields the problem of a run without progress.

    beats: of processes that run, or ended because the run hung.
    """
    has_ended = any(beat.ended for beat in beats)
    if not beats or not has_ended and stalled(beats, now) <= 60 * beats[0].health.warn_minutes:
        return
    idle = _duration(min(beat.idle if beat.ended else _idle(beat, now) for beat in beats))
    furthest = max(beats, key=_progress_key)
    behind = [beat for beat in beats if _progress_key(beat) < _progress_key(furthest)] or [
        beat for beat in beats if not beat.ended and now - beat.time > beat.health.silence
    ]
    if behind and len(behind) < len(beats):
        positions = "; ".join(
            f"{beat.name} is at step {beat.step} ({beat.activity})" for beat in behind
        )
        text = f"{positions}; the others wait at step {furthest.step} ({furthest.activity})"
    else:
        cause = "A device or the network may hang" if furthest.compiled else "They may be compiling"
        text = (
            f"all processes are at step {furthest.step} ({furthest.activity}), so no host can be "
            f"named. {cause}"
        )
        behind = []
    processes = tuple(beat.process for beat in behind)
    yield HostProblem("hung", processes, f"no progress for {idle}: {text}")


def _progress_key(beat: Heartbeat) -> tuple[int, int]:
    """Returns (step, part of the step), to compare progress; hooks come last."""
    parts = {"starting": 0, INPUT: 0, DISPATCH: 1, DEVICE: 2}
    return beat.step, parts.get(beat.activity, 3)


def _slow(live: Sequence[Heartbeat]) -> Iterator[HostProblem]:
    measured = [beat for beat in live if beat.steps >= _MIN_STEPS]
    for beat in measured:
        if beat.host_seconds < max(_SLOW_SHARE * beat.step_seconds, _MIN_SLOW_SECONDS):
            continue
        peer_seconds = [peer.host_seconds for peer in measured if peer is not beat]
        median = float(np.median(peer_seconds)) if peer_seconds else np.inf
        if beat.host_seconds >= _SLOW_RATIO * median:
            text = (
                f"{beat.name} slows the others down: of a step of {beat.step_seconds:.2f} s it "
                f"needs {beat.host_seconds:.2f} s for its input and dispatch, other hosts "
                f"{median:.2f} s"
            )
            yield HostProblem("slow", (beat.process,), text)


def _disk(beats: Sequence[Heartbeat]) -> Iterator[HostProblem]:
    low: dict[str, list[Heartbeat]] = {}
    for beat in beats:
        for directory, free in beat.free.items():
            if free < beat.health.free_gib * 2**30:
                low.setdefault(directory, []).append(beat)
    for directory, hosts in low.items():
        least_free = min(beat.free[directory] for beat in hosts) / 2**30
        names = ", ".join(dict.fromkeys(beat.name for beat in hosts[:8]))
        rest_note = f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
        text = f"{names}{rest_note}: {least_free:.2f} GiB free for {directory}"
        yield HostProblem("disk", tuple(beat.process for beat in hosts), text)


def table(beats: Sequence[Heartbeat], now: float) -> str:
    """Returns a line for each process: host, step, activity, times per step, free space."""
    header = ("process", "host", "step", "activity", "idle", "step, s", "own, s", "free, GiB",
             "seen")  # fmt: skip
    rows = [header]
    for beat in beats:
        free = min(beat.free.values(), default=0) / 2**30
        rows.append((
            str(beat.process), beat.host, str(beat.step), beat.ended or beat.activity,
            _duration(_idle(beat, now)) if not beat.ended else "-", f"{beat.step_seconds:.3f}",
            f"{beat.host_seconds:.3f}", f"{free:.1f}", f"{_duration(now - beat.time)} ago",
        ))  # fmt: skip
    return "\n".join(aligned(rows))


def _process_list(processes: Sequence[int]) -> str:
    listed = ", ".join(map(str, processes[:16])) + (", ..." if len(processes) > 16 else "")
    return f"process{'es' if len(processes) > 1 else ''} {listed}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
