"""Figures of scores: GShard's ΔBLEU by language, BLEU by training size, BLEU by overlap.

What is compared is decided in comparison.py; how figures look in figures.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eval.records.analysis import Bin
from eval.records.analysis_index import Evidence
from eval.report.comparison import SMALL, Comparison, Entry, mean_interval, sliding
from eval.report.figures.drawing import (
    PALETTE,
    canvas,
    colour,
    dashes,
    dots,
    empty,
    label,
    legend,
    shortened,
    styled,
    tip,
)
from eval.report.tables import interval, mean, text

WINDOW = 10  # languages in a sliding mean, as in Figure 6 of GShard (Lepikhin et al., 2020)
_NAMED, _CODED = 44, 140  # so many languages fit below the axis by name, by code
_LABELLED = 30  # of so many bars each has room for its number
_FEW, _SEVERAL = 3, 6  # so many systems can show an interval at every language, of their means


def delta_bleu(comparison: Comparison, evidence: Evidence) -> Figure:
    """ΔBLEU of each language against its baseline, from much to little data, and sliding means.

    95 % intervals: of a language by paired bootstrap, where it was tested; of a sliding mean over
    its languages. Languages with few sentences are pale and not part of the means.
    """
    with styled():
        figure = canvas(_title("ΔBLEU against bilingual baselines", comparison))
        axes = figure.add_subplot()
        axes.set_ylabel("ΔBLEU (multilingual − bilingual)")
        entries = [entry for entry in comparison.entries if entry.baseline and entry.rows]
        if not entries:
            return empty(figure, axes, "no language has both a multilingual and a bilingual score")
        if len(comparison.systems) == 1:
            _bars(axes, entries, comparison, evidence)
        else:
            _clouds(axes, entries, comparison, evidence)
        _means(axes, entries, comparison)
        axes.axhline(0, color=PALETTE["muted"], linewidth=1.2, zorder=2.5)
        axes.annotate(
            "baseline", (1, 0), xycoords=("axes fraction", "data"), va="center",
            xytext=(5, 0), textcoords="offset points", color=PALETTE["muted"], size=9,
        )  # fmt: skip
        _name_languages(axes, entries)
        axes.margins(y=0.1)
        legend(axes, above=1.05)
        return figure


def bleu_by_size(comparison: Comparison, evidence: Evidence) -> Figure:
    """BLEU of each language against its training pairs, with its baseline tied to it."""
    with styled():
        figure = canvas(_title("BLEU by training data", comparison))
        axes = figure.add_subplot()
        axes.set_ylabel("BLEU")
        _size_axis(axes, comparison.entries)
        lone, few = len(comparison.systems) == 1, len(comparison.systems) <= _FEW
        if few:
            _ties(axes, comparison)
        for system in comparison.systems:
            entries = [entry for entry in comparison.entries if system in entry.rows]
            sizes = [entry.train_pairs for entry in entries]
            scores = [entry.rows[system].bleu for entry in entries]
            dots(
                axes, sizes, scores, tips=[_said(e, system, evidence) for e in entries], zorder=3,
                s=20, color=colour(comparison.systems, system), linewidths=0,
                alpha=0.75 if lone else 0.5,
            )  # fmt: skip
            means = [fmean(around) for around in sliding(scores, WINDOW)]
            axes.plot(sizes, means, color=PALETTE["page"], linewidth=4, zorder=3.1)
            axes.plot(
                sizes, means, linewidth=2, zorder=3.2,
                color=colour(comparison.systems, system),
                linestyle=dashes(comparison.systems, system),
                label=label(system) + (f", sliding mean of {WINDOW} languages" if few else ""),
            )  # fmt: skip
        bilingual = [(entry, entry.baseline) for entry in comparison.entries if entry.baseline]
        dots(
            axes, [entry.train_pairs for entry, _ in bilingual],
            [row.bleu for _, row in bilingual], s=22, zorder=2.9, linewidths=1,
            tips=[f"{entry.language.name}: {row.bleu:.1f} BLEU, bilingual"
                  for entry, row in bilingual],
            facecolors=PALETTE["page"], edgecolors=PALETTE["ink"],
        )  # fmt: skip
        if bilingual:
            axes.plot([], [], "o", mfc="none", mec=PALETTE["ink"], ms=5, label="bilingual baseline")
        axes.set_ylim(bottom=0)
        legend(axes, above=1.0)
        return figure


def bleu_by_overlap(comparison: Comparison, evidence: Evidence) -> Figure | None:
    """BLEU of test lines by how much of their reference the training English holds.

    A decoder that recites is good only at the right. A bin's BLEU is the mean over languages,
    weighted by their sentences in it; hollow where it has few. None where there are no `overlap`
    rows.
    """
    systems = [*comparison.systems, ""]
    lines = {system: _overlap(comparison, evidence, system) for system in systems}
    lines = {system: bins for system, bins in lines.items() if bins}
    if not lines:
        return None
    with styled():
        figure = canvas(_title("BLEU by overlap with the training English", comparison), height=4.4)
        axes = figure.add_subplot()
        axes.set_ylabel("BLEU")
        axes.set_xlabel("share of the reference's 4-grams that the training English has, in %")
        counts = axes.twinx()
        for place, one in enumerate(next(iter(lines.values()))):
            counts.bar(place, one.sentences, 0.9, color=PALETTE["grid"], zorder=0)
        counts.set_ylabel("test lines, all languages (bars)")
        counts.grid(False)
        axes.set_zorder(counts.get_zorder() + 1)
        for system, bins in lines.items():
            there = [(p, one.bleu) for p, one in enumerate(bins) if one.bleu is not None]
            shade = colour(comparison.systems, system) if system else PALETTE["ink"]
            axes.plot(
                [place for place, _ in there], [bleu for _, bleu in there], "o", ms=5, linewidth=2,
                linestyle=dashes(comparison.systems, system) if system else "--",
                color=shade, label=label(system) or "bilingual baselines",
            )  # fmt: skip
            for place, bleu in there:
                if bins[place].sentences < SMALL:
                    axes.plot(place, bleu, "o", ms=5, mfc=PALETTE["page"], mec=shade)
            for place, bleu in there:
                said = f"{bleu:.1f} BLEU on {bins[place].sentences:,} lines"
                who = system or "bilingual"
                axes.plot(place, bleu, "o", ms=9, alpha=0.01, gid=tip(f"{who}: {said}"))
        labels = [f"{one.low:.0%}–{one.high:.0%}".replace("%–", "–").rstrip("%") for one in bins]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylim(bottom=0)
        legend(axes, above=1.0)
        return figure


def _title(what: str, comparison: Comparison) -> str:
    return f"{what}: {comparison.testset}, into {comparison.target.name}"


def _bars(
    axes: Axes, entries: Sequence[Entry], comparison: Comparison, evidence: Evidence
) -> None:
    """A bar per language of the one system, in two hues, up and down."""
    (system,) = comparison.systems
    width = 0.68 if len(entries) <= _NAMED else 0.8
    for place, entry in enumerate(entries):
        delta = _delta(entry, system)
        test = evidence.paired(entry.rows[system], entry.baseline)
        (bar,) = axes.bar(
            place, delta, width, color=PALETTE["up" if delta >= 0 else "down"], zorder=2,
            alpha=1.0 if comparison.counts(entry) else 0.4,
        )  # fmt: skip
        bar.set_gid(tip(_said(entry, system, evidence)))
        ends = (test.delta_low, test.delta_high) if test else (delta, delta)
        if test:
            axes.vlines(place, *ends, color=PALETTE["muted"], linewidth=1, zorder=3)
        if len(entries) <= _LABELLED:
            axes.annotate(
                text(delta, "delta"), (place, ends[1] if delta >= 0 else ends[0]),
                ha="center", va="bottom" if delta >= 0 else "top", textcoords="offset points",
                xytext=(0, 3 if delta >= 0 else -3), size=9, color=PALETTE["muted"], zorder=6,
            )  # fmt: skip


def _clouds(
    axes: Axes, entries: Sequence[Entry], comparison: Comparison, evidence: Evidence
) -> None:
    """A dot per language and system, side by side; few systems have their intervals, too."""
    systems = comparison.systems
    for index, system in enumerate(systems):
        shift = (index - (len(systems) - 1) / 2) * 0.6 / len(systems)
        here = [(place + shift, e) for place, e in enumerate(entries) if system in e.rows]
        for pale in (False, True):
            some = [(x, e) for x, e in here if comparison.counts(e) is not pale]
            dots(
                axes, [x for x, _ in some], [_delta(e, system) for _, e in some],
                tips=[_said(e, system, evidence) for _, e in some], zorder=2.6, linewidths=0,
                s=14, color=colour(systems, system), alpha=0.25 if pale else 0.65,
            )  # fmt: skip
        tests = [(x, evidence.paired(e.rows[system], e.baseline)) for x, e in here]
        if len(systems) <= _FEW:
            there = [(x, test) for x, test in tests if test]
            axes.vlines(
                [x for x, _ in there], [test.delta_low for _, test in there],
                [test.delta_high for _, test in there], zorder=2.4,
                color=colour(systems, system), linewidth=1, alpha=0.3,
            )  # fmt: skip


def _means(axes: Axes, entries: Sequence[Entry], comparison: Comparison) -> None:
    """A sliding mean per system with its interval, on a halo in the page's colour."""
    systems = comparison.systems
    for index, system in enumerate(systems):
        places = [
            place
            for place, entry in enumerate(entries)
            if system in entry.rows and comparison.counts(entry)
        ]
        if not places:
            continue
        around = sliding([_delta(entries[place], system) for place in places], WINDOW)
        means = [fmean(values) for values in around]
        shade = PALETTE["ink"] if len(systems) == 1 else colour(systems, system)
        ends = list(filter(None, map(mean_interval, around)))
        if len(systems) <= _SEVERAL and len(ends) == len(places):
            low, high = zip(*ends, strict=True)
            axes.fill_between(
                places, low, high, color=shade, linewidth=0, zorder=2.7 + index / 100,
                alpha=0.14 if len(systems) <= _FEW else 0.1,
            )  # fmt: skip
        axes.plot(places, means, color=PALETTE["page"], linewidth=4, zorder=3 + index / 10)
        axes.plot(
            places, means, linewidth=2, zorder=3.05 + index / 10, color=shade,
            linestyle=dashes(systems, system), label=_mean_of(comparison, system),
        )  # fmt: skip


def _mean_of(comparison: Comparison, system: str) -> str:
    found = mean(comparison.compared, system, "delta")
    assert found
    said = f"{label(system)}: mean {text(found.value, 'delta')}"
    if len(comparison.systems) > _SEVERAL:
        return said
    line = f"; line: sliding mean of {WINDOW}" if len(comparison.systems) <= _FEW else ""
    return f"{said}{interval(found, 'delta', ' (95 %: {})')}{line}"


def _size_axis(axes: Axes, entries: Sequence[Entry]) -> None:
    axes.grid(True, axis="both")
    zeros = any(entry.train_pairs == 0 for entry in entries)
    axes.set_xscale("symlog" if zeros else "log", **({"linthresh": 10} if zeros else {}))
    sizes = {entry.train_pairs for entry in entries}
    if len(sizes) == 1:
        axes.set_xlim(max(sizes) * 2 + 10, max(sizes) / 2)
    axes.xaxis.set_inverted(True)
    if not zeros:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("training pairs (logarithmic), from much to little")


def _ties(axes: Axes, comparison: Comparison) -> None:
    """A line from every dot to its baseline."""
    for system in comparison.systems:
        tied = [(e, e.baseline.bleu) for e in comparison.entries if e.baseline and system in e.rows]
        ways = ["up" if e.rows[system].bleu >= bleu else "down" for e, bleu in tied]
        axes.vlines(
            [entry.train_pairs for entry, _ in tied], [bleu for _, bleu in tied],
            [entry.rows[system].bleu for entry, _ in tied], linewidth=1.1, alpha=0.6, zorder=2,
            colors=[PALETTE[way if len(comparison.systems) == 1 else "muted"] for way in ways],
        )  # fmt: skip


def _name_languages(axes: Axes, entries: Sequence[Entry]) -> None:
    """Below the axis the languages, as far as they fit; above it the two ends of the data."""
    axes.grid(False, axis="x")
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(entries) - 0.4)
    axes.set_xticks([])
    if len(entries) <= _NAMED:
        names = [shortened(entry.language.name) for entry in entries]
        axes.set_xticks(range(len(entries)), names, rotation=40, ha="right", rotation_mode="anchor")
    elif len(entries) <= _CODED:
        codes = [entry.language.iso3 for entry in entries]
        axes.set_xticks(range(len(entries)), codes, rotation=90, size=6.5)
    for x, side, entry in ((0, "left", entries[0]), (1, "right", entries[-1])):
        axes.annotate(
            f"{entry.train_pairs:,} training pairs", (x, 1), xycoords="axes fraction", ha=side,
            size=9, xytext=(0, 4), textcoords="offset points", color=PALETTE["muted"],
        )  # fmt: skip


def _overlap(comparison: Comparison, evidence: Evidence, system: str) -> list[Bin]:
    """A system's bins over all languages that count; `system` "" is the baselines."""
    rows = [e.rows.get(system) if system else e.baseline for e in comparison.all.entries]
    found = [overlap.bins for row in rows if (overlap := evidence.overlap(row))]
    by_ends: Mapping[tuple[float, float], list[Bin]] = {}
    by_ends = {(one.low, one.high): [] for bins in found for one in bins}
    for one in (one for bins in found for one in bins):
        by_ends[one.low, one.high].append(one)
    return [
        Bin(low=low, high=high, sentences=sum(b.sentences for b in bins), bleu=_weighted(bins))
        for (low, high), bins in sorted(by_ends.items())
    ]


def _weighted(bins: Iterable[Bin]) -> float | None:
    pairs = [(one.bleu, one.sentences) for one in bins if one.bleu is not None and one.sentences]
    return fmean(*zip(*pairs, strict=True)) if pairs else None


def _said(entry: Entry, system: str, evidence: Evidence) -> str:
    """What a reader sees who points at a language's mark."""
    row = entry.rows[system]
    said = f"{entry.language.name}: {row.bleu:.1f} BLEU, {system}"
    if entry.baseline:
        said += f"; {entry.baseline.bleu:.1f} bilingual; Δ {row.bleu - entry.baseline.bleu:+.1f}"
        if test := evidence.paired(row, entry.baseline):
            said += f" ({test.delta_low:+.1f} to {test.delta_high:+.1f})"
    return f"{said}; {entry.train_pairs:,} training pairs"


def _delta(entry: Entry, system: str) -> float:
    delta = entry.delta(system)
    assert delta is not None
    return delta
