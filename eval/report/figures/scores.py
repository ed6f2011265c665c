"""Figures of scores: GShard's ΔBLEU by language, BLEU by training size.

Each has a wide form for a page and a narrow one for a phone, or is None if it would be empty.
"""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eval.analyses.mean_interval import mean_interval
from eval.records.analysis_index import AnalysisIndex
from eval.report.cells import interval, mean, text
from eval.report.comparison import Comparison, Entry, sliding
from eval.report.figures.drawing import (
    PALETTE,
    WIDE,
    canvas,
    colour,
    dashes,
    dots,
    fitting,
    label,
    legend,
    shortened,
    styled,
    tooltip,
)

WINDOW = 10  # languages in a sliding mean, as in Figure 6 of GShard (Lepikhin et al., 2020)
_NAMED, _CODED = 44, 140  # languages whose names and codes, respectively, fit below a wide axis
_LABELLED = 30  # bars with room for their numbers in a wide figure
FEW, SEVERAL = 3, 6  # most systems with intervals of languages, of means


def titled(subject: str, comparison: Comparison) -> str:
    """Returns a figure's title with its test set."""
    return f"{subject}: {comparison.testset}, into {comparison.target.name}"


def slides(languages: int) -> bool:
    """Returns whether there are enough languages for a sliding mean."""
    return languages >= 2 * WINDOW


def delta_bleu(
    comparison: Comparison, analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws ΔBLEU of each language against its baseline, in descending order of training data.

    Lines are sliding means over WINDOW languages; with few languages, the mean. 95 % intervals are
    by paired bootstrap for a language, and over languages for a mean. Languages with few sentences
    are pale and excluded from means. With more than three systems, only the best one has dots. None
    for fewer than two languages with both scores.
    """
    entries = [entry for entry in comparison.entries if entry.baseline and entry.rows]
    if len(entries) < 2:
        return None
    with styled():
        figure = canvas(titled("ΔBLEU against bilingual baselines", comparison), width=width)
        axes = figure.add_subplot()
        axes.set_ylabel("ΔBLEU (multilingual − bilingual)")
        axes.margins(y=0.1)
        if len(comparison.systems) == 1:
            _bars(axes, entries, comparison, analyses)
        else:
            _clouds(axes, entries, comparison, analyses)
        _means(axes, entries, comparison)
        axes.axhline(0, color=PALETTE["muted"], linewidth=1.2, zorder=2.5)
        _name_languages(axes, entries, width)
        interval_too = len(comparison.systems) <= SEVERAL
        legend(axes, above=18, title=f"mean ΔBLEU{' and 95 % interval' if interval_too else ''}")
        return figure


def bleu_by_size(
    comparison: Comparison, analyses: AnalysisIndex, width: float = WIDE
) -> Figure | None:
    """Draws BLEU of each language against its training pairs, connected to its baseline.

    Lines are sliding means. Languages with few sentences are pale and excluded from means. With
    more than three systems, only the best one has dots. None if all languages have the same number
    of pairs.
    """
    if len({entry.train_pairs for entry in comparison.entries}) < 2:
        return None
    with styled():
        figure = canvas(titled("BLEU by training data", comparison), width=width)
        axes = figure.add_subplot()
        axes.set_ylabel("BLEU")
        _size_axis(axes, comparison.entries, width)
        if len(comparison.systems) <= FEW:
            _ties(axes, comparison)
        for system in comparison.systems:
            _sizes(axes, comparison, system, analyses)
        _baselines(axes, comparison)
        axes.set_ylim(bottom=0)
        legend(axes, above=6)
        return figure


def _sizes(axes: Axes, comparison: Comparison, system: str, analyses: AnalysisIndex) -> None:
    """Draws dots of a system's languages at their training pairs, and its sliding mean."""
    are_few = len(comparison.systems) <= FEW
    entries = [entry for entry in comparison.entries if system in entry.rows]
    counted = [entry for entry in entries if comparison.counts(entry)]
    shade = colour(comparison.palette, system)
    sliding_means = slides(len(counted))
    name = label(system) + (f", sliding mean of {WINDOW} languages" if sliding_means else "")
    if are_few or system == comparison.primary_system or not sliding_means:
        strong = 0.75 if len(comparison.systems) == 1 else 0.5
        for pale in (False, True):
            drawn = [entry for entry in entries if comparison.counts(entry) is not pale]
            dots(
                axes, [e.train_pairs for e in drawn], [e.rows[system].bleu for e in drawn],
                tips=[_tooltip(e, system, analyses) for e in drawn], zorder=3, s=20, color=shade,
                linewidths=0, alpha=0.25 if pale else strong,
            )  # fmt: skip
    if not sliding_means:
        axes.plot([], [], "o", color=shade, ms=5, label=name)
        return
    sizes = [entry.train_pairs for entry in counted]
    around = sliding([entry.rows[system].bleu for entry in counted], WINDOW)
    window_means = [fmean(values) for values in around]
    axes.plot(sizes, window_means, color=PALETTE["page"], linewidth=4, zorder=3.1)
    axes.plot(
        sizes, window_means, linewidth=2, zorder=3.2, color=shade,
        linestyle=dashes(comparison.palette, system), label=name if are_few else label(system),
    )  # fmt: skip


def _baselines(axes: Axes, comparison: Comparison) -> None:
    """Draws a ring for every baseline."""
    bilingual = [(entry, entry.baseline) for entry in comparison.entries if entry.baseline]
    dots(
        axes, [entry.train_pairs for entry, _ in bilingual],
        [row.bleu for _, row in bilingual], s=22, zorder=2.9, linewidths=1,
        tips=[f"{entry.language.name}: {row.bleu:.1f} BLEU, bilingual" for entry, row in bilingual],
        facecolors=PALETTE["page"], edgecolors=PALETTE["ink"],
    )  # fmt: skip
    if bilingual:
        axes.plot([], [], "o", mfc="none", mec=PALETTE["ink"], ms=5, label="bilingual baseline")


def _bars(
    axes: Axes, entries: Sequence[Entry], comparison: Comparison, analyses: AnalysisIndex
) -> None:
    """Draws a bar per language of the single system, in two hues."""
    (system,) = comparison.systems
    width = 0.68 if len(entries) <= _NAMED else 0.8
    figure = axes.get_figure(root=True)
    assert figure
    labelled = len(entries) <= fitting(_LABELLED, figure.get_figwidth())
    for i, entry in enumerate(entries):
        delta = _delta(entry, system)
        test = analyses.paired(entry.rows[system], entry.baseline)
        (bar,) = axes.bar(
            i, delta, width, color=PALETTE["up" if delta >= 0 else "down"], zorder=2,
            alpha=1.0 if comparison.counts(entry) else 0.4,
        )  # fmt: skip
        bar.set_gid(tooltip(_tooltip(entry, system, analyses)))
        ends = (test.delta_low, test.delta_high) if test else (delta, delta)
        if test:
            axes.vlines(i, *ends, color=PALETTE["muted"], linewidth=1, zorder=3)
        if labelled:
            axes.annotate(
                text(delta, "delta"), (i, ends[1] if delta >= 0 else ends[0]),
                ha="center", va="bottom" if delta >= 0 else "top", textcoords="offset points",
                xytext=(0, 3 if delta >= 0 else -3), size=9, color=PALETTE["muted"], zorder=6,
                bbox={"facecolor": PALETTE["page"], "edgecolor": "none", "pad": 0.8},
            )  # fmt: skip


def _clouds(
    axes: Axes, entries: Sequence[Entry], comparison: Comparison, analyses: AnalysisIndex
) -> None:
    """Draws a dot per language and system, side by side; with intervals for few systems."""
    systems = comparison.systems
    are_few = len(systems) <= FEW or not slides(len(entries))
    dotted = systems if are_few else [s for s in systems if s == comparison.primary_system]
    for index, system in enumerate(dotted):
        shift = (index - (len(dotted) - 1) / 2) * 0.6 / len(dotted)
        shade = colour(comparison.palette, system)
        points = [(i + shift, e) for i, e in enumerate(entries) if system in e.rows]
        for pale in (False, True):
            drawn = [(x, e) for x, e in points if comparison.counts(e) is not pale]
            dots(
                axes, [x for x, _ in drawn], [_delta(e, system) for _, e in drawn],
                tips=[_tooltip(e, system, analyses) for _, e in drawn], zorder=2.6, linewidths=0,
                s=14, color=shade, alpha=0.25 if pale else 0.65,
            )  # fmt: skip
        if len(dotted) <= FEW:
            tests = [(x, analyses.paired(e.rows[system], e.baseline)) for x, e in points]
            tested = [(x, test) for x, test in tests if test]
            axes.vlines(
                [x for x, _ in tested], [test.delta_low for _, test in tested],
                [test.delta_high for _, test in tested], zorder=2.4, color=shade, linewidth=1,
                alpha=0.3,
            )  # fmt: skip


def _means(axes: Axes, entries: Sequence[Entry], comparison: Comparison) -> None:
    """Draws each system's mean with its interval; sliding, if there are many languages."""
    systems = comparison.systems
    for index, system in enumerate(systems):
        places = [
            i
            for i, entry in enumerate(entries)
            if system in entry.rows and comparison.counts(entry)
        ]
        if not places:
            continue
        deltas = [_delta(entries[i], system) for i in places]
        sliding_means = slides(len(places))
        around = sliding(deltas, WINDOW) if sliding_means else [deltas] * len(places)
        window_means = [fmean(values) for values in around]
        shade = PALETTE["ink"] if len(systems) == 1 else colour(comparison.palette, system)
        ends = list(filter(None, map(mean_interval, around)))
        if len(systems) <= SEVERAL and len(ends) == len(places):
            low, high = zip(*ends, strict=True)
            axes.fill_between(
                places, low, high, color=shade, linewidth=0, zorder=1.7 + index / 100,
                alpha=0.14 if len(systems) <= FEW else 0.1,
            )  # fmt: skip
        # With few languages, the mean is a thin line behind the bars.
        over = 3 + index / 10 if sliding_means else 1.8 + index / 100
        if sliding_means:
            axes.plot(places, window_means, color=PALETTE["page"], linewidth=4, zorder=over)
        axes.plot(
            places, window_means, linewidth=2 if sliding_means else 1.2, zorder=over + 0.05,
            color=shade,
            linestyle=dashes(comparison.palette, system) if sliding_means else "--",
            label=_mean_of(comparison, system),
        )  # fmt: skip


def _mean_of(comparison: Comparison, system: str) -> str:
    of_all = mean(comparison.compared, system, "delta")
    assert of_all
    name = f"{label(system)}: {text(of_all.value, 'delta')}"
    return name + (
        interval(of_all, "delta", " ({})") if len(comparison.systems) <= SEVERAL else ""
    )


def _size_axis(axes: Axes, entries: Sequence[Entry], width: float) -> None:
    axes.grid(True, axis="both")
    zeros = any(entry.train_pairs == 0 for entry in entries)
    axes.set_xscale("symlog" if zeros else "log", **({"linthresh": 10} if zeros else {}))
    axes.xaxis.set_inverted(True)
    if not zeros:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if width == WIDE else (1, 3)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("training pairs (logarithmic), from much to little")


def _ties(axes: Axes, comparison: Comparison) -> None:
    """Draws a line from every dot to its baseline."""
    for system in comparison.systems:
        tied = [(e, e.baseline.bleu) for e in comparison.entries if e.baseline and system in e.rows]
        directions = ["up" if e.rows[system].bleu >= bleu else "down" for e, bleu in tied]
        axes.vlines(
            [entry.train_pairs for entry, _ in tied], [bleu for _, bleu in tied],
            [entry.rows[system].bleu for entry, _ in tied], linewidth=1.1, alpha=0.6, zorder=2,
            colors=[
                PALETTE[direction if len(comparison.systems) == 1 else "muted"]
                for direction in directions
            ],
        )  # fmt: skip


def _name_languages(axes: Axes, entries: Sequence[Entry], width: float) -> None:
    """Writes the languages below the axis, if they fit, and the data sizes of both ends above it.
    """
    axes.grid(False, axis="x")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(entries) - 0.4)
    axes.set_xticks([])
    if len(entries) <= fitting(_NAMED, width):
        names = [shortened(entry.language.name, 30 if width == WIDE else 24) for entry in entries]
        axes.set_xticks(range(len(entries)), names, rotation=40, ha="right", rotation_mode="anchor")
    elif len(entries) <= fitting(_CODED, width):
        codes = [entry.language.iso3 for entry in entries]
        axes.set_xticks(range(len(entries)), codes, rotation=90, size=6.5)
    for x, side, entry in ((0, "left", entries[0]), (1, "right", entries[-1])):
        axes.annotate(
            f"{entry.train_pairs:,} training pairs", (x, 1), xycoords="axes fraction", ha=side,
            size=9, xytext=(0, 4), textcoords="offset points", color=PALETTE["muted"],
        )  # fmt: skip


def _tooltip(entry: Entry, system: str, analyses: AnalysisIndex) -> str:
    """Returns the tooltip of a language's mark."""
    row = entry.rows[system]
    scores = f"{entry.language.name}: {row.bleu:.1f} BLEU, {system}"
    if entry.baseline:
        scores += f"; {entry.baseline.bleu:.1f} bilingual; Δ {row.bleu - entry.baseline.bleu:+.1f}"
        if test := analyses.paired(row, entry.baseline):
            scores += f" ({test.delta_low:+.1f} to {test.delta_high:+.1f})"
    return f"{scores}; {entry.train_pairs:,} training pairs"


def _delta(entry: Entry, system: str) -> float:
    delta = entry.delta(system)
    assert delta is not None
    return delta
