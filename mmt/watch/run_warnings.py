"""Warnings of the page: languages that overfit, sources that were not read, dead experts."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mmt import languages
from mmt.data import mixing
from mmt.data.cache.manifest import Manifest
from mmt.watch import series
from mmt.watch.run_metrics import RunMetrics

_MIN_EXPECTED = 20.0  # examples; with fewer, none may be read by chance
_DEAD = 0.01  # maximum share of the even share of tokens
_WAITING = 0.1  # minimum share of the time
_RECENT = 20  # last rows


class RunWarning(NamedTuple):
    """A warning. kind: such as 'overfitting'; language: a code or ''; step: when, or None."""

    kind: str
    language: str
    step: int | None
    text: str


def name_of(code: str) -> str:
    """Returns the English name of a language of a run, which may be monolingual text."""
    name = languages.name_of(mixing.language_of(code))
    return f"{name} (monolingual)" if mixing.is_monolingual(code) else name


def of_run(
    metrics: RunMetrics,
    manifest: Manifest | None = None,
    ledger: Mapping[str, Any] | None = None,
    expert_load: Mapping[str, Any] | None = None,
) -> list[RunWarning]:
    """Returns the warnings of a run, the most serious first.

    manifest, ledger, expert_load: content of these files of the run directory. If one is None, the
    warnings that need it are omitted.
    """
    result = [*_faults(metrics), *_dead_experts(expert_load), *_overfitting(metrics)]
    if ledger is not None:
        result += _unread_sources(manifest, ledger)
    result += _without_validation(metrics, manifest)
    return result


def _faults(metrics: RunMetrics) -> Iterator[RunWarning]:
    for step, field, value in metrics.events:
        if field == "stopped":
            yield RunWarning("stopped", "", step, f"stopped at step {step:,}: {value}")
        elif field == "returned_from":
            text = f"rolled back to step {step - 1:,} from step {value:,}: loss not finite"
            yield RunWarning("rollback", "", step, text)
    skipped = metrics.totals.get("skipped")
    if skipped is not None:
        count = np.nansum(skipped.values, dtype=np.float64)
        last = int(skipped.steps[-1])
        text = f"{count:,.0f} steps skipped (loss or gradient not finite)"
        text += f", the last by step {last:,}"
        yield RunWarning("skipped", "", last, text)
    waiting = metrics.totals.get("data_wait")
    if waiting is not None:
        share = float(np.nanmean(waiting.values[-_RECENT:]))
        if share > _WAITING:
            text = (
                f"{share:.0%} of the time of the last rows was spent waiting for data: set "
                "pipeline.train_batches.workers"
            )
            yield RunWarning("waiting", "", int(waiting.steps[-1]), text)


def _dead_experts(expert_load: Mapping[str, Any] | None) -> Iterator[RunWarning]:
    for layer, by_language in (expert_load["layers"] if expert_load else {}).items():
        load = np.sum(list(by_language.values()), axis=0)
        dead = np.flatnonzero(load < _DEAD * load.sum() / len(load)).tolist()
        if expert_load and dead:
            text = (
                f"{layer}: expert{'s' if len(dead) > 1 else ''} {', '.join(map(str, dead))} of "
                f"{len(load)} (from 0) got under {_DEAD:.0%} of an even share of the tokens"
            )
            yield RunWarning("dead expert", "", expert_load["step"], text)


def _overfitting(metrics: RunMetrics) -> Iterator[RunWarning]:
    overfitting_by_column = series.overfitting(metrics)
    for column in sorted(
        overfitting_by_column,
        key=lambda column: overfitting_by_column[column].best - overfitting_by_column[column].last,
    ):
        onset, best, last = overfitting_by_column[column]
        code = metrics.languages[column]
        text = (
            f"{name_of(code)} overfits since step {onset:,}: validation loss {best:.3f} there, "
            f"{last:.3f} now"
        )
        yield RunWarning("overfitting", code, onset, text)


def _unread_sources(manifest: Manifest | None, ledger: Mapping[str, Any]) -> Iterator[RunWarning]:
    sizes = manifest.corpora.get("train", {}) if manifest else {}
    for row in ledger["rows"]:
        code, pairs = row["language"], max(row["pairs"], 1)
        in_corpus: dict[str, int] = {}
        for corpus, count in sizes.get(code, ()):
            in_corpus[corpus] = in_corpus.get(corpus, 0) + count
        for corpus, counts in row["corpora"].items():
            part = in_corpus.get(corpus, pairs if len(row["corpora"]) == 1 else 0) / pairs
            expected = row["foreseen"] * part
            if not counts["examples"] and expected >= _MIN_EXPECTED:
                text = (
                    f"{name_of(code)}: nothing was read of {corpus} up to step "
                    f"{ledger['step']:,}; {expected:,.0f} examples were planned"
                )
                yield RunWarning("source skipped", code, ledger["step"], text)


def _without_validation(
    metrics: RunMetrics, manifest: Manifest | None
) -> Iterator[RunWarning]:
    track = metrics.by_language.get("language_validation_loss")
    if track is None:
        return
    measured = np.isfinite(track.values).any(axis=0)
    missing = [
        code for code, is_measured in zip(metrics.languages, measured, strict=True)
        if not is_measured and not mixing.is_monolingual(code)
    ]  # fmt: skip
    held_out = manifest.counts.get("validation", {}) if manifest else {}
    for code in missing:
        reason = (
            "its validation set was not measured" if held_out.get(code) else "no validation set"
        )
        text = f"{name_of(code)}: {reason}, so its overfitting cannot be seen"
        yield RunWarning("no validation", code, None, text)
