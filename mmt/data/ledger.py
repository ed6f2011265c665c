"""Counts the examples that a run has consumed, per language and corpus, from its data position.

The order of examples is a function of the draw. So the counts depend only on cache and data state,
and not on kills, moves or repeated steps. `Run.ledger` is the file; `mmt data consumed` shows it.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from mmt.data.modifiers import Change
from mmt.data.virtual_shards import SampleOrder
from mmt.run import Run
from mmt.system import atomic
from mmt.system.text_table import aligned

FIELDS = ("examples", "source_tokens", "target_tokens", "modified", "too_long")
_AT_ONCE = 1 << 20  # examples counted at once

Counted = Int[np.ndarray, "entries fields"]


class Counter:
    """Counts examples and their tokens, with EOS, by language and corpus.

    It also counts the examples that modifiers changed, and those that would have become too long.

    Attributes:
      entries: (FLORES code, corpus name) of each row of the counts; the columns are `FIELDS`. In a
        cache without corpus names, each language has one corpus, named after the cache.
    """

    def __init__(self, order: SampleOrder):
        self._order = order
        self.entries: list[tuple[str, str]] = []
        self._ends: list[np.ndarray] = []  # by language: ends of the runs of one corpus
        self._rows: list[np.ndarray] = []  # by language: the entry of each run
        manifest = order.split.cache.manifest
        for code in order.split.counts:
            runs = manifest.corpora.get("train", {}).get(code) or [
                [manifest.name, manifest.counts["train"][code]]
            ]
            names = list(dict.fromkeys(name for name, _ in runs))
            first_row = len(self.entries)
            self.entries += [(code, name) for name in names]
            self._ends.append(np.cumsum([count for _, count in runs]))
            self._rows.append(np.array([first_row + names.index(name) for name, _ in runs]))

    def zero(self) -> Counted:
        """Returns counts of 0."""
        return np.zeros((len(self.entries), len(FIELDS)), np.int64)

    def appearances(
        self, since: Int[np.ndarray, "languages"], until: Int[np.ndarray, "languages"]
    ) -> Counted:
        """Counts the appearances since <= a < until of every language, without modifiers.

        Whole epochs are multiplied, so the time is that of a few passes over the corpus.
        """
        counts = self.zero()
        sizes = self._order.sizes
        start = np.maximum(since, self._order.unlimited_from())
        first_epoch, end_epoch = -(-start // sizes), until // sizes  # the whole epochs in between
        whole_epochs = np.maximum(end_epoch - first_epoch, 0)
        for language in np.flatnonzero(whole_epochs).tolist():
            counts += whole_epochs[language] * self._epoch(language)
        has_whole = whole_epochs > 0
        pieces = [
            (since, np.where(has_whole, first_epoch * sizes, until)),
            (end_epoch * sizes, until),
        ]
        for (start, end), included in zip(pieces, (slice(None), has_whole), strict=True):
            lengths = np.zeros_like(sizes)
            lengths[included] = (end - start)[included]
            languages = np.repeat(np.arange(len(sizes)), lengths)
            offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            counts += self._add(languages, offsets + np.repeat(start, lengths))
        return counts

    def draws(self, draws: Int[np.ndarray, "n"]) -> Counted:
        """Counts these draws, with the changes by modifiers."""
        languages, appearances, _ = self._order.sampler.at(draws)
        order = np.argsort(languages, kind="stable")
        return self._add(languages[order], appearances[order]) + self.changes(draws)

    def changes(self, draws: Int[np.ndarray, "n"]) -> Counted:
        """Returns the amounts that modifiers add to the counts of these draws."""
        counts = self.zero()
        changes = np.array(self._order.changes(draws), np.int64).reshape(-1, len(Change._fields))
        changes = changes[np.argsort(changes[:, 0], kind="stable")]
        cuts = np.flatnonzero(np.diff(changes[:, 0])) + 1
        for part in np.split(changes, cuts) if changes.size else ():
            language, records, source, target, fits = part.T
            rows = self._rows[language[0]][
                np.searchsorted(self._ends[language[0]], records, side="right")
            ]
            amounts = np.stack(
                [np.zeros_like(fits), source * fits, target * fits, fits, 1 - fits], axis=1
            )
            np.add.at(counts, rows, amounts)
        return counts

    def _epoch(self, language: int) -> Counted:
        return self._examples(language, np.arange(self._order.sizes[language]))

    def _add(self, languages: Int[np.ndarray, "n"], appearances: Int[np.ndarray, "n"]) -> Counted:
        """Counts appearances that are sorted by their languages."""
        counts = self.zero()
        for start in range(0, len(languages), _AT_ONCE):
            chunk = languages[start : start + _AT_ONCE]
            indices = self._order.indices(chunk, appearances[start : start + _AT_ONCE])
            cuts = np.flatnonzero(np.diff(chunk)) + 1
            for part in np.split(np.arange(len(chunk)), cuts):
                counts += self._examples(int(chunk[part[0]]), indices[part])
        return counts

    def _examples(self, language: int, indices: Int[np.ndarray, "n"]) -> Counted:
        split, counts = self._order.split, self.zero()
        records = split.records(language, indices)
        lengths = split.lengths(language, records)
        rows = self._rows[language][np.searchsorted(self._ends[language], records, side="right")]
        columns = (None, lengths[:, 0], lengths[:, 1])
        for column, weights in enumerate(columns):
            counts[:, column] = np.bincount(rows, weights, minlength=len(counts))
        return counts


class Ledger:
    """Keeps the ledger file of a run; `TrainBatches.ledger` makes it.

    At a checkpoint every process calls `count` for its part, and one process calls `write`.
    """

    def __init__(self, order: SampleOrder):
        self._counter = Counter(order)
        self._order = order

    def read(self, directory: str | Path) -> dict[str, Any] | None:
        """Returns the last content of the file.

        None if the file belongs to other data; then everything is counted again.
        """
        content = _read(Run(directory).ledger)
        if content is None or content["position"]["settings"] != self._digest():
            return None
        saved_ends = content["position"].get("stages", {}).get("ends", [])
        ends = self._order.sampler.ends
        if any(saved not in (None, end) for saved, end in zip(saved_ends, ends, strict=True)):
            return None  # written before the run restarted from an earlier checkpoint
        limit = max((shard["next"] for shard in content["position"]["lane"].values()), default=0)
        changes = [change for change in content["position"].get("changes", []) if change[0] < limit]
        if changes != [change for change in self._changes() if change[0] < limit]:
            return None  # also written before an earlier checkpoint was restored
        corpora = [(row["language"], row["corpora"]) for row in content["rows"]]
        entries = [(code, name) for code, by_name in corpora for name in by_name]
        complete = all(
            counts.keys() >= set(FIELDS) for _, by_name in corpora for counts in by_name.values()
        )
        return content if entries == self._counter.entries and complete else None

    def count(
        self, former: Mapping[str, Any] | None, state: Mapping[str, Any], part: int, parts: int
    ) -> list[list[int]]:
        """Counts the examples that were consumed between two positions.

        Args:
          former: the content that `read` returned; None: the start of the run.
          state: the data state of all processes.
          part, parts: the index of this part of the work, and the number of parts.

        Returns:
          The counts; negative where a run resumes from an older checkpoint than `former`.
        """
        sampler, counter = self._order.sampler, self._counter
        counts = counter.zero()
        is_own = np.arange(len(self._order.sizes)) % parts == part
        start, end = _Position.of(former and former["position"]), _Position.of(state)
        low, high = sorted((start.complete_until, end.complete_until))
        since, until = sampler.before(low), sampler.before(high)
        between = counter.appearances(np.where(is_own, since, 0), np.where(is_own, until, 0))
        if any(stage.modifiers for stage in sampler.stages):
            for first in range(low, high, _AT_ONCE):
                draws = np.arange(first, min(first + _AT_ONCE, high))
                shards = draws % state["lanes"]
                between += counter.changes(draws[shards * parts // state["lanes"] == part])
        counts += between if end.complete_until >= start.complete_until else -between
        for draws, sign in (end.beyond, 1), (end.open, -1), (start.beyond, -1), (start.open, 1):
            counts += sign * counter.draws(draws[part::parts])
        self._order.changed.forget(high)
        return counts.tolist()

    def write(
        self,
        directory: str | Path,
        former: Mapping[str, Any] | None,
        state: Mapping[str, Any],
        counted: Sequence[list[list[int]]],
        step: int,
    ) -> None:
        """Writes the file atomically. An OSError names the file.

        Args:
          directory: of the run.
          former: the content that `read` returned; None: the start of the run.
          state: the data state of all processes.
          counted: the counts of all parts, as `count` returns them.
          step: of the checkpoint.
        """
        totals = sum((np.array(counts) for counts in counted), self._counter.zero())
        if former is not None:
            totals += [
                [numbers[field] for field in FIELDS]
                for row in former["rows"]
                for numbers in row["corpora"].values()
            ]
        content = {
            "step": step,
            "examples": int(totals[:, 0].sum()),
            "rows": self._rows(totals),
            "position": {"settings": self._digest(), "lanes": state["lanes"]}
            | {key: state[key] for key in ("stages", "lane") if key in state}
            | ({"changes": changes} if (changes := self._changes()) else {}),
        }
        atomic.write_json(Run(directory).ledger, content)

    def _rows(self, totals: Counted) -> list[dict[str, Any]]:
        """Returns a row per language, in the order of `entries`."""
        expected = self._order.sampler.expected(int(totals[:, 0].sum()))
        counts = self._order.split.counts
        rows = []
        counted_entries = zip(self._counter.entries, totals.tolist(), strict=True)
        by_language = itertools.groupby(counted_entries, key=lambda line: line[0][0])
        for (code, counted), foreseen in zip(by_language, expected.tolist(), strict=True):
            corpora = {name: dict(zip(FIELDS, line, strict=True)) for (_, name), line in counted}
            sums = {field: sum(counts[field] for counts in corpora.values()) for field in FIELDS}
            rows.append(
                {"language": code, "pairs": counts[code]}
                | sums
                | {
                    "tokens": sums["source_tokens"] + sums["target_tokens"],
                    "share": sums["examples"] / max(int(totals[:, 0].sum()), 1),
                    "epochs": sums["examples"] / counts[code],
                    "foreseen": foreseen,
                    "corpora": corpora,
                }
            )
        return rows

    def _digest(self) -> str:
        return _hash(self._order.settings())

    def _changes(self) -> list[list[Any]]:
        """Returns the draw of each change of the mixing rates, and a hash of the new rates."""
        return [[draw, _hash(factors)] for draw, factors in self._order.sampler.changes]


def _hash(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class _Position:
    """A run's position in the data.

    It has consumed all draws before `complete_until`, and those in `beyond`, of virtual shards that
    are further. Draws in `open` rows are not consumed.
    """

    def __init__(self, shards: int, nexts: Mapping[int, int], rows: Iterable[Sequence[int]]):
        until = min(nexts.values(), default=0) if len(nexts) == shards else 0
        self.complete_until = until
        ahead = [
            np.arange(until + (shard - until) % shards, next_draw, shards)
            for shard, next_draw in nexts.items()
        ]
        self.beyond = np.concatenate([np.zeros(0, np.int64), *ahead])
        self.open = np.fromiter(itertools.chain.from_iterable(rows), np.int64)

    @classmethod
    def of(cls, state: Mapping[str, Any] | None) -> "_Position":
        if state is None:
            return cls(1, {}, ())
        shards = state["lane"]
        nexts = {int(number): shard["next"] for number, shard in shards.items()}
        rows = (row for shard in shards.values() for row in shard["open"])
        return cls(state["lanes"], nexts, rows)


def chi_square(observed: Sequence[int], expected: Sequence[float]) -> tuple[float, int]:
    """Returns Pearson's statistic of counts against expected ones, and its degrees of freedom.

    >>> chi_square([12, 8], [10.0, 10.0])
    (0.8, 1)
    """
    pairs = [(count, mean) for count, mean in zip(observed, expected, strict=True) if mean]
    return sum((count - mean) ** 2 / mean for count, mean in pairs), max(len(pairs) - 1, 0)


def load(directory: str | Path) -> dict[str, Any]:
    """Returns the ledger of a run directory. Raises ValueError if there is none."""
    file = Run(directory).ledger
    content = _read(file)
    if content is None:
        raise ValueError(
            f"{directory} has no readable {file.name}: it is written with every checkpoint of a run"
        )
    return content


def table(content: Mapping[str, Any]) -> str:
    """Returns the ledger as text: the consumed examples, and those that the mixing rates predict.
    """
    rows = sorted(content["rows"], key=lambda row: (-row["examples"], row["language"]))
    several = any(len(row["corpora"]) > 1 for row in rows)
    header = ["language", "pairs", "examples", "foreseen", "share", "epochs", "tokens"]
    lines = [header]
    for row in rows:
        lines.append(_line(row["language"], row | {"foreseen": f"{row['foreseen']:,.1f}"}))
        if several:
            lines += [
                [f"  {name}", "", f"{counts['examples']:,}", "", "", "",
                 f"{counts['source_tokens'] + counts['target_tokens']:,}"]
                for name, counts in row["corpora"].items()
            ]  # fmt: skip
    total = {key: sum(row[key] for row in rows) for key in ("pairs", "examples", "tokens")}
    epochs = total["examples"] / max(total["pairs"], 1)
    lines.append(_line("all", total | {"foreseen": "", "share": 1.0, "epochs": epochs}))
    observed, foreseen = ([row[key] for row in rows] for key in ("examples", "foreseen"))
    statistic, freedom = chi_square(observed, foreseen)
    return "\n".join(
        [
            *aligned(lines, left=1),
            f"consumed up to step {content['step']:,}; against the mixing rates: chi-square "
            f"{statistic:.2f} at {freedom} degrees of freedom",
        ]
    )


def _line(name: str, row: Mapping[str, Any]) -> list[str]:
    return [
        name, f"{row['pairs']:,}", f"{row['examples']:,}", row["foreseen"],
        f"{row['share']:.2%}", f"{row['epochs']:.2f}", f"{row['tokens']:,}",
    ]  # fmt: skip


def _read(path: Path) -> dict[str, Any] | None:
    """Returns the content; None if the file is missing or damaged, since it can be counted again.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        table(content)
        _Position.of(content["position"])
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
    ):  # fmt: skip
        return None
    return content
