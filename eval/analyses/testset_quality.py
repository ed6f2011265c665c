"""Rates how reliable scores on one language of a test set are, for any system.

The rating uses sentences only: their number, length, repetition and tokenization. output_checks.py
checks the outputs of systems.
"""

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from eval import metrics
from eval.records.analysis import MARKS, TestsetQuality
from mmt.translate.line_checks import normalised


def rate(
    testset: str, source: str, target: str, lines: Sequence[tuple[str, str]]
) -> TestsetQuality:
    """Returns the mark of one language of a test set: the worst mark of its findings.

    lines: source and reference of every sentence. Under 100 sentences is `poor`, because a score
    then varies by several BLEU; under 200 is `fair`. Other findings: no spaces between words
    (`poor`), quotation marks attached to words (reported only), references under 4 words (no
    4-gram), repeated references, and references equal to their sources.

    >>> rate("x", "deu_Latn", "eng_Latn", [("Ja.", "Yes.")] * 120).mark
    'poor'
    """
    references = [reference for _, reference in lines]
    findings = [*_size(len(lines)), *_tokens(references), *_sentences(lines)]
    worst = max((MARKS.index(mark) for mark, _ in findings), default=0)
    return TestsetQuality(
        testset=testset,
        source=source,
        target=target,
        mark=MARKS[worst],
        reasons=tuple(reason for _, reason in findings),
        sentences=len(lines),
    )


def _size(sentences: int) -> Iterator[tuple[str, str]]:
    if sentences < 100:
        yield "poor", f"only {sentences} sentences, under 100: scores vary widely by chance"
    elif sentences < 200:
        yield "fair", f"only {sentences} sentences: the interval matters more than the score"


def _tokens(references: Sequence[str]) -> Iterator[tuple[str, str]]:
    tokens = [metrics.tokens(line) for line in references]
    words = [word for line in tokens for word in line]
    length = float(np.mean([len(word) for word in words])) if words else 0.0
    if length > 12:
        yield (
            "poor",
            f"the tokenizer 13a finds no words ({length:.0f} characters each), because the target "
            f"has no spaces: use chrF++",
        )
    elif length > 8:
        yield "fair", f"words are long ({length:.1f} characters): BLEU is low, use chrF++"
    stuck = float(np.mean([any(map(_is_stuck, line)) for line in tokens]))
    if stuck > 0.05:
        yield (
            "good",  # affects all systems equally
            f"in {stuck:.0%} of the references the tokenizer 13a leaves punctuation such as “ ” "
            f"attached to words: a wrong quotation mark makes the word wrong",
        )
    short = float(np.mean([len(line) < 4 for line in tokens]))
    if short > 0.2:
        mark = "poor" if short > 0.5 else "fair"
        yield mark, f"{short:.0%} of the references are under 4 words, where BLEU has no 4-gram"


def _sentences(lines: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    references = [normalised(reference) for _, reference in lines]
    if empty := sum(not words for words in references):
        yield "poor", f"{empty} references have no word"
    repeated = 1 - len(set(references)) / len(references)
    if repeated > 0.2:
        mark = "poor" if repeated > 0.5 else "fair"
        yield mark, f"{repeated:.0%} of the references are repetitions of others"
    copied = float(
        np.mean([normalised(source) == normalised(target_line) for source, target_line in lines])
    )
    if copied > 0.1:
        mark = "poor" if copied > 0.5 else "fair"
        yield mark, f"{copied:.0%} of the references equal their sources: copying scores well"


def _is_stuck(token: str) -> bool:
    """Returns whether a token is a word with a non-ASCII quotation mark or the like attached."""
    ends = [end for end in (token[0], token[-1]) if not end.isascii()]
    return any(map(str.isalpha, token)) and any(
        unicodedata.category(end).startswith("P") for end in ends
    )
