"""How far a score on one language of a test set can be trusted, whatever the system.

From its sentences alone: how many, how long, how alike, and what BLEU's tokenizer makes of them.
output_checks.py checks the outputs of systems.
"""

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from eval import metrics
from eval.analyses.train_overlap import normalised
from eval.records.analysis import MARKS, TestsetQuality


def rate(
    testset: str, source: str, target: str, lines: Sequence[tuple[str, str]]
) -> TestsetQuality:
    """The mark of one language of a test set, the worst of its reasons, which are in plain words.

    lines: source and reference of every sentence. Under 100 sentences are `poor`, for one score
    then moves by several BLEU by chance; under 200 `fair`. What else is looked at: words as BLEU's
    tokenizer 13a sees them (no spaces between words: poor), quotation marks that it leaves on
    words (only said), references under 4 words (no 4-gram), repeated ones, and such as are their
    sources.

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
        yield "poor", f"only {sentences} sentences, under 100: a score moves widely by chance"
    elif sentences < 200:
        yield "fair", f"only {sentences} sentences: read the interval, not the score"


def _tokens(references: Sequence[str]) -> Iterator[tuple[str, str]]:
    tokens = [metrics.tokens(line) for line in references]
    words = [word for line in tokens for word in line]
    length = float(np.mean([len(word) for word in words])) if words else 0.0
    if length > 12:
        yield (
            "poor",
            f"the tokenizer 13a finds no words ({length:.0f} characters each): the target is "
            f"written without spaces; read chrF++",
        )
    elif length > 8:
        yield "fair", f"words are long ({length:.1f} characters): BLEU is low, read chrF++"
    stuck = float(np.mean([any(map(_is_stuck, line)) for line in tokens]))
    if stuck > 0.05:
        yield (
            "good",  # alike for all systems
            f"in {stuck:.0%} of the references the tokenizer 13a leaves punctuation such as “ ” "
            f"on words, so that one wrong quotation mark is a wrong word",
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
    same = float(np.mean([normalised(source) == normalised(other) for source, other in lines]))
    if same > 0.1:
        mark = "poor" if same > 0.5 else "fair"
        yield mark, f"{same:.0%} of the references are their sources: copying scores"


def _is_stuck(token: str) -> bool:
    """Whether a token is a word with a quotation mark or the like on it that is not ASCII."""
    ends = [end for end in (token[0], token[-1]) if not end.isascii()]
    return any(map(str.isalpha, token)) and any(
        unicodedata.category(end).startswith("P") for end in ends
    )
