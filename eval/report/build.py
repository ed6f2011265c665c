"""`mmt report`: rows of results and of analysis in; one HTML page, Markdown, CSV and figures out.

It renders rows, and example sentences where `hypotheses/` lies beside a results file. Equal input
gives equal bytes. What is compared with what: comparison.py; what else is known: evidence.py.
"""

import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from eval.records import analysis, results
from eval.records.analysis_index import GUARDS, RISKY, Evidence, sure
from eval.records.results import Row
from eval.report import caveats as notes
from eval.report import examples as sentences
from eval.report import system_tables, tables
from eval.report.caveats import Note
from eval.report.comparison import SMALL, Comparison, Group, Score, by_resource, compare
from eval.report.examples import Shown
from eval.report.figures import (
    drawing,
    routing,
)
from eval.report.figures import (
    scores as figures_scores,
)
from eval.report.figures import (
    training as figures_training,
)

Drawings = dict[str, str]  # file name without suffix -> SVG


@dataclasses.dataclass(frozen=True)
class Section:
    """What the page shows of one comparison. slug: its part of file names and anchors."""

    comparison: Comparison
    evidence: Evidence
    slug: str
    notes: tuple[Note, ...]
    examples: tuple[Shown, ...]
    scores: Mapping[str, str]  # figures: file name without suffix -> SVG
    cost: Mapping[str, str]
    overlap: Mapping[str, str]

    @property
    def figures(self) -> Mapping[str, str]:
        """All of them."""
        return {**self.scores, **self.cost, **self.overlap}

    @property
    def means(self) -> list[tuple[str, tables.Table]]:
        """(title, table) by training data, of all languages and of those compared."""
        whole, compared = self.comparison.all, self.comparison.compared
        found = [("All languages", whole)] if whole.entries else []
        if compared.entries and len(compared.entries) < len(whole.entries):
            found.append(("Languages with a baseline", compared))
        return [
            (title, tables.by_group(self.comparison, _steps(group), "Training data"))
            for title, group in found
        ]

    @property
    def kinds(self) -> list[tuple[str, tables.Table]]:
        """(title, table) for scripts and families."""
        by, table = self.comparison.by, tables.by_group
        scripts, families = by(lambda one: one.script), by(lambda one: one.family)
        found = [
            ("Scripts", table(self.comparison, scripts, "Script")),
            ("Families", table(self.comparison, families, "Family")),
        ]
        return [(title, table) for title, table in found if table.rows]

    @property
    def answer(self) -> str:
        """What the figures say, in a sentence about the lead system."""
        return notes.answer(self.comparison, self.evidence)

    @property
    def headline(self) -> list[tuple[str, str, str]]:
        """A few (number, what it is, over what) of the lead system."""
        lead = self.comparison.lead
        return _headline(self.comparison, self.evidence, lead) if lead else []


@dataclasses.dataclass(frozen=True)
class Training:
    """What the page shows of the systems' training, whatever they were tested on."""

    notes: tuple[Note, ...]
    efficiency: tables.Table
    loss: Mapping[str, str]
    experts: tuple[tuple[str, tables.Table, Mapping[str, str]], ...]  # by system
    recipes: tuple[system_tables.Made, ...]
    remarks: tuple[analysis.Remark, ...]


def report(
    files: Sequence[str | Path],
    out: Path,
    *,
    allow: Iterable[str] = (),
    examples: bool = True,
) -> list[Path]:
    """Renders results files into the folder `out`; returns the files written, the page first.

    Beside each results file its analysis.jsonl is read, where there is one. `report.html` holds
    everything and refers to nothing outside; `report.md`; `report.csv` (a line per language),
    `means.csv` (per system and group, where there are means), `pairs.csv` (per language and two
    multilingual systems, where there are two); and figures as PNG and SVG: for every test set
    `delta_bleu_<test set>` (Figure 6 of GShard), `bleu_by_size_…`, and as far as there are rows
    `quality_by_cost_…`, `bleu_by_overlap_…`, `loss_by_tokens`, `experts_<system>`.

    allow: what is else refused or left out, of comparison.ALLOWED. examples: whether sentences are
    shown; without them no text of a test set is in the report, as if none had been kept. Raises
    ValueError for a broken row, rows that cannot be compared, or none, before anything is written;
    OSError where a file cannot be read or written.
    """
    check_folder(out)
    once = {Path(file).resolve(): Path(file) for file in files}
    rows, folders, evidence, counts = _read(list(once.values()))
    contents: dict[str, bytes] = {}
    sections: list[Section] = []
    for comparison in _compared(rows, list(once.values()), allow):
        _check_comet(comparison, evidence)
        slugs = [section.slug for section in sections]
        kept = folders if examples else {}
        sections.append(_section(comparison, evidence, kept=kept, taken=slugs, contents=contents))
    training = _training([section.comparison for section in sections], evidence, contents)
    context = {
        "sections": sections, "training": training, "files": counts, "tables": tables,
        "systems": system_tables, "guards": GUARDS, "risky": RISKY, "small": SMALL,
        "evidence": evidence,
    }  # fmt: skip
    pages = {
        "report.html": _template("report.html.j2").render(context).encode(),
        "report.md": _template("report.md.j2").render(context).encode(),
        "report.csv": _csv(r for s in sections for r in tables.records(s.comparison, evidence)),
    }
    for name, of in (("means", system_tables.means), ("pairs", system_tables.pairs)):
        if found := [row for s in sections for row in of(s.comparison, s.evidence)]:
            pages[f"{name}.csv"] = _csv(found)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (contents | pages).items():  # a page is never newer than its figures
        results.write_atomically(out / name, content)
    return [out / name for name in pages | contents]


def check(files: Sequence[Path], *, allow: Iterable[str] = ()) -> None:
    """ValueError where rows of these files are broken or cannot be compared, as `report` says."""
    _compared([row for file in files for row in results.read_rows(file)], files, allow)


def _compared(rows: Sequence[Row], files: Sequence[Path], allow: Iterable[str]) -> list[Comparison]:
    try:
        return compare(rows, allow=allow)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, files))}: {error}") from error


def check_folder(out: Path) -> None:
    """ValueError where `out` is a file."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; a report is written into a folder")


def _read(
    files: Sequence[Path],
) -> tuple[list[Row], dict[Row, Path], Evidence, list[tuple[str, int]]]:
    """Score rows, where the texts of each would lie, analysis rows, and (file, rows) of all."""
    rows: list[Row] = []
    folders: dict[Row, Path] = {}
    counts = []
    for file in files:
        found = results.read_rows(file)
        counts.append((file.name, len(found)))
        rows += found
        folders |= dict.fromkeys(found, file.parent / "hypotheses")
    if not rows:
        raise ValueError(f"{', '.join(map(str, files))}: no rows yet; `mmt evaluate` adds them")
    about: list[analysis.Row] = []
    for beside in dict.fromkeys(analysis.beside(file.resolve()) for file in files):
        if here := analysis.read(beside):
            counts.append((beside.name, len(here)))
            about += here
    return rows, folders, Evidence(about), counts


def _check_comet(comparison: Comparison, evidence: Evidence) -> None:
    found = [(row, comet) for row in comparison.used if (comet := evidence.comet(row))]
    models = {comet.model: row for row, comet in found}
    if len(models) > 1 and "signatures" not in comparison.allow:
        said = ", ".join(f"{row.system} on {row.source} by {name}" for name, row in models.items())
        raise ValueError(
            f"test set {comparison.testset!r}: COMET by different models ({said}); score all by "
            "one (--comet), or have signatures mixed (--allow signatures)"
        )


def _section(
    comparison: Comparison,
    evidence: Evidence,
    *,
    kept: Mapping[Row, Path],
    taken: Sequence[str],
    contents: dict[str, bytes],
) -> Section:
    slug = _slug(comparison.testset)
    slug = slug if slug not in taken else f"{slug}-{comparison.target.code}"
    slug = slug if slug not in taken else f"{slug}-{len(taken)}"

    def drawn(*draws: Any) -> Drawings:
        found = {f"{draw.__name__}_{slug}": draw(comparison, evidence) for draw in draws}
        return _draw(found, contents)

    shown, unkept = sentences.examples(comparison, kept, evidence)
    return Section(
        comparison,
        evidence,
        slug,
        notes.on(comparison, evidence) + unkept,
        shown,
        scores=drawn(figures_scores.delta_bleu, figures_scores.bleu_by_size),
        cost=drawn(figures_training.quality_by_cost),
        overlap=drawn(figures_scores.bleu_by_overlap),
    )


def _training(
    comparisons: Sequence[Comparison], evidence: Evidence, contents: dict[str, bytes]
) -> Training:
    systems = list(dict.fromkeys(s for one in comparisons for s in one.systems))
    used = [row for one in comparisons for row in one.used]
    baselines = list(dict.fromkeys(row.system for row in used if row.kind == "bilingual"))
    loss = _draw({"loss_by_tokens": figures_training.loss_by_tokens(systems, evidence)}, contents)
    experts: list[tuple[str, tables.Table, Mapping[str, str]]] = []
    varied = list(
        dict.fromkeys(s for one in comparisons for part in one.ablations for s in part.systems)
    )
    used += [row for one in comparisons for ablation in one.ablations for row in ablation.used]
    for system in (*systems, *varied):
        at = dict.fromkeys(row.checkpoint for row in used if row.system == system)
        if rows := evidence.routing(system, at):
            pictures = routing.experts(system, rows)
            stem = f"experts_{_slug(system)}"
            while any(name.startswith((f"{stem}.", f"{stem}_")) for name in contents):
                stem += f"-{len(experts)}"
            named = {f"{stem}_{n}" if n else stem: one for n, one in enumerate(pictures)}
            experts.append((system, system_tables.experts(rows), _draw(named, contents)))
    return Training(
        notes.on_systems(systems, baselines, evidence),
        system_tables.efficiency(systems, evidence),
        loss,
        tuple(experts),
        tuple(system_tables.recipes([*systems, *varied, *baselines], evidence)),
        tuple(evidence.remarks),
    )


def _draw(found: Mapping[str, Figure | None], contents: dict[str, bytes]) -> Drawings:
    """SVG of the figures that there are; they are added to the files' contents."""
    drawings = {}
    for name, figure in found.items():
        if figure is not None:
            drawings[name] = drawing.svg(figure)
            contents[f"{name}.png"] = drawing.png(figure)
            contents[f"{name}.svg"] = drawings[name].encode()
    return drawings


def _headline(
    comparison: Comparison, evidence: Evidence, system: str
) -> list[tuple[str, str, str]]:
    everything, compared = comparison.all, comparison.compared
    cells = []
    deltas = compared.deltas(system)
    if mean := tables.mean(compared, system, "delta"):
        said = tables.interval(mean, "delta", " (95 %: {})")
        over = f"{_count(len(deltas))} with a baseline"
        cells.append((tables.text(mean.value, "delta"), f"mean ΔBLEU{said}", over))
        better = sum(delta > 0 for delta in deltas)
        tests = [sure(evidence.paired(e.rows.get(system), e.baseline)) for e in compared.entries]
        known = [test for test in tests if test is not None]
        surely = f"by BLEU; {sum(known)} differ significantly" if known else "by BLEU"
        cells.append((f"{better} of {len(deltas)}", "better than bilingual", surely))
        low = by_resource(compared)[-1]
        if low.deltas(system):
            most = max(entry.train_pairs for entry in low.entries)
            over = f"{_count(len(low.deltas(system)))}, {most:,} pairs or fewer"
            cells.append((tables.text(low.delta(system), "delta"), "ΔBLEU, low-resource", over))
    count = _count(len(everything.values(system, "bleu")))
    scores: tuple[tuple[str, Score], ...] = (("BLEU", "bleu"), ("chrF++", "chrf"))
    for name, score in scores:
        if mean := tables.mean(everything, system, score):
            said = tables.interval(mean, "score", " (95 %: {})")
            cells.append((tables.text(mean.value, "score"), f"mean {name}{said}", count))
    return cells


def _steps(group: Group) -> list[Group]:
    """High, mid and low, as far as there are languages for them, and the whole."""
    return [*(part for part in by_resource(group) if part.entries), group]


def _count(number: int) -> str:
    return f"{number} language{'' if number == 1 else 's'}"


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def _csv(records: Iterable[tables.Record]) -> bytes:
    found = list(records)
    header = dict.fromkeys(name for record in found for name in record)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(header), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return buffer.getvalue().encode()


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "written": tables.text, "sorted_by": tables.number, "ends": tables.interval,
        "markdown": _markdown, "drawn": _drawn, "fenced": _fenced,
    }  # fmt: skip
    environment.tests |= {
        "estimate": lambda value: isinstance(value, tables.Estimate),
        "risks": lambda value: isinstance(value, tables.Risks),
        "grade": lambda value: isinstance(value, tables.Grade),
    }
    return environment.get_template(name)


def _drawn(svg: str, name: str) -> Markup:
    """A figure of ours as part of the page; matplotlib has escaped the names in it."""
    return Markup(drawing.inline(svg, re.sub(r"\W", "-", name)))


def _fenced(text: str) -> str:
    """Text as a block of code, whatever is in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}\n{text}\n{fence}"


def _markdown(text: Any) -> str:
    """Text that Markdown shows as it is, also in a table."""
    return re.sub(r"([\\`*_\[\]<>|#~$&])", r"\\\1", str(text))
