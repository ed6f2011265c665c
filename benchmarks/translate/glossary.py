"""Measures a glossary: terms present, quality of the rest, and time; and placeholders kept.

    python -m benchmarks.translate.glossary DATA

Terms are words of the training pack that often occur in pairs (Dice coefficient); a test line
counts if its English has the translation of a term. 'Rest' is BLEU and chrF++ after the translated
terms are removed from output and reference. Then lines with placeholders.
"""

import collections
import itertools
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from benchmarks.translate.lines import Line, arguments, read, source_tokens
from eval import metrics
from mmt.decoding import Decoding
from mmt.translate import Glossary, Translation, Translator, placeholders
from mmt.translate.glossary import Term

LANGUAGES = "spa_Latn,deu_Latn,rus_Cyrl,ces_Latn,tur_Latn"
MOST_TOKENS = 29  # with tag and end token one bucket


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def terms(lines: Sequence[Line]) -> list[Term]:
    """Returns source words and the English words that most often go with them."""
    sources: collections.Counter[str] = collections.Counter()
    targets, both = sources.copy(), collections.Counter[tuple[str, str]]()
    for line in lines:
        a, b = set(words(line.source)), set(words(line.english))
        sources.update(a)
        targets.update(b)
        both.update((x, y) for x in a for y in b if len(x) > 3 and len(y) > 3)
    best: dict[str, tuple[float, str]] = {}
    for (x, y), count in both.items():
        dice = 2 * count / (sources[x] + targets[y])
        if count > 3 and dice > 0.4:
            best[x] = max(best.get(x, (0.0, "")), (dice, y))
    return [Term(x, (y,)) for x, (_, y) in best.items()]


def present(glossary: Glossary, line: Line, hypothesis: str) -> bool:
    """Returns whether a hypothesis has all terms of its line, as whole words."""
    wanted = [term.targets[0] for term in glossary.terms_of(line.source)]
    return set(wanted) <= set(words(hypothesis))


def without_terms(glossary: Glossary, line: Line, text: str) -> str:
    """Returns a text without the translations of its line's terms."""
    gone = {term.targets[0] for term in glossary.terms_of(line.source)}
    return " ".join(word for word in text.split() if not gone & set(words(word)))


def measure(
    translator: Translator, lines: Sequence[Line], **options: Any
) -> tuple[list[Translation], float]:
    """Returns the translations of lines and the CPU seconds, after one call to compile."""
    texts = [line.source for line in lines]
    list(translator.translate(texts[:1], **options))
    start = time.process_time()
    return list(translator.translate(texts, **options)), time.process_time() - start


def scores(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[str, str]:
    """Returns BLEU and chrF++."""
    scored = metrics.score(hypotheses, references)
    return f"{scored.bleu:.2f}", f"{scored.chrf:.2f}"


def lines_with_terms(
    data: Path, language: str, translator: Translator, count: int
) -> tuple[list[Line], Glossary]:
    """Returns test lines whose English has all terms of the line, and the glossary."""
    trained = list(itertools.islice(read(data / "mix/train", language), 0, 45_000, 3))
    glossary = Glossary(tuple(terms([line for line in trained if len(line.source) < 150])))
    chosen = []
    for line in read(data / "mix/test", language, ("tatoeba", "laser", "newstest")):
        fits = source_tokens(translator, line.source) <= MOST_TOKENS
        if fits and glossary.terms_of(line.source) and present(glossary, line, line.english):
            chosen.append(line)
    return chosen[:count], glossary


def main() -> None:
    """Prints the two tables."""
    args = arguments(__doc__, languages=LANGUAGES)
    print(header())
    translator = Translator.load(args.model)
    table = Table("language", "glossary", "present", "BLEU", "chrF++", "rest: BLEU", "chrF++", "s")
    for language in args.languages.split(","):
        lines, glossary = lines_with_terms(args.data, language, translator, args.lines)
        english = [line.english for line in lines]
        for name, given in (("no", None), ("yes", glossary)):
            translations, seconds = measure(translator, lines, glossary=given)
            hypotheses = [translation.text for translation in translations]
            count = sum(map(present, [glossary] * len(lines), lines, hypotheses))
            rest = [
                list(map(without_terms, [glossary] * len(lines), lines, texts))
                for texts in (hypotheses, english)
            ]
            table.add_row(
                language, name, f"{count} of {len(lines)}",
                *scores(hypotheses, english), *scores(*rest), f"{seconds:.1f}",
            )  # fmt: skip
    Console(width=110).print(table)
    table = Table("language", "keep_placeholders", "all kept", "in parts", "BLEU", "chrF++", "s")
    for language in args.languages.split(","):
        found = (
            line for line in read(args.data / "mix/test", language)
            if (counts := placeholders.counts(line.source))
            and counts == placeholders.counts(line.english)
            and source_tokens(translator, line.source) <= MOST_TOKENS
        )  # fmt: skip
        lines = list(itertools.islice(found, args.lines))
        for keep in (False, True):
            decoding = Decoding(keep_placeholders=keep)
            translations, seconds = measure(translator, lines, decoding=decoding)
            kept = sum(placeholders.counts(t.text) == placeholders.counts(t.source)
                       for t in translations)  # fmt: skip
            table.add_row(
                language, str(keep), f"{kept} of {len(lines)}",
                str(sum(bool(t.pieces) for t in translations)),
                *scores([t.text for t in translations], [line.english for line in lines]),
                f"{seconds:.1f}",
            )  # fmt: skip
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
