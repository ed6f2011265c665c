"""`mmt report`: rows of results in, one HTML page, Markdown, CSV and figures out.

It renders rows, and example sentences where `hypotheses/` lies beside a results file; it computes
no score. Equal input gives equal bytes. What is compared with what: comparison.py.
"""

import csv
import dataclasses
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from eval import figures, results, tables
from eval.comparison import Comparison, Entry, Group, Note, compare, thirds
from eval.results import Row

EXAMPLES = 3  # sentences shown per language


class Example(NamedTuple):
    """A sentence of a test set and what each system made of it. source: None where not kept."""

    source: str | None
    reference: str
    outputs: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Section:
    """What the page shows of one comparison. slug: its part of file names and anchors."""

    comparison: Comparison
    slug: str
    notes: tuple[Note, ...]
    examples: tuple[tuple[Entry, tuple[Example, ...]], ...]
    figures: Mapping[str, str]  # file name without suffix -> SVG

    @property
    def means(self) -> list[tuple[str, tables.Table]]:
        """(title, table) for thirds by training data, of all languages and of those compared."""
        whole, compared = self.comparison.all, self.comparison.compared
        found = [
            ("All languages", tables.by_group(self.comparison, _steps(whole), "Training data"))
        ]
        if compared.entries:
            found.append(
                ("Languages with a baseline", tables.by_size(self.comparison, _steps(compared)))
            )
        return found

    @property
    def kinds(self) -> list[tuple[str, tables.Table]]:
        """(title, table) for scripts and families."""
        by, table = self.comparison.by, tables.by_group
        scripts, families = by(lambda one: one.script), by(lambda one: one.family)
        return [
            ("Scripts", table(self.comparison, scripts, "Script")),
            ("Families", table(self.comparison, families, "Family")),
        ]

    @property
    def headlines(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """For every multilingual system a few (number, what it is, over what)."""
        return [(system, _headline(self.comparison, system)) for system in self.comparison.systems]


def report(files: Sequence[str | Path], out: Path) -> list[Path]:
    """Renders results files into the folder `out`; returns the files written, the page first.

    `report.html` holds everything and refers to nothing outside; `report.md`, `report.csv`; and for
    every test set `delta_bleu_<test set>` (Figure 6 of GShard) and `bleu_by_size_<test set>` as
    PNG and SVG. Raises ValueError for a broken row, rows that cannot be compared, or none, before
    anything is written; OSError where a file cannot be read or written.
    """
    rows: list[Row] = []
    folders: dict[Row, Path] = {}
    counts = []
    for file in map(Path, files):
        found = results.read_rows(file)
        counts.append((file.name, len(found)))
        rows += found
        folders |= dict.fromkeys(found, file.parent / "hypotheses")
    if not rows:
        raise ValueError(f"{', '.join(map(str, files))}: no rows yet; `mmt evaluate` adds them")
    contents: dict[str, bytes] = {}
    sections: list[Section] = []
    for comparison in compare(rows):
        section, pictures = _section(comparison, folders, [section.slug for section in sections])
        sections.append(section)
        contents |= pictures
    context = {"sections": sections, "tables": tables, "files": counts}
    pages = {
        "report.html": _template("report.html.j2").render(context).encode(),
        "report.md": _template("report.md.j2").render(context).encode(),
        "report.csv": _csv([section.comparison for section in sections]).encode(),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (pages | contents).items():
        results.write_atomically(out / name, content)
    return [out / name for name in pages | contents]


def _section(
    comparison: Comparison, folders: Mapping[Row, Path], taken: Sequence[str]
) -> tuple[Section, dict[str, bytes]]:
    slug = re.sub(r"[^\w.-]+", "-", comparison.testset)
    slug = slug if slug not in taken else f"{slug}-{comparison.target.code}"
    slug = slug if slug not in taken else f"{slug}-{len(taken)}"
    drawings: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    for draw in (figures.delta_bleu, figures.bleu_by_size):
        figure, name = draw(comparison), f"{draw.__name__}_{slug}"
        drawings[name] = figures.svg(figure)
        contents |= {f"{name}.png": figures.png(figure), f"{name}.svg": drawings[name].encode()}
    examples, notes = _examples(comparison, folders)
    return Section(comparison, slug, comparison.notes + notes, examples, drawings), contents


def _headline(comparison: Comparison, system: str) -> list[tuple[str, str, str]]:
    everything, compared = comparison.all, comparison.compared
    count = sum(system in entry.rows for entry in everything.entries)
    cells = [
        (tables.text(everything.bleu(system), "score"), "mean BLEU", _count(count)),
        (tables.text(everything.chrf(system), "score"), "mean chrF++", _count(count)),
    ]
    deltas = compared.deltas(system)
    if deltas:
        low = thirds(compared)[-1]
        cells.append(
            (
                tables.text(compared.delta(system), "delta"),
                "mean ΔBLEU",
                f"{len(deltas)} with a baseline",
            )
        )
        if low.deltas(system):
            most = max(entry.train_pairs for entry in low.entries)
            cells.append(
                (
                    tables.text(low.delta(system), "delta"),
                    "ΔBLEU, low-resource third",
                    f"{_count(len(low.deltas(system)))}, {most:,} pairs or fewer",
                )
            )
        better = sum(delta > 0 for delta in deltas)
        cells.append((f"{better} of {len(deltas)}", "better than bilingual", "by BLEU"))
    return cells


def _steps(group: Group) -> list[Group]:
    """Its thirds, as far as there are languages for them, and the whole."""
    return [*(third for third in thirds(group) if third.entries), group]


def _count(number: int) -> str:
    return f"{number} language{'' if number == 1 else 's'}"


def _examples(
    comparison: Comparison, folders: Mapping[Row, Path]
) -> tuple[tuple[tuple[Entry, tuple[Example, ...]], ...], tuple[Note, ...]]:
    """Per language a few sentences, and notes on what is not there or does not fit."""
    shown, missing, unfit = [], [], []
    found = False
    for entry in comparison.entries:
        rows = [*entry.rows.values(), *([entry.baseline] if entry.baseline else [])]
        texts = {}
        for row in rows:
            stem = folders[row] / row.system / row.testset / row.source
            texts[row] = {
                kind: _lines(stem.with_name(f"{stem.name}.{kind}"))
                for kind in ("src", "ref", "hyp")
            }
        present = [row for row in rows if texts[row]["hyp"] and texts[row]["ref"]]
        fitting = [
            row
            for row in present
            if len(texts[row]["hyp"]) == len(texts[row]["ref"]) == row.sentences
            and texts[row]["ref"] == texts[present[0]]["ref"]
        ]
        found = found or bool(present)
        missing += [entry] * (len(present) < len(rows))
        unfit += [entry] * (len(fitting) < len(present))
        if fitting:
            shown.append((entry, _spread([(row.system, texts[row]) for row in fitting])))
    if not found:
        alone = "No translations are kept beside the results, so there are no examples"
        return (), (Note(alone),)
    notes = []
    for entries, what in ((missing, "are missing"), (unfit, "do not fit and are left out")):
        if entries:
            names = tuple(entry.language.name for entry in entries)
            notes.append(Note(f"Kept translations {what} for {len(entries)}", names))
    return tuple(shown), tuple(notes)


def _spread(texts: Sequence[tuple[str, Mapping[str, list[str]]]]) -> tuple[Example, ...]:
    first = texts[0][1]
    total = len(first["ref"])
    whole = len(first["src"]) == total
    chosen = sorted({total * (2 * index + 1) // (2 * EXAMPLES) for index in range(EXAMPLES)})
    return tuple(
        Example(
            first["src"][index] if whole else None,
            first["ref"][index],
            tuple((system, kinds["hyp"][index]) for system, kinds in texts),
        )
        for index in chosen
    )


def _lines(path: Path) -> list[str]:
    """The lines of a kept text; none where there is no such file."""
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")


def _csv(comparisons: Sequence[Comparison]) -> str:
    found = [record for comparison in comparisons for record in tables.records(comparison)]
    header = dict.fromkeys(name for record in found for name in record)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(header), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return buffer.getvalue()


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"written": tables.text, "markdown": _markdown, "drawn": _drawn}
    return environment.get_template(name)


def _drawn(svg: str, name: str) -> Markup:
    """A figure of ours as part of the page; matplotlib has escaped the names in it."""
    return Markup(figures.inline(svg, re.sub(r"\W", "-", name)))


def _markdown(text: Any) -> str:
    """Text that Markdown shows as it is, also in a table."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", str(text))
