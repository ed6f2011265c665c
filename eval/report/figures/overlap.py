"""The figure of BLEU by overlap with the training English: translation or recitation?"""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.records.analysis import Bin
from eval.records.analysis_index import AnalysisIndex
from eval.report.comparison import SMALL, Comparison
from eval.report.figures.drawing import (
    PALETTE,
    WIDE,
    canvas,
    colour,
    dashes,
    label,
    legend,
    styled,
    tooltip,
)
from eval.report.figures.scores import titled


def bleu_by_overlap(
    comparison: Comparison, analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws BLEU of test lines by the share of their reference's 4-grams in the training English.

    A decoder that recites has high scores only at the right. BLEU of a bin is the mean over
    languages, weighted by their sentences in it; marks of small bins are hollow. None without
    `overlap` rows of two bins.
    """
    systems = [*comparison.systems, ""]
    lines = {system: _overlap(comparison, analyses, system) for system in systems}
    lines = {system: bins for system, bins in lines.items() if bins}
    scored = {(b.low, b.high) for bins in lines.values() for b in bins if b.bleu is not None}
    if len(scored) < 2:
        return None
    with styled():
        title = titled("BLEU by overlap with the training English", comparison)
        figure = canvas(title, width=width, height=4.4)
        axes = figure.add_subplot()
        axes.set_ylabel("BLEU")
        axes.set_xlabel("4-grams of the reference in the training English, %")
        counts = axes.twinx()
        counted = _counted(comparison, analyses)
        counts.bar(
            range(len(counted)), list(counted.values()), 0.9, color=PALETTE["grid"], zorder=0
        )
        counts.set_ylabel("test lines, all languages (bars)")
        counts.grid(False)
        axes.set_zorder(counts.get_zorder() + 1)
        places = {ends: place for place, ends in enumerate(counted)}
        for system, of_system in lines.items():
            scores = {places[b.low, b.high]: b for b in of_system}
            _overlap_line(axes, comparison, system, scores)
        labels = [f"{low:.0%}–{high:.0%}".replace("%–", "–").rstrip("%") for low, high in counted]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylim(bottom=0)
        legend(axes, above=6)
        return figure


def _overlap_line(
    axes: Axes, comparison: Comparison, system: str, bins: Mapping[int, Bin]
) -> None:
    """Draws a system's BLEU; bins: by their place on the axis."""
    points = [(i, b.bleu, b.sentences) for i, b in bins.items() if b.bleu is not None]
    shade = colour(comparison.palette, system) if system else PALETTE["ink"]
    axes.plot(
        [i for i, _, _ in points], [bleu for _, bleu, _ in points], "o", ms=5, linewidth=2,
        linestyle=dashes(comparison.palette, system) if system else "--",
        color=shade, label=label(system) or "bilingual baselines",
    )  # fmt: skip
    for i, bleu, sentences in points:
        if sentences < SMALL:
            axes.plot(i, bleu, "o", ms=5, mfc=PALETTE["page"], mec=shade)
    for i, bleu, sentences in points:
        message = f"{system or 'bilingual'}: {bleu:.1f} BLEU on {sentences:,} lines"
        axes.plot(i, bleu, "o", ms=9, alpha=0.01, gid=tooltip(message))


def _counted(
    comparison: Comparison, analyses: AnalysisIndex
) -> dict[tuple[float, float], int]:
    """Returns the test lines of each bin: each language once, whichever systems have it."""
    counted: Counter[tuple[float, float]] = Counter()
    for entry in comparison.all.entries:
        overlaps = [analyses.train_overlap(row) for row in (*entry.rows.values(), entry.baseline)]
        bins = [each for overlap in overlaps if overlap for each in overlap.bins]
        counted.update({(each.low, each.high): each.sentences for each in bins})
    return dict(sorted(counted.items()))


def _overlap(comparison: Comparison, analyses: AnalysisIndex, system: str) -> list[Bin]:
    """Returns a system's bins over all languages that means include; "" for the baselines."""
    rows = [e.rows.get(system) if system else e.baseline for e in comparison.all.entries]
    of_rows = [overlap.bins for row in rows if (overlap := analyses.train_overlap(row))]
    by_ends: dict[tuple[float, float], list[Bin]] = {}
    for part in (part for bins in of_rows for part in bins):
        by_ends.setdefault((part.low, part.high), []).append(part)
    return [
        Bin(low=low, high=high, sentences=sum(b.sentences for b in bins), bleu=_weighted(bins))
        for (low, high), bins in sorted(by_ends.items())
    ]


def _weighted(bins: Iterable[Bin]) -> float | None:
    pairs = [
        (part.bleu, part.sentences) for part in bins if part.bleu is not None and part.sentences
    ]
    return fmean(*zip(*pairs, strict=True)) if pairs else None
