"""Measures sentence splitting: where sentences end, and whether to translate one by one.

    python -m benchmarks.translate.sentences DATA

Three lines of a test set are joined to a line. F1 is of the two ends within it that are found; the
lines may themselves have several sentences, which counts as an error. Then the joined lines are
translated whole, and sentence by sentence, greedily; chrF++ is against the joined English.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from benchmarks.translate.lines import EVERYDAY, NEWS, Line, arguments, read
from eval import metrics
from mmt.decoding import Decoding
from mmt.translate import Translator, sentences

WIDE = ("Hans", "Hant", "Jpan")  # scripts without a space between sentences
LANGUAGES = "spa_Latn,deu_Latn,rus_Cyrl,jpn_Jpan,zho_Hans,fin_Latn"


def joined(lines: Iterable[Line]) -> list[Line]:
    """Returns three lines each as one."""
    groups = zip(*[iter(lines)] * 3, strict=False)
    return [
        Line(
            _separator(group[0].language).join(line.source for line in group),
            " ".join(line.english for line in group),
            group[0].language,
        )
        for group in groups
    ]


def f1(folder: Path, split: Callable[[str, str], list[str]], languages: Iterable[str]) -> float:
    """Returns the mean F1 of the ends of sentences over languages."""
    scores = []
    for language in languages:
        lines = list(itertools.islice(read(folder, language), 300))
        true = found = both = 0
        for group in zip(*[iter(lines)] * 3, strict=False):
            texts = [line.source for line in group]
            separator = _separator(language)
            ends = {len(separator.join(texts[:count])) for count in (1, 2)}
            text = separator.join(texts)
            parts = itertools.accumulate(split(text, language))
            guesses = {len(part.rstrip()) for part in parts} - {len(text.rstrip())}
            true, found, both = true + 2, found + len(guesses), both + len(ends & guesses)
        scores.append(2 * both / (true + found))
    return sum(scores) / len(scores)


def by_hand(text: str, language: str) -> list[str]:
    """Splits where our own marks say, as for lines that do not fit the model."""
    del language
    ends = [match.end() for match in sentences.SENTENCE_END.finditer(text)]
    places = sorted({0, *ends, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


def _separator(language: str) -> str:
    return "" if language.endswith(WIDE) else " "


def main() -> None:
    """Prints the two tables."""
    args = arguments(__doc__, languages=LANGUAGES)
    print(header())
    flores = args.data / "flores/devtest"
    codes = sorted(file.name.removesuffix(".tsv.gz") for file in flores.glob("*.tsv.gz"))
    for name, split in (("sentencex", sentences.segment), ("our marks", by_hand)):
        print(f"{name}: mean F1 over {len(codes)} languages {f1(flores, split, codes):.3f}")
    translator = Translator.load(args.model)
    table = Table("language", "kind", "lines", "whole: chrF++", "s", "by sentence: chrF++", "s")
    whole = Decoding(beam=1)
    for language in args.languages.split(","):
        for kind, names in (("everyday", EVERYDAY), ("news", NEWS)):
            found = read(args.data / "mix/test", language, names)
            lines = joined(itertools.islice(found, 3 * args.lines))
            row = []
            for decoding in (whole, dataclasses.replace(whole, split="sentences")):
                start = time.monotonic()
                texts = [line.source for line in lines]
                translated = translator.translate(texts, source=language, decoding=decoding)
                hypotheses = [translation.text for translation in translated]
                scored = metrics.score(hypotheses, [line.english for line in lines])
                row += [f"{scored.chrf:.2f}", f"{time.monotonic() - start:.0f}"]
            table.add_row(language, kind, str(len(lines)), *row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
