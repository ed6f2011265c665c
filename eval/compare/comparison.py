"""`mmt compare`: what differs between runs, as one object, which text, JSON and the page show."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.compare import compared_run, differences, scores, training
from eval.compare.differences import Differences
from eval.compare.scores import RunPair
from eval.compare.training import TrainingComparison


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side. Differences of losses and scores are those to the first run.

    languages: training pairs where they differ. scores: of each further run against the first.
    notes: what is missing. faults: damaged files, which are compared up to the fault.
    """

    runs: tuple[str, ...]
    directories: tuple[str, ...]
    configuration: Differences
    data: Differences
    languages: Differences
    machines: Differences
    training: TrainingComparison
    scores: tuple[RunPair, ...]
    notes: tuple[str, ...]
    faults: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns all of it for JSON; None for numbers that are not finite."""
        content: dict[str, Any] = _finite(dataclasses.asdict(self))
        for part, pair in zip(content["scores"], self.scores, strict=True):
            for rows, comparison in zip(part["comparisons"], pair.comparisons, strict=True):
                rows["mean_delta"] = round(comparison.mean("delta"), 4)
                rows["mean_delta_interval"] = _finite(comparison.interval)
                for row, language in zip(rows["languages"], comparison.languages, strict=True):
                    row |= {
                        "delta": round(language.delta, 4),
                        "chrf_delta": round(language.chrf_delta, 4),
                        "verdict": language.verdict,
                    }  # fmt: skip
        return content


def compare(directories: Sequence[str | Path], results: Sequence[str | Path] = ()) -> RunComparison:
    """Returns the comparison of two or more run directories with the first of them.

    results: results files with the scores of all runs; by default each run's own.

    Raises:
      ValueError: see `compared_run.read`. A damaged file of a run is no error, but a fault.
      OSError: a file of `results` cannot be read.
    """
    runs = compared_run.read(list(map(Path, directories)), list(map(Path, results)))
    return RunComparison(
        tuple(run.name for run in runs),
        tuple(str(run.directory) for run in runs),
        differences.configuration(runs),
        differences.data(runs),
        differences.languages(runs),
        differences.machines(runs),
        training.compare(runs),
        tuple(scores.compare(runs[0], run) for run in runs[1:]),
        tuple(note for run in runs for note in run.notes),
        tuple(fault for run in runs for fault in run.faults),
    )


def check_page(file: Path) -> None:
    """Raises ValueError unless `file` can be the name of a page."""
    if file.suffix not in (".html", ".htm"):
        raise ValueError(f"--out {file}: expected FILE.html")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _finite(value._asdict())
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value
