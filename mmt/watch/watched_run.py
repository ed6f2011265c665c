"""`WatchedRun`: all that the page shows of a run, from the files of its directory."""

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mmt import health, languages, suggest
from mmt.data import mixing
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.run import Run
from mmt.watch import not_logged, run_files, run_warnings, series
from mmt.watch.run_metrics import RunMetrics
from mmt.watch.series import METRICS, Series

_HOSTS_SECONDS = 10.0  # between two reads of the heartbeats


def open_runs(directories: Sequence[str | Path]) -> list["WatchedRun"]:
    """Returns the runs in these directories, none of whose metrics has been read yet.

    Raises:
      ValueError: a directory is given twice, is no run directory, or is a published model.
    """
    named_paths = run_files.named(directories)
    for path, _ in named_paths:
        run = Run(path)
        if run.hashes.is_file() and not run.metrics.exists():
            raise ValueError(
                f"{path} is a published model: it has no {run.metrics.name}, the history of its "
                "training; watch the run directory that it was exported from"
            )
    return [WatchedRun(path, name) for path, name in named_paths]


class WatchedRun:
    """A run and the data that have been read of it. Methods may be called from several threads.

    It only reads files, so the run may train on another machine, or be finished.

    Attributes:
      name: name of the run on the page.
      version: grows when `read` finds new data.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self.version = name, 0
        self._run = Run(directory)
        self._lock = threading.Lock()
        self._faults: dict[str, str] = {}  # by the file
        self._stamps: dict[str, tuple[int, int]] = {}
        self._manifest: Manifest | None = None
        self._ledger: dict[str, Any] | None = None
        self._expert_load: dict[str, Any] | None = None
        self._config = ""
        self._steps: int | None = None
        self._progress = 0.0
        self._metrics = RunMetrics(self._run.metrics)
        self._host_problems: list[health.HostProblem] = []
        self._hosts_read = -math.inf
        self._read_small_files()

    def read(self) -> bool:
        """Reads up to some MiB of new data. Returns whether there were any."""
        with self._lock:
            changed = self._read_small_files() | self._read_hosts()
            try:
                new_rows = self._metrics.read()
                size = self._metrics.size if new_rows else 0  # an incomplete line may be left
                self._progress = self._metrics.place / size if size else 1.0
                changed |= new_rows
                changed |= self._faults.pop("metrics", None) is not None
            except OSError as error:
                changed |= self._fault("metrics", f"{self._run.metrics}: {error.strerror}")
            self.version += changed
            return changed

    def read_all(self) -> None:
        """Reads until nothing is new."""
        while self.read():
            pass

    @property
    def progress(self) -> float:
        """Returns the share of the metrics file that has been read, from 0 to 1."""
        return self._progress

    def check(self) -> None:
        """Raises ValueError if a file of the run is damaged."""
        for fault in self._every_fault():
            raise ValueError(fault)

    def _every_fault(self) -> list[str]:
        metrics_fault = [self._metrics.fault] if self._metrics.fault else []
        return [*self._faults.values(), *metrics_fault]

    def _fault(self, file: str, text: str) -> bool:
        changed = self._faults.get(file) != text
        self._faults[file] = text
        return changed

    def _read_small_files(self) -> bool:
        """Reads the manifest, the ledger and the number of steps from files that have changed."""
        changed = False
        for file, load in (
            (self._run.manifest, self._load_manifest),
            (self._run.ledger, self._load_ledger),
            (self._run.config, self._load_config),
            (self._run.expert_load, self._load_expert_load),
        ):
            try:
                stat = file.stat()
            except OSError:
                continue
            stamp = (stat.st_mtime_ns, stat.st_size)
            if self._stamps.get(file.name) == stamp:
                continue
            self._stamps[file.name], changed = stamp, True
            self._faults.pop(file.name, None)
            try:
                load()
            except (OSError, ValueError) as error:
                self._fault(file.name, str(error))
        return changed

    def _read_hosts(self) -> bool:
        """Examines the heartbeats, every few seconds; returns whether other hosts are at fault."""
        if time.monotonic() - self._hosts_read < _HOSTS_SECONDS:
            return False
        before = [(problem.kind, problem.processes) for problem in self._host_problems]
        self._host_problems = health.examine(health.read(self._run.hosts), time.time())
        self._hosts_read = time.monotonic()
        return before != [(problem.kind, problem.processes) for problem in self._host_problems]

    def _load_manifest(self) -> None:
        before = self._manifest.languages if self._manifest else ()
        self._manifest = read_manifest(self._run.manifest)
        if self._manifest.languages != before:
            self._metrics = RunMetrics(self._run.metrics, self._manifest.languages)

    def _load_ledger(self) -> None:
        self._ledger = None
        self._ledger = run_files.read_ledger(self._run)

    def _load_expert_load(self) -> None:
        self._expert_load = None
        self._expert_load = run_files.read_expert_load(self._run)

    def _load_config(self) -> None:
        self._config, self._steps = run_files.read_config(self._run)

    def series(
        self, name: str, *, columns: int, first: int = 0, last: int | None = None,
        codes: Sequence[str] | None = None, bands: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Returns a metric of `series.METRICS` between two steps, for JSON.

        Args:
          name: of the metric.
          columns: maximum points of a language.
          first, last: steps; by default all.
          codes: languages; by default all of the run.
          bands: whether to add the least and greatest value of each point.

        Returns:
          `languages` and the fields of `Bins.as_json`.

        Raises:
          ValueError: no such metric or language, or the run does not log the metric.
        """
        if name not in METRICS:
            raise ValueError(f"no metric {name!r}; {suggest.choices(name, METRICS)}")
        with self._lock:
            all_codes = list(self._metrics.languages)
            if unknown := [code for code in codes or () if code not in all_codes]:
                hint = suggest.hint(unknown[0], all_codes)
                raise ValueError(f"{self.name} has no language {unknown[0]!r}{hint}")
            full_series = series.of_languages(self._metrics, name, self._epoch_tokens())
            if full_series is None:
                raise ValueError(f"{METRICS[name].label} is not logged: {self._why_not(name)}")
            part = full_series.between(first, self._metrics.step if last is None else last)
            if codes is not None:
                part = Series(part.steps, part.values[:, [all_codes.index(code) for code in codes]])
            bins = series.binned(part, columns)
        return {"languages": list(codes or all_codes)} | bins.as_json(bands=bands)

    def totals(self, *, columns: int, first: int = 0, last: int | None = None) -> dict[str, Any]:
        """Returns the numbers of the whole run by field, each as the fields of `Bins.as_json`."""
        with self._lock:
            end = self._metrics.step if last is None else last
            parts = {
                field: Series(track.steps, track.values).between(first, end)
                for field, track in self._metrics.totals.items()
            }
            bins = {field: series.binned(part, columns) for field, part in parts.items()}
        return {field: part.as_json(bands=True) for field, part in bins.items()}

    def samples(self, codes: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Returns the logged translations of the last validations, oldest first.

        codes: languages; by default all.
        """
        with self._lock:
            all_rows = list(self._metrics.samples)
        if codes is None:
            return all_rows
        return [
            {
                "step": row["step"],
                "samples": {code: row["samples"][code] for code in codes if code in row["samples"]},
            }
            for row in all_rows
        ]

    def overview(self) -> dict[str, Any]:
        """Returns everything that the page shows except series, for JSON."""
        with self._lock:
            metrics = self._metrics
            names = [name for name in METRICS if self._logs(name)]
            latest = {
                field: float(track.values[-1, 0])
                for field, track in metrics.totals.items()
                if np.isfinite(track.values[-1, 0])
            }
            other_data = {
                "mixing": self._ledger is not None, "samples": bool(metrics.samples),
                "expert_load": self._expert_load is not None,
            }  # fmt: skip
            missing = [name for name in METRICS if name not in names]
            missing += [name for name, is_present in other_data.items() if not is_present]
            labels = {name: metric.label for name, metric in METRICS.items()}
            labels |= not_logged.LABELS
            return {
                "name": self.name,
                "directory": str(self._run.directory),
                "version": self.version,
                "progress": self.progress,
                "step": metrics.step,
                "steps": self._steps,
                "age": self._age(),
                "latest": latest,
                "metrics": names,
                "missing": [f"{labels[name]}: {self._why_not(name)}" for name in missing],
                "faults": self._every_fault(),
                "warnings": [warning._asdict() for warning in self._warnings()],
                "decisions": list(metrics.decisions),
                "languages": self._languages(),
                "ledger_step": self._ledger["step"] if self._ledger else None,
                "expert_load": self._expert_load,
            }

    def _warnings(self) -> list[run_warnings.RunWarning]:
        of_hosts = [run_warnings.RunWarning("host", "", None, problem.text)
                    for problem in self._host_problems]  # fmt: skip
        of_metrics = run_warnings.of_run(
            self._metrics, self._manifest, self._ledger, self._expert_load
        )
        return of_hosts + of_metrics

    def _logs(self, name: str) -> bool:
        is_logged = METRICS[name].field in self._metrics.by_language
        return is_logged and (name != "epochs" or self._ledger is not None)

    def _why_not(self, name: str) -> str:
        return not_logged.reason(name, self._config, self._metrics.step)

    def _age(self) -> float | None:
        """Returns seconds since the last row was written, by the clock of its file system."""
        if not self._metrics.place:  # an empty file, or an incomplete first row
            return None
        try:
            return max(0.0, time.time() - self._run.metrics.stat().st_mtime)
        except OSError:
            return None

    def _languages(self) -> list[dict[str, Any]]:
        counts = self._manifest.counts if self._manifest else {}
        consumed = {row["language"]: row for row in self._ledger["rows"]} if self._ledger else {}
        planned = sum(row["foreseen"] for row in consumed.values()) or 1.0
        onsets = series.overfitting(self._metrics)
        native = {row.code: row.native for row in languages.all_languages()}
        rows = []
        for column, code in enumerate(self._metrics.languages):
            row: dict[str, Any] = {"code": code, "name": run_warnings.name_of(code)}
            row["native"] = native.get(mixing.language_of(code), "")
            row["pairs"] = counts.get("train", {}).get(code)
            if code in consumed:
                part = consumed[code]
                row |= {
                    "planned": part["foreseen"] / planned, "consumed": part["share"],
                    "epochs": part["epochs"], "examples": part["examples"],
                }  # fmt: skip
            if column in onsets:
                row["onset"] = onsets[column].onset
            rows.append(row)
        return rows

    def _epoch_tokens(self) -> Float[np.ndarray, " languages"] | None:
        """Returns the target tokens of an epoch of each language, from the examples read so far."""
        if self._ledger is None:
            return None
        tokens = {
            row["language"]: row["pairs"] * row["target_tokens"] / row["examples"]
            for row in self._ledger["rows"]
            if row["examples"]
        }
        return np.array([tokens.get(code, np.nan) for code in self._metrics.languages])
