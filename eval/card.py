"""The card of a published model: its README.md, rendered from a TOML file of facts and its scores.

The facts are what no file of a run says: sources, licences, risks, command, and optionally the
training before the run (`started_from`). Tokens and hardware come from the run directory, scores
from results.jsonl. A run that was not trained itself has no metrics: it was extracted, averaged or
imported. Then the facts have `trained_for` and `hardware`.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval import systems
from eval.analyses import cost
from eval.records import results
from eval.records.analysis import Cost
from mmt.plan import parameters
from mmt.run import Run
from mmt.translate.risk import Calibration

TEXTS = ("title", "summary", "licence", "command")
TRAINING = ("trained_for", "hardware")
SOURCE = ("source", "what", "licence", "pairs")


def facts(file: Path) -> dict[str, Any]:
    """Returns the facts of a file. Raises ValueError with all that are missing or empty."""
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    wrong = [name for name in TEXTS if not (isinstance(read.get(name), str) and read[name].strip())]
    risks, sources = read.get("risks"), read.get("sources")
    if not (isinstance(risks, list) and risks and all(isinstance(r, str) and r for r in risks)):
        wrong.append("risks")
    if not (isinstance(sources, list) and sources and all(isinstance(s, dict) for s in sources)):
        wrong.append("sources")
    else:
        wrong += [f"sources[{i}].{key}" for i, source in enumerate(sources) for key in SOURCE
                  if not source.get(key)]  # fmt: skip
        wrong += [f"sources[{i}].pairs as a whole number" for i, source in enumerate(sources)
                  if source.get("pairs") and type(source["pairs"]) is not int]  # fmt: skip
    if wrong:
        raise ValueError(f"{file}: the card's facts are missing: {', '.join(wrong)}")
    return read


def extras(run: Run) -> dict[str, str]:
    """Returns what the optional files of a run are, by their names."""
    descriptions = {}
    if run.identifier.is_file():
        descriptions[run.identifier.name] = "language identifier, trained on the same text"
    if (calibration := Calibration.load_if_any(run.directory)) is not None:
        descriptions[run.risk.name] = (
            f"confidence of translations, calibrated on {calibration.lines:,} validation lines "
            f"with `{_cell(calibration.decode)}`"
        )
    return descriptions


def _spent(spent: Cost, file: Path, facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns the facts of training that a run has measured. The file may not have others."""
    if named := [name for name in TRAINING if name in facts]:
        raise ValueError(f"{file}: remove {' and '.join(named)}, which the run has measured")
    return {
        "trained_for": f"{spent.steps:,} steps, {spent.tokens:,.0f} target tokens",
        "hardware": f"{spent.devices} × {spent.device}, {spent.seconds / 3600:,.2f} hours",
    }


def _named(run: Run, file: Path, facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns the facts of training that the file names."""
    named = {name: str(facts[name]).strip() for name in TRAINING if facts.get(name)}
    if missing := [name for name in TRAINING if not named.get(name)]:
        raise ValueError(
            f"{file}: the card's facts are missing: {', '.join(missing)}; {run.directory} has no "
            f"{run.metrics.name} with {run.environment.name} to take them from"
        )
    return named


def _cell(text: str) -> str:
    """Returns a text for a cell of a table in Markdown, where a bar ends the cell."""
    return text.replace("|", "\\|")


class Card:
    """The card of a run; `text(sha256, bytes)` renders it for its weights.

    Raises ValueError if a fact is missing: in the file, in the run, or a score in `scores`.
    """

    def __init__(self, model_dir: Path, file: Path, scores: Path, *, dtype: str) -> None:
        self.facts, self.dtype = facts(file), dtype
        run = Run(model_dir)
        system = systems.system_of(model_dir, step=run.best_step())
        self.rows = [
            row for row in results.read_rows(scores)
            if row.checkpoint == system.checkpoint and row.system == system.name
        ]  # fmt: skip
        if not self.rows:
            raise ValueError(
                f"{scores}: the card's facts are missing: no score of {system.name} at "
                f"{system.checkpoint}; `mmt evaluate` adds them"
            )
        rows = cost.cost(model_dir, system)
        spent = next((row for row in rows if isinstance(row, Cost)), None)
        self.training = _spent(spent, file, self.facts) if spent else _named(run, file, self.facts)
        self.parameters, self.checkpoint = parameters.count(run.model()).whole, system.checkpoint
        self.extras = extras(run)

    def text(self, sha256: str, size: int) -> str:
        """Returns the Markdown of the card."""
        facts, counted, training = self.facts, self.parameters, self.training
        lines = [
            f"# {facts['title']}", "", facts["summary"].strip(), "",
            f"**Licence.** {facts['licence'].strip()}", "",
            "| | |", "|---|---|",
            f"| parameters | {counted.total:,} ({counted.active:,} active) |",
            *([f"| started from | {facts['started_from']} |"] if "started_from" in facts else []),
            *(f"| {name.replace('_', ' ')} | {training[name]} |" for name in TRAINING),
            f"| checkpoint | `{self.checkpoint}` |",
            f"| weights | {self.dtype}, {size:,} bytes, sha256 `{sha256}` |",
            *(f"| `{name}` | {value} |" for name, value in self.extras.items()),
            f"| command | `{facts['command'].strip()}` |", "",
            "## Risks", "", *(f"* {risk}" for risk in facts["risks"]), "",
            "## Training data", "",
            "| source | what | training pairs | licence |", "|---|---|---:|---|",
            *(f"| {s['source']} | {s['what']} | {s['pairs']:,} | {s['licence']} |"
              for s in facts["sources"]), "",
            "## Scores", "", "The full-precision checkpoint's scores.", "",
            "| language | test set | sentences | decoding | BLEU | chrF++ |",
            "|---|---|---:|---|---:|---:|",
            *(f"| {r.target if r.source == 'eng_Latn' else r.source} | {r.testset} "
              f"| {r.sentences:,} | `{_cell(r.decode)}` | {r.bleu:.2f} | {r.chrf:.2f} |"
              for r in sorted(self.rows, key=lambda r: (r.testset, r.source, r.target, r.decode))),
            "", "Signatures: " + "; ".join(sorted(
                {f"`{s}`" for r in self.rows for s in (r.bleu_signature, r.chrf_signature)}
            )) + ".",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"
