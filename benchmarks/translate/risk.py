"""Measures the risk column and `--retry` on a noisy set: AUC of bad lines, and chrF gained.

    python -m benchmarks.translate.risk RUN TESTSET [--lines N] [--characters N]

Half of the sources are damaged: two words repeated eight times, letters replaced by those of an
unknown script, numbers put in. A line is bad if its chrF++ lies in the lowest quarter of the
undamaged lines. The reference is that of the undamaged source.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval import testsets
from eval.calibration import line_chrf
from mmt.decoding import Decoding
from mmt.translate import Translator, retry
from mmt.translate.risk import Calibration
from mmt.translate.translation import Signals, Translation

KINDS = ("none", "loop", "script", "digits")


def damaged(text: str, kind: str, random: np.random.Generator) -> str:
    """Returns a source with a fault of this kind."""
    words = text.split()
    if kind == "loop":
        start = int(random.integers(0, len(words)))
        return " ".join([*words[:start], *(words[start : start + 2] * 8), *words[start + 2 :]])
    if kind == "script":  # letters of Vai, which no language of the model uses
        return "".join(chr(0xA500 + ord(letter) % 200) if letter.isalpha() else letter
                       for letter in text)  # fmt: skip
    if kind == "digits":
        place = int(random.integers(0, len(words) + 1))
        numbers = [str(random.integers(10, 10**6)) for _ in range(6)]
        return " ".join([*words[:place], *numbers, *words[place:]])
    return text


def auc(scores: np.ndarray, bad: np.ndarray) -> float:
    """Returns the area under the ROC curve of finding bad lines by low scores."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[places]
    positives = bad.sum()
    above = ranks[~bad].sum() - (~bad).sum() * ((~bad).sum() + 1) / 2
    return float(above / (positives * (~bad).sum()))


def main() -> None:
    """Prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("testset")
    parser.add_argument("--lines", type=int, default=600, help="in all, evenly spaced")
    parser.add_argument("--characters", type=int, default=200, help="longest source")
    args = parser.parse_args()
    translator, calibration = Translator.load(args.run), Calibration.load(args.run)
    random = np.random.default_rng(0)
    sources: list[str] = []
    references: list[str] = []
    kinds: list[str] = []
    pairs = [
        pair for of_language in testsets.load(args.testset).languages.values()
        for pair in zip(of_language.sources, of_language.references, strict=True)
        if len(pair[0]) <= args.characters
    ]  # fmt: skip
    for place, (source, reference) in enumerate(pairs[:: -(-len(pairs) // args.lines)]):
        kind = KINDS[1 + place // 2 % 3] if place % 2 else KINDS[0]
        sources.append(damaged(source, kind, random))
        references.append(reference)
        kinds.append(kind)
    greedy = Decoding(beam=1)
    once = list(retry.translate(translator, sources, calibration, decoding=greedy))
    twice = retry.again(translator, once, calibration, decoding=greedy)
    print_tables(once, twice, references, np.array(kinds), calibration)


def print_tables(
    once: list[Translation],
    twice: list[Translation],
    references: list[str],
    kinds: np.ndarray,
    calibration: Calibration,
) -> None:
    """Prints AUC by signal, and chrF++ by damage."""
    console = Console(width=100)
    console.print(header())
    before, after = (line_chrf([line.text for line in lines], references)
                     for lines in (once, twice))  # fmt: skip
    risks = [line.risk for line in once if line.risk]
    confidence = np.array([risk.confidence for risk in risks])
    risky = np.array([retry.is_risky(line, calibration) for line in once])
    bad = before < np.quantile(before[kinds == "none"], 0.25)
    table = Table(title=f"Finding {bad.sum()} bad lines of {len(once)}, {(kinds != 'none').sum()} "
                        "of them damaged")  # fmt: skip
    for column in ("signal", "AUC: bad lines", "AUC: damaged lines"):
        table.add_column(column, justify="right" if column != "signal" else "left")
    signs = dict.fromkeys(("score", "words", "first", "lowest"), 1)
    rows = {"confidence": confidence} | {
        name: signs.get(name, -1) * np.array([getattr(risk.signals, name) for risk in risks])
        for name in Signals._fields
    }
    for name, values in rows.items():
        table.add_row(name, f"{auc(values, bad):.3f}", f"{auc(values, kinds != 'none'):.3f}")
    console.print(table)

    table = Table(title="Translating risky lines again: mean chrF++ of lines")
    for column in ("source", "lines", "risky", "chrF++", "with retry", "gained by the risky"):
        table.add_column(column, justify="right" if column != "source" else "left")
    for kind in (*KINDS, "all"):
        here = kinds == kind if kind != "all" else np.full(len(kinds), True)
        again = here & risky
        gained = f"{(after - before)[again].mean():+.2f}" if again.any() else ""
        table.add_row(kind, f"{here.sum()}", f"{again.sum()}", f"{before[here].mean():.2f}",
                      f"{after[here].mean():.2f}", gained)  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    main()
