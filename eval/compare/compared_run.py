"""Reads the files of a run for a comparison, without its weights and without JAX."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from eval.records import analysis, results
from eval.records.analysis import Paired, SentenceCounts
from eval.records.results import Row
from mmt import config, watch
from mmt.config import WrittenBinding
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.run import Run
from mmt.system import environment
from mmt.system.environment import Environment
from mmt.watch.run_metrics import RunMetrics

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """The scores of a run.

    Attributes:
        rows: rows of results, in file order.
        counts: counts per sentence, by the key of their row.
        paired: stored tests, by the key of their row, and system and checkpoint of the other row.
    """

    rows: tuple[Row, ...] = ()
    counts: Mapping[tuple[str, ...], SentenceCounts] = field(default_factory=dict)
    paired: Mapping[tuple[str, ...], Paired] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run and the content of its files. Missing content is empty or None.

    Attributes:
        name: unique among the compared runs.
        directory: the run directory.
        bindings: bindings of its configuration.
        manifest: languages and counts of its training data.
        environment: devices and versions.
        metrics: the logged metrics.
        scores: rows of results and analysis.
        notes: what is missing, as text.
        faults: damaged files, with file and line; lines after a fault are not compared.
    """

    name: str
    directory: Path
    bindings: Mapping[str, WrittenBinding]
    manifest: Manifest | None
    environment: Environment | None
    metrics: RunMetrics
    scores: ScoreRows
    notes: tuple[str, ...]
    faults: tuple[str, ...]


def read(directories: Sequence[Path], files: Sequence[Path] = ()) -> list[ComparedRun]:
    """Returns the runs in these directories.

    files: results files with the scores of all runs; by default each run has its own.

    Raises:
      ValueError: fewer than two directories; one is given twice, or is no run directory; a file of
        `files` is damaged, or has no row of any of the runs.
      OSError: a file of `files` cannot be read.
    """
    if len(directories) < 2:
        raise ValueError(f"{len(directories)} run: name two or more to compare")
    runs = watch.named(directories)
    score_files = [(file, results.read_rows(file), analysis.read(analysis.path_for(file)))
             for file in files]  # fmt: skip
    systems = [path.resolve().name for path, _ in runs]
    duplicates = sorted({system for system in systems if systems.count(system) > 1})
    if files and duplicates:
        raise ValueError(
            f"several of the runs are called {duplicates[0]}, so their rows of {files[0]} cannot "
            "be told apart: rename a directory, or omit --results"
        )
    compared = [_Reader(path, name, systems if files else ()).run(score_files if files else None)
                for path, name in runs]  # fmt: skip
    if files and not any(run.scores.rows for run in compared):
        systems_of_files = sorted({row.system for _, rows, _ in score_files for row in rows})
        raise ValueError(
            f"{', '.join(map(str, files))}: no row of {', '.join(systems)}; systems: "
            f"{', '.join(systems_of_files[:8]) or 'none'}"
        )
    return compared


_ScoreFiles = Sequence[tuple[Path, Sequence[Row], Sequence[analysis.Row]]]


class _Reader:
    """Reads the files of one run and collects what is missing or damaged."""

    def __init__(self, directory: Path, name: str, systems: Sequence[str]) -> None:
        self._run, self._name, self._systems = Run(directory), name, systems
        self._notes: list[str] = []
        self._faults: list[str] = []

    def run(self, score_files: _ScoreFiles | None) -> ComparedRun:
        run = self._run
        unbound: dict[str, WrittenBinding] = {}
        bindings = self._read(run.config, config.written, unbound)
        manifest = self._read(run.manifest, read_manifest, None)
        recorded = self._read(run.environment, _environment, None)
        return ComparedRun(
            self._name, run.directory, bindings, manifest, recorded,
            self._metrics(manifest.languages if manifest else ()), self._scores(score_files),
            tuple(self._notes), tuple(self._faults),
        )  # fmt: skip

    def _read(self, file: Path, load: Callable[[Path], T], default: T) -> T:
        """Returns `load(file)`; `default`, with a note or fault, if that is not possible."""
        if not file.is_file():
            self._notes.append(f"{self._name} has no {file.name}")
            return default
        try:
            return load(file)
        except (ValueError, OSError) as error:
            self._faults.append(str(error))
            return default

    def _metrics(self, languages: tuple[str, ...]) -> RunMetrics:
        file = self._run.metrics
        metrics = RunMetrics(file, languages)
        if not file.is_file():
            self._notes.append(f"{self._name} has no {file.name}")
            return metrics
        try:
            while metrics.read():
                pass
        except OSError as error:
            self._faults.append(f"{file}: {error.strerror}")
        if metrics.fault:
            self._faults.append(f"{metrics.fault}; nothing after this line is compared")
        elif metrics.place < metrics.size:
            self._notes.append(
                f"{self._name} is being written: the last line of {file.name} is incomplete, and "
                "is left out"
            )
        return metrics

    def _scores(self, score_files: _ScoreFiles | None) -> ScoreRows:
        if score_files is None:
            file, none = self._run.results, list[Row]()
            rows = self._read(file, results.read_rows, none)
            score_files = [
                (file, rows, self._read_analysis(analysis.path_for(file)) if rows else [])
            ]
        every_row = [row for _, rows, _ in score_files for row in rows]
        own_rows = {row.key: row for row in self._own_rows(every_row)}
        analyses = [row for *_, rows in score_files for row in rows]
        return ScoreRows(
            tuple(own_rows.values()),
            {row.key[1:]: row for row in analyses if isinstance(row, SentenceCounts)},
            {row.key[1:]: row for row in analyses if isinstance(row, Paired)},
        )

    def _read_analysis(self, file: Path) -> list[analysis.Row]:
        return self._read(file, analysis.read, [])

    def _own_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows of this run, by its name or, where it was renamed, its configuration.

        In a file of all runs, rows that have the name of another run are of that run.
        """
        system = self._run.directory.resolve().name
        own_rows = [row for row in rows if row.system == system]
        if not own_rows and self._run.config.is_file():
            digest = hashlib.sha256(self._run.config.read_bytes()).hexdigest()[:12]
            own_rows = [
                row for row in rows if row.config == digest and row.system not in self._systems
            ]
            if own_rows:
                self._notes.append(f"{self._name} is called {own_rows[0].system} in its results")
        systems = sorted({row.system for row in rows})
        if systems and not own_rows:
            self._notes.append(
                f"{self._name} has no row in its results; systems: {', '.join(systems[:8])}"
            )
        return own_rows


def _environment(file: Path) -> Environment | None:
    """Returns the devices and versions of a run. Raises ValueError if the file is damaged."""
    recorded = environment.read(file)
    if recorded is None:
        return None
    versions = recorded.versions
    if (
        not isinstance(recorded.device, str) or type(recorded.devices) is not int
        or not isinstance(recorded.tunables, str) or not isinstance(versions, dict)
        or not all(isinstance(version, str) for version in versions.values())
    ):  # fmt: skip
        raise ValueError(f"{file}: expected a device, a number of devices, and versions by package")
    return recorded
