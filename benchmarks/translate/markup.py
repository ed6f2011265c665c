"""Measures where tags end up: around the words that they were around, or not.

    python -m benchmarks.translate.markup DATA

A tag is put around a word or number that a line and its English share. By attention, the line is
translated without tags; of the translations that have the word once, those are counted in which the
tag is around exactly this word. By placeholders, the tags are `{1}` and `{2}` in the line, which
come through; a line counts if its word is between them. BLEU and chrF++ are without tags. Greedy.
"""

import itertools
import re
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from benchmarks.translate.lines import Line, arguments, read, source_tokens
from eval import metrics
from mmt.decoding import Decoding
from mmt.documents import MarkedText, Tag
from mmt.translate import Translator, markup, placeholders

LANGUAGES = "spa_Latn,deu_Latn,ces_Latn,ita_Latn,fra_Latn,tur_Latn,ind_Latn,nld_Latn"
OPEN, CLOSE = "{1}", "{2}"


def marked_lines(data: Path, languages: str, translator: Translator, count: int) -> list[Line]:
    """Returns lines of 12 to 31 tokens that share a word with their English."""
    chosen: list[Line] = []
    for language in languages.split(","):
        fitting = (
            line for line in read(data / "mix/test", language)
            if shared(line) and 12 <= source_tokens(translator, line.source) <= 31
        )  # fmt: skip
        chosen += itertools.islice(fitting, count)
    return chosen


def shared(line: Line) -> str:
    """Returns the first word of 4 letters or number that both sides have once, or ''.

    Words within a placeholder do not count: tags stay around all of it.
    """
    words = re.findall(r"[^\W\d_]{4,}|\d+", " ".join(placeholders.surroundings(line.source)))
    return next(
        (w for w in words if line.source.count(w) == 1 and line.english.count(w) == 1), ""
    )


def by_attention(translator: Translator, lines: Sequence[Line]) -> tuple[list[str], list[bool]]:
    """Returns translations, and of those with the word once, whether the tag is around it."""
    segments = []
    for line in lines:
        start = line.source.index(word := shared(line))
        tags = Tag(start, "start", "<b>"), Tag(start + len(word), "end", "</b>")
        segments.append(MarkedText(line.source, tags))
    results = list(markup.translate(translator, segments, decoding=Decoding(beam=1)))
    right = []
    for line, result in zip(lines, results, strict=True):
        first, last = (tag.position for tag in result.tags)
        if re.findall(r"\w+", result.text).count(shared(line)) == 1:
            right.append(result.text[first:last] == shared(line))
    return [result.text for result in results], right


def by_placeholders(translator: Translator, lines: Sequence[Line]) -> tuple[list[str], list[bool]]:
    """Returns translations without tags, and of those with the word once, whether it is between."""
    marked = [
        line.source.replace(word := shared(line), f"{OPEN}{word}{CLOSE}", 1) for line in lines
    ]
    decoding = Decoding(beam=1, keep_placeholders=True)
    texts = [translation.text for translation in translator.translate(marked, decoding=decoding)]
    plain = [re.sub(r"\s+", " ", re.sub(r"\{[12]\}", " ", text)).strip() for text in texts]
    right = []
    for line, text, without in zip(lines, texts, plain, strict=True):
        if re.findall(r"\w+", without).count(shared(line)) == 1:
            inside = re.findall(r"\{1\}(.*)\{2\}", text)
            right.append([part.strip() for part in inside] == [shared(line)])
    return plain, right


def main() -> None:
    """Prints the table."""
    args = arguments(__doc__, languages=LANGUAGES)
    print(header())
    translator = Translator.load(args.model)
    lines = marked_lines(args.data, args.languages, translator, args.lines)
    table = Table("method", "lines", "with the word", "tag around it", "BLEU", "chrF++", "s")
    for name, method in (("attention", by_attention), ("placeholders", by_placeholders)):
        start = time.process_time()
        texts, right = method(translator, lines)
        seconds = time.process_time() - start
        scored = metrics.score(texts, [line.english for line in lines])
        table.add_row(
            name, str(len(lines)), str(len(right)), f"{sum(right) / max(len(right), 1):.1%}",
            f"{scored.bleu:.2f}", f"{scored.chrf:.2f}", f"{seconds:.1f}",
        )  # fmt: skip
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
