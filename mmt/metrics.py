"""Metrics: running sums on the device; screen, JSON lines and TensorBoard on the host.

All numbers are sums from the training step. They are fetched one logging period late, so that the
device never waits for the host. The first of several processes writes; the others only count.
"""

import contextlib
import datetime
import errno
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from rich.console import Console
from tensorboardX import summary
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog

from mmt import distributed
from mmt.run import Run, read_metrics
from mmt.system import phases, progress, status

_COUNT = itertools.count()  # numbers TensorBoard's files
_MAX_LINE_INTERVAL = 30.0  # seconds between shown rows at most; each tenth of a run is also shown


@flax.struct.dataclass
class Meters:
    """Sums since the last logged step: arrays, or the shapes or shardings of these arrays."""

    sums: dict[str, Any]  # float32 [] each
    language_loss: Any  # float32 [languages], or [corpora]: nats of the target tokens of each
    language_tokens: Any  # float32, of the same shape

    def add(self, other: "Meters") -> "Meters":
        return jax.tree.map(jnp.add, self, other)

    def restarted(self, *, sums: Any, languages: Any) -> "Meters":
        """Returns the sums, set to zero where the (traced) conditions hold."""
        zero_where = lambda flag: lambda x: jnp.where(flag, 0, x)  # noqa: E731
        return Meters(
            sums=jax.tree.map(zero_where(sums), self.sums),
            language_loss=zero_where(languages)(self.language_loss),
            language_tokens=zero_where(languages)(self.language_tokens),
        )


def by_language(
    values: Float[Array, "B T"], language_ids: Int[Array, "B T"], languages: int
) -> Float[Array, " languages"]:
    """Returns the sums of `values` by language id."""
    return jnp.zeros(languages).at[language_ids.ravel()].add(values.ravel())


class Log:
    """Writes a run's metrics: rows of JSON, TensorBoard events, a progress bar on stderr.

    A training row has `step`, `loss`, `tokens_per_second`, `data_wait` (the fraction of time spent
    waiting for data) and the means of the other sums. Only training rows have the key `loss`.
    `skipped` is the number of skipped steps (loss or gradient not finite); no other number includes
    them. Other rows hold the results of a hook, such as validation. Rows that a full disk refuses
    stay in memory until they can be written, and training continues.

    languages_every: steps between rows with sums by language, a multiple of `every`.
    corpora: (language, corpus) of each loss that the meters hold; () if they hold one per language.
    clock: returns seconds; the clock of a run that shares the machine is slower.
    shown: whether rows appear on the screen.
    """

    def __init__(
        self,
        model_dir: str | Path,
        steps: int,
        *,
        languages: Sequence[str],
        every: int,
        languages_every: int,
        corpora: Sequence[tuple[str, str]] = (),
        clock: Callable[[], float] = time.perf_counter,
        shown: bool = True,
    ) -> None:
        self.path = Run(model_dir).metrics
        self._writes = distributed.is_first()
        self.every, self.languages_every = every, languages_every
        self._entries, self._steps = list(corpora) or [(code, "") for code in languages], steps
        self.losses = len(self._entries)  # that the meters hold
        self._pending: tuple[int, Meters, bool, float] | None = None
        self.stopped = False  # whether a hook stopped an earlier start of this run
        self._waited, self._clock, self._shown = 0.0, clock, shown and self._writes
        self._console = Console(stderr=True)
        self._bar = progress.progress_bar(
            progress.COUNT, progress.PERCENT, "{task.fields[text]}", console=self._console,
            disable=not (self._shown and sys.stderr.isatty()),
        )  # fmt: skip
        self._task = self._bar.add_task("train", total=steps, text="")
        self._unwritten: list[Mapping[str, Any]] = []  # rows that could not be written yet
        self._failure_reported = False
        self.phases = phases.Phases(self._announce, self._show_phase)
        self._text = ""
        self._first, self._step, self._begun = 0, 0, 0.0  # of this start, to estimate the time left
        self._last_line = time.perf_counter()

    @contextlib.contextmanager
    def phase(self, kind: str) -> Iterator[None]:
        """Shows the name of another activity than training inside the `with` statement."""
        if self._shown:
            self.phases.begin(kind)
        try:
            yield
        finally:
            self.phases.end()

    def start(self, step: int) -> None:
        """Drops rows after `step`, where training resumes, and starts the clocks.

        A rollback calls it again.
        """
        self._since, self._pending, self._waited = self._clock(), None, 0.0
        if self._writes:
            self._open(step)
        self.stopped = distributed.from_first(lambda: self.stopped)
        self._first, self._step, self._begun = step, step, 0.0
        if self._shown:
            status.end()
            self.phases.begin("compiling")

    def _open(self, step: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = [row for row in read_metrics(self.path) if row["step"] <= step]
        rows += [dict(row) for row in self._unwritten if row["step"] <= step]
        self.stopped = any("stopped" in row for row in rows)
        if step < self._steps and not self.stopped:
            last = [self._without_partial_sums(row) for row in rows if row["step"] == step]
            rows = [row for row in rows if row["step"] < step] + [row for row in last if row]
        self._unwritten.clear()
        temporary = self.path.with_suffix(".tmp")
        text = "".join(json.dumps(row) + "\n" for row in rows)
        try:
            temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(temporary)) from error
        os.replace(temporary, self.path)
        self._close()
        self._rows = self.path.open("ab", buffering=0)
        self._events = _Events(self.path.parent, step)
        self._bar.update(self._task, completed=step)
        self._bar.start()

    def _without_partial_sums(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns a row without sums that go on after it; {} for a training row between periods."""
        if "loss" in row and row["step"] % self.every:
            return {}
        if not row["step"] % self.languages_every:
            return row
        sums = ("language_tokens", "language_loss", "corpus_tokens", "corpus_loss")
        return {key: value for key, value in row.items() if key not in sums}

    def _close(self) -> None:
        if hasattr(self, "_rows"):
            self._rows.close()
            self._events.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.flush()
        self.phases.close()
        self._bar.stop()
        if self._shown:
            status.begin("closing the run")
        write_error = self._write_pending() if self._unwritten else None
        self._close()
        if write_error:
            lost = f"{len(self._unwritten)} rows could not be written: {write_error.strerror}"
            if kind is None:
                raise OSError(f"{self.path}: {lost}")
            print(f"{self.path}: {lost}", file=sys.stderr)

    def next_batch(self, batches: Any, previous_loss: Any) -> Any:
        """Returns `next(batches)`; counts its time as waiting if the device is idle at its end."""
        before = time.perf_counter()
        batch = next(batches)
        if previous_loss is None or previous_loss.is_ready():
            self._waited += time.perf_counter() - before
        return batch

    def train_step(self, step: int, meters: Meters, *, last: bool) -> None:
        """Counts a finished step; writes a row every `every` steps and at the last step."""
        if self.phases.kind:
            self.phases.end()
        if not self._begun:
            self._first, self._begun = step, time.perf_counter()
        self._step = step
        self.flush()
        self._bar.update(self._task, completed=step)
        if step % self.every == 0 or last:
            with_languages = step % self.languages_every == 0 or last
            self._pending = step, _snapshot(meters), with_languages, self._waited
            self._waited = 0.0
        if last:
            self.flush()

    def flush(self) -> None:
        """Fetches and writes the last row, if it is still on the device."""
        if self._pending is None:
            return
        step, meters, with_languages, waited = self._pending
        self._pending = None
        meters = jax.tree.map(np.asarray, meters)
        now = self._clock()
        seconds, self._since = max(now - self._since, 1e-9), now
        sums = {name: float(value) for name, value in meters.sums.items()}
        count, tokens = sums.pop("steps"), sums.pop("target_tokens")
        skipped = max(0, step - (step - 1) // self.every * self.every - round(count))
        if not count:
            return self.write({"step": step, "skipped": skipped})
        all_tokens = sums.pop("tokens")
        row: dict[str, Any] = {"step": step, "loss": sums.pop("loss") / max(tokens, 1.0)}
        row |= {"tokens": all_tokens, "target_tokens": tokens}
        by_token = [name for name in ("nll", "accuracy", "teacher_loss") if name in sums]
        row |= {name: sums.pop(name) / max(tokens, 1.0) for name in by_token}
        if "aligned_tokens" in sums:
            aligned = sums.pop("aligned_tokens")
            row["alignment_loss"] = sums.pop("alignment_loss") / max(aligned, 1.0)
        row |= {name: value / max(count, 1.0) for name, value in sorted(sums.items())}
        row |= {
            "tokens_per_second": round(all_tokens / seconds, 1),
            "data_wait": round(waited / seconds, 5),
            "seconds": round(seconds, 3),
        }
        row |= {"skipped": skipped} if skipped else {}
        if with_languages:
            row |= _means(self._entries, meters)
        self._show(row)
        self.write(row)

    def language_losses(self, meters: Meters) -> dict[str, float]:
        """Returns the mean training loss in `meters` of each language that has tokens."""
        losses: dict[str, float] = _means(self._entries, meters)["language_loss"]
        return losses

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends a row to the file and its numbers to TensorBoard."""
        if not self._writes:
            return
        self._unwritten.append(row)
        write_error = self._write_pending()
        if write_error and not self._failure_reported:
            with contextlib.suppress(OSError):  # stderr may lie on the same disk
                print(f"{self.path} cannot be written: {write_error.strerror}; its rows stay in "
                      "memory", file=sys.stderr)  # fmt: skip
        self._failure_reported = write_error is not None

    def _write_pending(self) -> OSError | None:
        """Writes the waiting rows; returns the error if the disk refuses them."""
        while self._unwritten:
            text = (json.dumps(self._unwritten[0]) + "\n").encode()
            end = self._rows.seek(0, os.SEEK_END)
            try:
                if self._rows.write(text) != len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                with contextlib.suppress(OSError):
                    self._rows.truncate(end)
                return error
            self._events.add(self._unwritten.pop(0))
        return None

    def rows(self) -> list[dict[str, Any]]:
        """Returns all rows written so far. Call it in the first process only."""
        return [*read_metrics(self.path), *map(dict, self._unwritten)]

    def say(self, text: str) -> None:
        """Prints a line on stderr, above the progress bar."""
        if self._shown:
            self._last_line = time.perf_counter()
            with contextlib.suppress(OSError):
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _show(self, row: Mapping[str, Any]) -> None:
        text = (
            f"loss {row['loss']:.3f}  {row['tokens_per_second']:,.0f} tokens/s  "
            f"wait {100 * row['data_wait']:.1f} %{self._time_left()}"
        )
        self._text = text
        self._bar.update(self._task, text=text)
        tenth_steps = max(self._steps // 10, 1)
        is_new_tenth = row["step"] // tenth_steps != (row["step"] - self.every) // tenth_steps
        is_overdue = time.perf_counter() - self._last_line > _MAX_LINE_INTERVAL
        if not self._console.is_terminal and (
            is_new_tenth or is_overdue or row["step"] == self._steps
        ):
            self.say(f"step {row['step']}/{self._steps}  {text}")

    def _time_left(self) -> str:
        """Returns the estimated time left, from the steps and other phases of this start.

        Other phases are assumed to repeat at the same rate, and once more at the end.
        """
        done, left = self._step - self._first, self._steps - self._step
        if not done or not left:
            return ""
        phases = {kind: s for kind, s in self.phases.seconds.items() if kind != "compiling"}
        phase_seconds = sum(map(sum, phases.values()))
        seconds = (time.perf_counter() - self._begun - phase_seconds) / done * left
        for durations in phases.values():
            repeats = max(1.0, len(durations) * left / done)
            seconds += repeats * sum(durations) / len(durations)
        return f"  {datetime.timedelta(seconds=round(seconds))} left"

    def _announce(self, text: str) -> None:
        if not self._console.is_terminal:
            self.say(text if not self._step else f"step {self._step}: {text}")

    def _show_phase(self, text: str) -> None:
        self._bar.update(self._task, text=text or self._text, refresh=bool(text))


class _Events:
    """Writes the rows after `step` for TensorBoard, without those that a full disk refuses."""

    def __init__(self, directory: Path, step: int) -> None:
        self._directory, self._step = directory, step
        self._writer: EventsWriter | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        numbers: dict[str, float] = {}
        for name, value in row.items():
            if isinstance(value, Mapping):
                numbers |= {
                    f"{name}/{inner}": number
                    for inner, number in value.items()
                    if isinstance(number, int | float)
                }
            elif name != "step" and isinstance(value, int | float):
                numbers[name] = value
        with self._ignoring_write_errors():
            writer = self._writer = self._writer or self._open()
            for name, number in numbers.items():
                event = summary.scalar(name, number)
                writer.write_event(Event(wall_time=time.time(), step=row["step"], summary=event))
            writer.flush()

    def close(self) -> None:
        with self._ignoring_write_errors():
            if self._writer:
                self._writer.close()

    def _open(self) -> EventsWriter:
        """Opens a file whose name no other start of the run used, even after a change of clock."""
        writer = EventsWriter(str(self._directory / "events"), f".{os.getpid()}.{next(_COUNT)}")
        if self._step:  # hides later steps of an earlier start
            begin = SessionLog(status=SessionLog.START)
            writer.write_event(Event(step=self._step + 1, file_version="brain.Event:2"))
            writer.write_event(Event(step=self._step + 1, session_log=begin))
        return writer

    @contextlib.contextmanager
    def _ignoring_write_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._writer = None


def _means(entries: Sequence[tuple[str, str]], meters: Meters) -> dict[str, Any]:
    """Returns tokens and mean loss by language, and by corpus of the languages with several.

    entries: (language, corpus) of each number; those of a language follow each other.
    """
    sums = meters.language_tokens, meters.language_loss
    tokens, losses = (np.asarray(array).tolist() for array in sums)
    row: dict[str, dict[str, Any]] = {"language_tokens": {}, "language_loss": {}}
    numbers = zip(entries, tokens, losses, strict=True)
    for code, group in itertools.groupby(numbers, key=lambda number: number[0][0]):
        all_corpora = {corpus: (count, loss) for (_, corpus), count, loss in group}
        if by_corpus := {corpus: pair for corpus, pair in all_corpora.items() if pair[0]}:
            count, loss = (sum(column) for column in zip(*by_corpus.values(), strict=True))
            row["language_tokens"][code], row["language_loss"][code] = count, loss / count
        if by_corpus and len(all_corpora) > 1:
            means = {corpus: loss / count for corpus, (count, loss) in by_corpus.items()}
            row.setdefault("corpus_tokens", {})[code] = {c: by_corpus[c][0] for c in by_corpus}
            row.setdefault("corpus_loss", {})[code] = means
    return row


@jax.jit
def _snapshot(meters: Meters) -> Meters:
    return jax.tree.map(jnp.copy, meters)
