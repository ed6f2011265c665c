"""Compares a run's language identifier with py3langid on the test split of a corpus, by length.

    python -m benchmarks.translate.identify RUN CORPUS

"all" counts the languages of the identifier, by FLORES code. "common" counts the languages that
both know, by ISO 639-3 code. The identifier chooses among all of its languages, py3langid among
all of its own. A second table has the first words of longer lines: accuracy, mean probability of
the answer (equal if it is calibrated), and accuracy by that probability.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import languages
from mmt.data import corpora
from mmt.data.cleaning.language_identification import py3langid
from mmt.identify import NONE, LanguageIdentifier

WORDS = ((1, 2), (3, 4), (5, 9), (10, 1000))
LINES = 150  # of a language
FIRST_WORDS = (1, 2, 4)
LONGER = 6  # words of a line that is cut
HEART = " \u2764\ufe0f"


def iso3(label: str) -> str:
    """Returns the ISO 639-3 code of a label, '' for other labels."""
    try:
        return languages.find(label).iso3
    except ValueError:
        return ""


def lines_of(corpus: corpora.Corpus, codes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns (code, line) of evenly spaced test lines of each language, the target included."""
    lines, targets = [], []
    for code in corpus.files["test"]:
        if code not in codes:
            continue
        pairs = list(corpus.pairs(code, "test"))
        for pair in pairs[:: -(-len(pairs) // LINES)]:
            lines.append((code, pair.source))
            targets.append(pair.target)
    targets = list(dict.fromkeys(targets))
    return lines + [(corpus.target, line) for line in targets[:: -(-len(targets) // LINES)]]


def _answers(
    identifier: LanguageIdentifier, lines: list[tuple[str, str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns which lines are identified correctly, and the probability of each answer."""
    probabilities = identifier.probabilities([text for _, text in lines])
    answers = np.array(identifier.codes)[probabilities.argmax(1)]
    return answers == np.array([code for code, _ in lines]), probabilities.max(1)


def first_words(identifier: LanguageIdentifier, lines: list[tuple[str, str]]) -> Table:
    """Returns a table of the accuracy on the first words of lines, alone and with an emoji."""
    table = Table(title=f"First words of lines of {LONGER} words or more")
    for column in ("first words", "lines", "accuracy", "mean probability", "with an emoji",
                   "50 % or more: lines", "accuracy", "below 50 %: accuracy"):  # fmt: skip
        table.add_column(column, justify="right")
    longer = [(code, text.split()) for code, text in lines if len(text.split()) >= LONGER]
    for count in FIRST_WORDS:
        cut = [(code, " ".join(words[:count])) for code, words in longer]
        cut = [(code, text) for code, text in cut if any(map(str.isalpha, text))]
        right, certainty = _answers(identifier, cut)
        with_emoji, _ = _answers(identifier, [(code, text + HEART) for code, text in cut])
        likely = certainty >= 0.5
        values = (right, certainty, with_emoji, likely, right[likely], right[~likely])
        shares = (f"{100 * each.mean():.1f} %" for each in values)
        table.add_row(str(count), f"{len(cut):,}", *shares)
    return table


def main() -> None:
    """Prints the table of accuracies, and the speeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("corpus")
    args = parser.parse_args()
    identifier, other = LanguageIdentifier.load(args.run), py3langid()
    lines = lines_of(corpora.load(args.corpus), identifier.codes)
    texts, codes = [line for _, line in lines], np.array([code for code, _ in lines])
    start = time.process_time()
    found = np.array(identifier.codes)[identifier.scores(texts).argmax(1)]
    ours = len(texts) / (time.process_time() - start)
    start = time.process_time()
    theirs = np.array([iso3(other.classify(text)[0]) for text in texts])
    speeds = f"{ours:,.0f} and {len(texts) / (time.process_time() - start):,.0f}"
    known = {iso3(label) for label, _ in other.rank("a word")} - {""}
    both = np.array([iso3(code) in known for code in codes])
    right = found == codes
    same = np.array([iso3(a) == iso3(b) for a, b in zip(found, codes, strict=True)])
    equal = theirs == np.array([iso3(code) for code in codes])
    words = np.array([len(text.split()) for text in texts])

    console = Console(width=100)
    console.print(header())
    count = len(set(codes)), len(set(codes[both]))
    table = Table(title=f"Accuracy, {count[0]} languages, {count[1]} of them common")
    for column in ("words", "lines", "all", "common: lines", "identifier", "py3langid"):
        table.add_column(column, justify="right")
    for low, high in WORDS:
        here = (words >= low) & (words <= high)
        shares = (f"{100 * values[here & which].mean():.1f} %" for values, which in
                  ((right, here), (same, both), (equal, both)))  # fmt: skip
        total, *common = shares
        label = f"{low}–{high}" if high < 1000 else f"{low}+"
        table.add_row(label, f"{here.sum():,}", total, f"{(here & both).sum():,}", *common)
    console.print(table)
    console.print(first_words(identifier, lines))
    console.print(f"lines/s of CPU: {speeds}; none of the languages: {(found == NONE).mean():.2%}")


if __name__ == "__main__":
    main()
