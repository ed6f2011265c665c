"""What a run has really seen, per language and corpus: counted from where it is in the data.

The stream is arithmetic, so this is a pure function of cache and data state, whatever was killed,
moved or done twice on the way. `Run.ledger` is its file; `mmt data ledger` shows it.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from mmt.data.virtual_shards import Draws
from mmt.run import Run
from mmt.system import atomic

FIELDS = ("examples", "source_tokens", "target_tokens", "modified", "too_long")
_AT_ONCE = 1 << 20  # examples counted at once

Counted = Int[np.ndarray, "entries fields"]


class Counter:
    """Counts examples and their tokens, with EOS, by language and corpus: the `entries`; and how
    many of them were modified, or were not since they would have been too long.

    entries: (FLORES code, the corpus's name) of each row of what is counted; the columns are
      `FIELDS`. A cache that does not tell its corpora has one a language, of the cache's name.
    """

    def __init__(self, draws: Draws):
        self._draws = draws
        self.entries: list[tuple[str, str]] = []
        self._ends: list[np.ndarray] = []  # by language: the ends of the runs of one corpus
        self._rows: list[np.ndarray] = []  # and the entry of each
        manifest = draws.split.cache.manifest
        for code in draws.split.counts:
            runs = manifest.corpora.get("train", {}).get(code) or [
                [manifest.name, manifest.counts["train"][code]]
            ]
            names = list(dict.fromkeys(name for name, _ in runs))
            first = len(self.entries)
            self.entries += [(code, name) for name in names]
            self._ends.append(np.cumsum([count for _, count in runs]))
            self._rows.append(np.array([first + names.index(name) for name, _ in runs]))

    def zero(self) -> Counted:
        return np.zeros((len(self.entries), len(FIELDS)), np.int64)

    def appearances(
        self, since: Int[np.ndarray, "languages"], until: Int[np.ndarray, "languages"]
    ) -> Counted:
        """Of every language the appearances since <= a < until, as if none was modified. Whole
        epochs are not looked at one by one, so this takes no longer than going over the corpus
        a few times.
        """
        found = self.zero()
        sizes = self._draws.sizes
        first, last = -(-since // sizes), until // sizes  # the whole epochs in between
        whole = np.maximum(last - first, 0)
        for language in np.flatnonzero(whole).tolist():
            found += whole[language] * self._epoch(language)
        some = whole > 0
        pieces = [(since, np.where(some, first * sizes, until)), (last * sizes, until)]
        for (start, end), wanted in zip(pieces, (slice(None), some), strict=True):
            count = np.zeros_like(sizes)
            count[wanted] = (end - start)[wanted]
            languages = np.repeat(np.arange(len(sizes)), count)
            places = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            found += self._add(languages, places + np.repeat(start, count))
        return found

    def draws(self, draws: Int[np.ndarray, "n"]) -> Counted:
        """Of these draws, one by one."""
        languages, appearances, _ = self._draws.timeline.at(draws)
        order = np.argsort(languages, kind="stable")
        return self._add(languages[order], appearances[order]) + self.changes(draws)

    def changes(self, draws: Int[np.ndarray, "n"]) -> Counted:
        """What modifiers add to the counts of these draws."""
        found = self.zero()
        for change in self._draws.changes(draws):
            rows, ends = self._rows[change.language], self._ends[change.language]
            row = rows[np.searchsorted(ends, change.record, side="right")]
            if change.fits:
                found[row] += (0, change.source, change.target, 1, 0)
            else:
                found[row] += (0, 0, 0, 0, 1)
        return found

    def _epoch(self, language: int) -> Counted:
        return self._lines(language, np.arange(self._draws.sizes[language]))

    def _add(self, languages: Int[np.ndarray, "n"], appearances: Int[np.ndarray, "n"]) -> Counted:
        """Of appearances that are sorted by their languages."""
        found = self.zero()
        for start in range(0, len(languages), _AT_ONCE):
            some = languages[start : start + _AT_ONCE]
            indices = self._draws.places(some, appearances[start : start + _AT_ONCE])
            cuts = np.flatnonzero(np.diff(some)) + 1
            for part in np.split(np.arange(len(some)), cuts):
                found += self._lines(int(some[part[0]]), indices[part])
        return found

    def _lines(self, language: int, indices: Int[np.ndarray, "n"]) -> Counted:
        split, found = self._draws.split, self.zero()
        records = split.records(language, indices)
        lengths = split.lengths(language, records)
        rows = self._rows[language][np.searchsorted(self._ends[language], records, side="right")]
        columns = (None, lengths[:, 0], lengths[:, 1])
        for column, weights in enumerate(columns):
            found[:, column] = np.bincount(rows, weights, minlength=len(found))
        return found


class Ledger:
    """Keeps the ledger file of a run; made by `TrainBatches.ledger`.

    At a checkpoint every process calls `count` for its part, and one `write` for all of them.
    """

    def __init__(self, draws: Draws):
        self._counter = Counter(draws)
        self._draws = draws

    def read(self, directory: str | Path) -> dict[str, Any] | None:
        """What was written last, if it is of this run's data; else everything is counted again."""
        found = _read(Run(directory).ledger)
        if found is None or found["position"]["settings"] != self._digest():
            return None
        ends = found["position"].get("stages", {}).get("ends", [])
        own = self._draws.timeline.ends
        if any(one not in (None, other) for one, other in zip(ends, own, strict=True)):
            return None  # it is of another life of the run, in which a stage ended elsewhere
        corpora = [(row["language"], row["corpora"]) for row in found["rows"]]
        entries = [(code, name) for code, own in corpora for name in own]
        fields = [numbers.keys() >= set(FIELDS) for _, own in corpora for numbers in own.values()]
        return found if entries == self._counter.entries and all(fields) else None

    def count(
        self, former: Mapping[str, Any] | None, state: Mapping[str, Any], part: int, parts: int
    ) -> list[list[int]]:
        """What was seen between `former` (of `read`; None is the start) and the data state of all
        processes, as far as it is the `part`-th of so many parts. It may be negative: a run that
        goes on from an older checkpoint has not seen what came after.
        """
        timeline, counter = self._draws.timeline, self._counter
        found = counter.zero()
        own = np.arange(len(self._draws.sizes)) % parts == part
        then, now = _Position.of(former and former["position"]), _Position.of(state)
        low, high = sorted((then.whole, now.whole))
        since, until = timeline.before(low), timeline.before(high)
        between = counter.appearances(np.where(own, since, 0), np.where(own, until, 0))
        if any(stage.modifiers for stage in timeline.stages):
            for start in range(low, high, _AT_ONCE):
                draws = np.arange(start, min(start + _AT_ONCE, high))
                lanes = draws % state["lanes"]
                between += counter.changes(draws[lanes * parts // state["lanes"] == part])
        found += between if now.whole >= then.whole else -between
        for draws, sign in (now.more, 1), (now.open, -1), (then.more, -1), (then.open, 1):
            found += sign * counter.draws(draws[part::parts])
        return found.tolist()

    def write(
        self,
        directory: str | Path,
        former: Mapping[str, Any] | None,
        state: Mapping[str, Any],
        counted: Sequence[list[list[int]]],
        step: int,
    ) -> None:
        """Writes the file, whole or not at all, from what all parts counted. OSError names it."""
        total = sum((np.array(one) for one in counted), self._counter.zero())
        if former is not None:
            total += [
                [numbers[field] for field in FIELDS]
                for row in former["rows"]
                for numbers in row["corpora"].values()
            ]
        content = {
            "step": step,
            "examples": int(total[:, 0].sum()),
            "rows": self._rows(total),
            "position": {"settings": self._digest(), "lanes": state["lanes"]}
            | {key: state[key] for key in ("stages", "lane") if key in state},
        }
        atomic.write_json(Run(directory).ledger, content)

    def _rows(self, total: Counted) -> list[dict[str, Any]]:
        """A row per language, those first that `entries` has first."""
        expected = self._draws.timeline.expected(int(total[:, 0].sum()))
        counts = self._draws.split.counts
        rows = []
        lines = zip(self._counter.entries, total.tolist(), strict=True)
        by_language = itertools.groupby(lines, key=lambda line: line[0][0])
        for (code, own), foreseen in zip(by_language, expected.tolist(), strict=True):
            corpora = {name: dict(zip(FIELDS, line, strict=True)) for (_, name), line in own}
            sums = {field: sum(one[field] for one in corpora.values()) for field in FIELDS}
            rows.append(
                {"language": code, "pairs": counts[code]}
                | sums
                | {
                    "tokens": sums["source_tokens"] + sums["target_tokens"],
                    "share": sums["examples"] / max(int(total[:, 0].sum()), 1),
                    "epochs": sums["examples"] / counts[code],
                    "foreseen": foreseen,
                    "corpora": corpora,
                }
            )
        return rows

    def _digest(self) -> str:
        text = json.dumps(self._draws.settings(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class _Position:
    """Where a run is: it has seen all draws before `whole`, and of the lanes that are farther
    `more`, but not those in `open` rows.
    """

    def __init__(self, lanes: int, nexts: Mapping[int, int], rows: Iterable[Sequence[int]]):
        self.whole = min(nexts.values(), default=0) if len(nexts) == lanes else 0
        ahead = [
            np.arange(self.whole + (lane - self.whole) % lanes, after, lanes)
            for lane, after in nexts.items()
        ]
        self.more = np.concatenate([np.zeros(0, np.int64), *ahead])
        self.open = np.fromiter(itertools.chain.from_iterable(rows), np.int64)

    @classmethod
    def of(cls, state: Mapping[str, Any] | None) -> "_Position":
        if state is None:
            return cls(1, {}, ())
        lanes = state["lane"]
        nexts = {int(lane): one["next"] for lane, one in lanes.items()}
        rows = (row for one in lanes.values() for row in one["open"])
        return cls(state["lanes"], nexts, rows)


def chi_square(seen: Sequence[int], foreseen: Sequence[float]) -> tuple[float, int]:
    """Pearson's statistic of counts against those expected, and its degrees of freedom.

    >>> chi_square([12, 8], [10.0, 10.0])
    (0.8, 1)
    """
    pairs = [(one, other) for one, other in zip(seen, foreseen, strict=True) if other]
    return sum((one - other) ** 2 / other for one, other in pairs), max(len(pairs) - 1, 0)


def load(directory: str | Path) -> dict[str, Any]:
    """The ledger of a run directory. ValueError where it has none."""
    file = Run(directory).ledger
    found = _read(file)
    if found is None:
        raise ValueError(
            f"{directory} has no readable {file.name}: it is written with every checkpoint of a run"
        )
    return found


def table(content: Mapping[str, Any]) -> str:
    """The ledger for people: beside what was seen what the shares had foreseen for as many
    examples.
    """
    rows = sorted(content["rows"], key=lambda row: (-row["examples"], row["language"]))
    several = any(len(row["corpora"]) > 1 for row in rows)
    head = ["language", "pairs", "examples", "foreseen", "share", "epochs", "tokens"]
    lines = [head]
    for row in rows:
        lines.append(_line(row["language"], row | {"foreseen": f"{row['foreseen']:,.1f}"}))
        if several:
            lines += [
                [f"  {name}", "", f"{one['examples']:,}", "", "", "",
                 f"{one['source_tokens'] + one['target_tokens']:,}"]
                for name, one in row["corpora"].items()
            ]  # fmt: skip
    total = {key: sum(row[key] for row in rows) for key in ("pairs", "examples", "tokens")}
    epochs = total["examples"] / max(total["pairs"], 1)
    lines.append(_line("all", total | {"foreseen": "", "share": 1.0, "epochs": epochs}))
    seen, foreseen = ([row[key] for row in rows] for key in ("examples", "foreseen"))
    statistic, freedom = chi_square(seen, foreseen)
    return "\n".join(
        [
            *aligned(lines),
            f"seen up to step {content['step']:,}; against the foreseen shares: chi-square "
            f"{statistic:.2f} at {freedom} degrees of freedom",
        ]
    )


def _line(name: str, row: Mapping[str, Any]) -> list[str]:
    return [
        name, f"{row['pairs']:,}", f"{row['examples']:,}", row["foreseen"],
        f"{row['share']:.2%}", f"{row['epochs']:.2f}", f"{row['tokens']:,}",
    ]  # fmt: skip


def aligned(lines: Sequence[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """Lines of cells as columns; the first `left` of them are texts, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    align = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    for cells in lines:
        yield "  ".join(
            pad(cell, width) for pad, cell, width in zip(align, cells, widths, strict=True)
        ).rstrip()


def _read(path: Path) -> dict[str, Any] | None:
    """None where there is none, or a damaged one: what it said can be counted again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        table(found)
        _Position.of(found["position"])
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
    ):  # fmt: skip
        return None
    return found
