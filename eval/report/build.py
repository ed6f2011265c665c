"""`mmt report`: renders rows of results and analysis as one HTML page, Markdown, CSV and figures.

Example sentences are shown if there is a folder `hypotheses/` in the folder of the results file.
Equal input gives equal bytes. comparison.py pairs systems and baselines;
eval/records/analysis_index.py finds analysis rows.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from eval.records import analysis, results
from eval.records.analysis_index import OUTPUT_CHECKS, RISKY, AnalysisIndex
from eval.records.results import Row
from eval.report import (
    captions,
    cells,
    corpora,
    csv_tables,
    recipes,
    render,
    system_tables,
    tables,
)
from eval.report import caveats as notes
from eval.report import examples as sentences
from eval.report.caveats import Note
from eval.report.comparison import SMALL, Comparison, Group, by_resource, compare
from eval.report.examples import Shown
from eval.report.figures import (
    behaviour,
    drawing,
    reliability,
    routing,
    scores,
)
from eval.report.figures import (
    overlap as figures_overlap,
)
from eval.report.figures import (
    training as figures_training,
)

CSV_FILES = {
    "report.csv": csv_tables.records, "means.csv": csv_tables.means, "pairs.csv": csv_tables.pairs,
}  # fmt: skip


class Picture(NamedTuple):
    """A figure with its heading, as SVG by file name without suffix, for two page widths."""

    title: str
    caption: str
    wide: Mapping[str, str]
    narrow: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Section:
    """The page's section for one comparison. slug: its part of file names and anchors."""

    comparison: Comparison
    analyses: AnalysisIndex
    slug: str
    notes: tuple[Note, ...]
    examples: tuple[Shown, ...]
    delta: tuple[Picture, ...]  # one picture, or none if it would be empty
    size: tuple[Picture, ...]
    cost: tuple[Picture, ...]
    overlap: tuple[Picture, ...]

    @property
    def figures(self) -> list[str]:
        """Returns the file names of all figures, without suffix."""
        pictures = (*self.delta, *self.size, *self.cost, *self.overlap)
        return [name for picture in pictures for name in picture.wide]

    @property
    def means(self) -> list[tuple[str, cells.Table]]:
        """Returns (title, table) by training data, of all languages and of those with a baseline.
        """
        all_languages, compared = self.comparison.all, self.comparison.compared
        groups = [("All languages", all_languages)] if all_languages.entries else []
        if compared.entries and len(compared.entries) < len(all_languages.entries):
            groups.insert(0, ("Languages with a baseline", compared))
        return [
            (title, tables.by_group(self.comparison, _steps(group), "Training data"))
            for title, group in groups
        ]

    @property
    def kinds(self) -> list[tuple[str, cells.Table]]:
        """Returns (title, table) for scripts and families."""
        by, table = self.comparison.by, tables.by_group
        scripts, families = by(lambda lang: lang.script), by(lambda lang: lang.family)
        by_kind = [
            ("Scripts", table(self.comparison, scripts, "Script")),
            ("Families", table(self.comparison, families, "Family")),
        ]
        return [(title, table) for title, table in by_kind if table.rows]

    @property
    def answer(self) -> str:
        """Returns the result of the primary system in one or two sentences."""
        return notes.answer(self.comparison, self.analyses)

    @property
    def headline(self) -> list[tuple[str, str, str]]:
        """Returns a few (number, its name, its languages) of the primary system."""
        primary = self.comparison.primary_system
        return captions.headline(self.comparison, self.analyses, primary) if primary else []


@dataclasses.dataclass(frozen=True)
class Training:
    """The page's section on the training of the systems, for all test sets."""

    notes: tuple[Note, ...]
    efficiency: cells.Table
    loss: tuple[Picture, ...]
    experts: tuple[tuple[str, cells.Table, tuple[Picture, ...]], ...]  # by system
    recipes: tuple[recipes.Made, ...]
    remarks: tuple[analysis.Remark, ...]


def report(
    files: Sequence[str | Path],
    out: Path,
    *,
    allow: Iterable[str] = (),
    examples: bool = True,
) -> list[Path]:
    """Renders results files into the folder `out`; returns the files written, the page first.

    Each results file is read with the analysis.jsonl in its folder, if any. The files written are:
    * `report.html`, self-contained, and `report.md`;
    * `report.csv` (a line per language), `means.csv` (per system and group) and `pairs.csv` (per
      language and two multilingual systems), the last two if they have content;
    * figures as PNG and SVG: per test set `delta_bleu_<test set>` (Figure 6 of GShard) and
      `bleu_by_size_…`; with the necessary analysis rows also `quality_by_cost_…`,
      `bleu_by_overlap_…`, `loss_by_tokens`, `experts_<system>` and `behaviours_<system>`.

    Args:
        allow: of comparison.ALLOWED, accepts rows that are otherwise rejected or excluded.
        examples: whether to show sentences; without them, the report has no test-set text.

    Raises:
        ValueError: a row is broken, rows are incomparable, or there are none; nothing is written.
        OSError: a file cannot be read or written.
    """
    check_folder(out)
    unique_files = {Path(file).resolve(): Path(file) for file in files}
    rows, file_of, analyses, counts = _read(list(unique_files.values()))
    contents: dict[str, bytes] = {}
    sections: list[Section] = []
    for comparison in _compared(rows, list(unique_files.values()), allow):
        _check_comet(comparison, analyses)
        slugs = [section.slug for section in sections]
        text_files = file_of if examples else {}
        sections.append(
            _section(
                comparison, analyses, text_files=text_files, used_slugs=slugs, contents=contents
            )
        )
    behaviours = _behaviours(analyses, contents)
    training = _training([section.comparison for section in sections], analyses, contents)
    context = {
        "sections": sections, "behaviours": behaviours, "training": training, "files": counts,
        "tables": tables, "systems": system_tables, "guards": OUTPUT_CHECKS, "risky": RISKY,
        "small": SMALL, "analyses": analyses, "captions": captions, "recipes": recipes,
        "corpora": corpora.parts(analyses, rows),
        "contrastive": system_tables.contrastive(analyses),
    }  # fmt: skip
    pages = {
        "report.html": render.template("report.html.j2").render(context).encode(),
        "report.md": render.template("report.md.j2").render(context).encode(),
    }
    for name, of in CSV_FILES.items():
        records = [record for s in sections for record in of(s.comparison, analyses)]
        if records or name == "report.csv":
            pages[name] = render.csv_file(records)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (contents | pages).items():  # figures first
        results.write_atomically(out / name, content)
    return [out / name for name in pages | contents]


def check(files: Sequence[Path], *, allow: Iterable[str] = ()) -> None:
    """Raises ValueError if rows of these files are broken or incomparable; see `report`."""
    _compared([row for file in files for row in results.read_rows(file)], files, allow)


def _compared(rows: Sequence[Row], files: Sequence[Path], allow: Iterable[str]) -> list[Comparison]:
    try:
        return compare(rows, allow=allow)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, files))}: {error}") from error


def check_folder(out: Path) -> None:
    """Raises ValueError if `out` is a file."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; a report is written into a folder")


def _read(
    files: Sequence[Path],
) -> tuple[list[Row], dict[Row, Path], AnalysisIndex, list[tuple[str, int]]]:
    """Returns score rows, the file of each, analysis rows, and (file, rows) of all."""
    rows: list[Row] = []
    file_of: dict[Row, Path] = {}
    counts = []
    for file in files:
        of_file = results.read_rows(file)
        counts.append((file.name, len(of_file)))
        rows += of_file
        file_of |= dict.fromkeys(of_file, file)
    if not rows:
        raise ValueError(f"{', '.join(map(str, files))}: no rows yet; `mmt evaluate` adds them")
    about: list[analysis.Row] = []
    for analysis_file in dict.fromkeys(analysis.path_for(file.resolve()) for file in files):
        if analysis_rows := analysis.read(analysis_file):
            counts.append((analysis_file.name, len(analysis_rows)))
            about += analysis_rows
    return rows, file_of, AnalysisIndex(about), counts


def _check_comet(comparison: Comparison, analyses: AnalysisIndex) -> None:
    scored = [(row, comet) for row in comparison.used if (comet := analyses.comet(row))]
    models = {comet.model: row for row, comet in scored}
    if len(models) > 1 and "signatures" not in comparison.allow:
        uses = ", ".join(f"{row.system} on {row.source} by {name}" for name, row in models.items())
        raise ValueError(
            f"test set {comparison.testset!r}: COMET by different models ({uses}); score all rows "
            "with one model (--comet), or allow mixed signatures (--allow signatures)"
        )


def _section(
    comparison: Comparison,
    analyses: AnalysisIndex,
    *,
    text_files: Mapping[Row, Path],
    used_slugs: Sequence[str],
    contents: dict[str, bytes],
) -> Section:
    slug = _slug(comparison.testset)
    slug = slug if slug not in used_slugs else f"{slug}-{comparison.target.code}"
    slug = slug if slug not in used_slugs else f"{slug}-{len(used_slugs)}"

    def drawn(draw: Any) -> tuple[Picture, ...]:
        title, caption = captions.of(draw.__name__, comparison, analyses)
        by_width = functools.partial(draw, comparison, analyses)
        return _pictures(f"{draw.__name__}_{slug}", by_width, title, caption, contents)

    shown_examples, example_notes = sentences.examples(comparison, text_files, analyses)
    return Section(
        comparison,
        analyses,
        slug,
        notes.on(comparison, analyses) + example_notes,
        shown_examples,
        delta=drawn(scores.delta_bleu),
        size=drawn(scores.bleu_by_size),
        cost=drawn(figures_training.quality_by_cost),
        overlap=drawn(figures_overlap.bleu_by_overlap),
    )


def _behaviours(
    analyses: AnalysisIndex, contents: dict[str, bytes]
) -> list[tuple[str, cells.Table, tuple[Picture, ...]]]:
    """Returns table and heat map of each system that `mmt behave` has tested."""
    tested: list[tuple[str, cells.Table, tuple[Picture, ...]]] = []
    for system in analyses.systems("behaviour"):
        rows = analyses.behaviour(system)
        draw = functools.partial(behaviour.behaviours, system, rows)
        stem = f"behaviours_{_slug(system)}"
        stem += f"-{len(tested)}" if f"{stem}.png" in contents else ""
        pictures = _pictures(stem, draw, f"Behaviours by language: {system}", "", contents)
        tested.append((system, system_tables.behaviours(rows), pictures))
    return tested


def _training(
    comparisons: Sequence[Comparison], analyses: AnalysisIndex, contents: dict[str, bytes]
) -> Training:
    systems = list(dict.fromkeys(s for c in comparisons for s in c.systems))
    used = [row for c in comparisons for row in c.used]
    baselines = list(dict.fromkeys(row.system for row in used if row.kind == "bilingual"))
    ablations = [ablation for c in comparisons for ablation in c.ablations]
    varied = list(dict.fromkeys(s for ablation in ablations for s in ablation.systems))
    used += [row for ablation in ablations for row in ablation.used]
    by_width = functools.partial(figures_training.loss_by_tokens, systems, analyses)
    loss = _pictures("loss_by_tokens", by_width, *captions.LOSS, contents)
    drawn = [*systems, *varied]
    by_width = functools.partial(figures_training.source_use_by_tokens, drawn, analyses)
    loss += _pictures("source_use_by_tokens", by_width, *captions.SOURCE_USE, contents)
    by_width = functools.partial(reliability.reliability, drawn, analyses)
    loss += _pictures("reliability", by_width, *captions.RELIABILITY, contents)
    experts: list[tuple[str, cells.Table, tuple[Picture, ...]]] = []
    for system in (*systems, *varied):
        checkpoints = dict.fromkeys(row.checkpoint for row in used if row.system == system)
        if rows := analyses.routing(system, checkpoints):
            stem = f"experts_{_slug(system)}"
            while any(name.startswith((f"{stem}.", f"{stem}_")) for name in contents):
                stem += f"-{len(experts)}"
            maps = functools.partial(routing.experts, system, rows)
            pictures = _pictures(stem, maps, f"Experts by language: {system}", "", contents)
            experts.append((system, system_tables.experts(rows), pictures))
    return Training(
        notes.on_systems(systems, baselines, analyses),
        system_tables.efficiency(systems, analyses),
        loss,
        tuple(experts),
        tuple(recipes.recipes([*systems, *varied, *baselines], analyses)),
        tuple(analyses.remarks),
    )


def _pictures(
    stem: str,
    draw: Callable[[float], Figure | Sequence[Figure] | None],
    title: str,
    caption: str,
    contents: dict[str, bytes],
) -> tuple[Picture, ...]:
    """Returns the picture that `draw` makes, or (); adds its PNG and SVG files to `contents`."""


    def figures(width: float) -> Sequence[Figure]:
        drawn = draw(width)
        return [drawn] if isinstance(drawn, Figure) else drawn or []

    wide, narrow = figures(drawing.WIDE), figures(drawing.NARROW)
    if not wide:
        return ()
    named = {f"{stem}_{n}" if n else stem: figure for n, figure in enumerate(wide)}
    svgs = {name: drawing.svg(figure) for name, figure in named.items()}
    contents |= {f"{name}.png": drawing.png(figure) for name, figure in named.items()}
    contents |= {f"{name}.svg": svg.encode() for name, svg in svgs.items()}
    phone = {f"{stem}-narrow-{n}": drawing.svg(figure) for n, figure in enumerate(narrow)}
    return (Picture(title, caption, svgs, phone),)


def _steps(group: Group) -> list[Group]:
    """Returns the non-empty groups of high, mid and low, and the whole group."""
    return [*(part for part in by_resource(group) if part.entries), group]


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)
