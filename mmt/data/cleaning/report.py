"""The report of cleaning: counts by language, entry and reason, and examples, as text and HTML.

`cascade.Tally` counts.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2

from mmt import languages
from mmt.data.cache.origins import OVERLAP, overlapped
from mmt.data.cleaning.cascade import Tally
from mmt.data.cleaning.corpus_rules import LengthRatios

REPORT = "report.json"


@dataclass(frozen=True)
class Report:
    """The outcome of cleaning a corpus's training pairs.

    Attributes:
      name: the corpus's name.
      rules: the rules, as TOML.
      learnt: FLORES code -> length ratios.
      tallies: (FLORES code, entry name) -> counts.
      key: a hash of text, rules and test sets.
      unlearnt: languages with too few pairs for the rule `ratio`, which was not applied.
      files: (FLORES code, entry name) -> file -> hash, before cleaning; empty in older reports.
      tests: (FLORES code, entry name) -> the test sets that its pairs were compared with.
    """

    name: str
    rules: str
    learnt: Mapping[str, LengthRatios]
    tallies: Mapping[tuple[str, str], Tally]
    key: str
    unlearnt: tuple[str, ...] = ()
    files: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    tests: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Returns the number of pairs read."""
        return sum(tally.read for tally in self.tallies.values())

    @property
    def kept(self) -> int:
        """Returns the number of pairs kept."""
        return sum(tally.kept for tally in self.tallies.values())

    @cached_property
    def dropped(self) -> dict[str, int]:
        """Returns reason -> number of pairs, the most frequent first."""
        return _total(tally.dropped for tally in self.tallies.values())

    @cached_property
    def changed(self) -> dict[str, int]:
        """Returns rule -> number of pairs that it changed, kept or not; the most frequent first."""
        return _total(tally.changed for tally in self.tallies.values())

    @cached_property
    def overlap(self) -> dict[str, dict[str, int]]:
        """Returns test set -> FLORES code -> overlapping pairs; a pair may overlap several."""
        overlaps: dict[str, dict[str, int]] = {}
        for (code, _), tally in self.tallies.items():
            for reason, count in tally.dropped.items():
                if reason.startswith(OVERLAP):
                    for test in overlapped(reason):
                        counts = overlaps.setdefault(test, {})
                        counts[code] = counts.get(code, 0) + count
        return overlaps

    def reasons(self) -> str:
        """Returns the reasons with their counts: 'duplicates 120, length: long 7'."""
        return ", ".join(f"{reason} {count:,}" for reason, count in self.dropped.items())

    def table(self) -> str:
        """Returns the counts as text: a row per language and entry, a column per reason."""
        columns = [*(f"~{rule}" for rule in self.changed), *self.dropped]
        rows = [["language", "corpus", "read", "kept", "%", *columns]]
        for (code, entry), tally in self.tallies.items():
            rows.append([code, entry, *_cells(tally.read, tally.kept), *self._counts(tally)])
        totals = [*self.changed.values(), *self.dropped.values()]
        rows.append(["all", "", *_cells(self.read, self.kept), *(f"{count:,}" for count in totals)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        align = [str.ljust, str.ljust, *[str.rjust] * (len(widths) - 2)]
        lines = [
            "  ".join(pad(cell, width) for pad, cell, width in zip(align, row, widths, strict=True))
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in [*lines, *self.notes()])

    def notes(self) -> list[str]:
        """Returns the lines below the table: overlap with test sets, languages without ratios."""
        notes = ["", "~rule: pairs that the rule changed; the others were dropped."]
        for test, by_language in self.overlap.items():
            notes.append(
                f"overlap with {test}: {sum(by_language.values()):,} pairs of "
                f"{len(by_language)} languages"
            )
        if self.unlearnt:
            notes.append(f"ratio: too few pairs to learn from: {', '.join(self.unlearnt)}")
        return notes

    def text(self) -> str:
        """Returns the table, the rules and the examples as text."""
        lines = [f"# {self.name}", self.table(), "", self.rules]
        for (code, entry), tally in self.tallies.items():
            for reason, examples in sorted(tally.examples.items()):
                lines.append(f"{code} {entry}: {reason}")
                for line, source, target, detail in examples:
                    lines += [f"  line {line}: {detail}", f"    {source}", f"    {target}"]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """Returns the same content as a self-contained HTML page."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        return environment.get_template("clean_report.html.j2").render(
            report=self, columns=list(self.dropped), find=languages.find, exp=math.exp
        )

    def write(self, folder: Path) -> None:
        """Writes `report.json`, `report.txt` and `report.html`."""
        (folder / "report.txt").write_text(self.text(), encoding="utf-8")
        (folder / "report.html").write_text(self.html(), encoding="utf-8")
        content = {
            "key": self.key, "name": self.name, "rules": self.rules, "learnt": self.learnt,
            "unlearnt": self.unlearnt,
            "entries": [
                {
                    "language": key[0], "corpus": key[1], **tally.to_json(),
                    "files": self.files.get(key, {}), "tests": list(self.tests.get(key, ())),
                }
                for key, tally in self.tallies.items()
            ],
        }  # fmt: skip
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / REPORT).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read_from(cls, file: Path) -> "Report":
        """Reads a `report.json` of `write`. Raises ValueError for any other file."""
        try:
            return cls._from_json(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} is damaged ({error}): clean the corpus again") from error

    @classmethod
    def _from_json(cls, content: Any) -> "Report":
        tallies = {
            (entry["language"], entry["corpus"]): Tally.from_json(entry)
            for entry in content["entries"]
        }
        learnt = {code: LengthRatios(*values) for code, values in content["learnt"].items()}
        names = "name", "rules", "key"
        texts = {name: content[name] for name in names}
        files, tests = (
            {(entry["language"], entry["corpus"]): entry[name]
             for entry in content["entries"] if name in entry}
            for name in ("files", "tests")
        )  # fmt: skip
        return cls(
            **texts, learnt=learnt, tallies=tallies, unlearnt=tuple(content["unlearnt"]),
            files=files, tests=tests,
        )  # fmt: skip

    def _counts(self, tally: Tally) -> list[str]:
        counts = [tally.changed.get(rule, 0) for rule in self.changed]
        counts += [tally.dropped.get(reason, 0) for reason in self.dropped]
        return [f"{count:,}" if count else "" for count in counts]


def _cells(read: int, kept: int) -> list[str]:
    return [f"{read:,}", f"{kept:,}", f"{100 * kept / read:.1f}" if read else ""]


def _total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for counted in counts:
        for name, count in counted.items():
            totals[name] = totals.get(name, 0) + count
    return dict(sorted(totals.items(), key=lambda named_count: (-named_count[1], named_count[0])))
