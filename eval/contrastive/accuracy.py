"""How often a model prefers the reference, by context, and the table of it."""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool

from eval.analyses.significance import mcnemar
from eval.contrastive import examples
from eval.contrastive.examples import ContrastiveExample
from eval.records.contrastive import (
    PHENOMENA,
    ContrastiveAccuracy,
    ContrastiveCounts,
    summaries,
)
from eval.systems import System
from eval.testsets import TestSet, check_documents
from mmt.system import text_table
from mmt.system.progress import SENTENCES, progress_bar
from mmt.translate import Decoding, Translator, scoring
from mmt.translate.context import SentenceInContext

_DECODING = Decoding(alpha=0.0)  # scores are log-probabilities
_COLUMNS = (
    "language", "phenomenon", "examples", "in context", "without", "p", "other document", "p"
)  # fmt: skip


def measure(
    translator: Translator, testset: TestSet, *, system: System, lines: int
) -> Iterator[list[ContrastiveAccuracy]]:
    """Yields the rows of each language of a test set with examples, which take no search.

    Args:
        translator: a model into English, of the engine jax.
        testset: a test set into English; the documents of each language are known.
        system: the model as a system; rows have its name, checkpoint and config.
        lines: maximum previous lines of the context.

    Raises:
        ValueError: at once, for another target or engine, or if documents are unknown; or no
            language has an example that fits the model.
    """
    if testset.target != "eng_Latn":
        raise ValueError(
            f"contrastive examples: test set {testset.name!r} is into {testset.target}; allowed: "
            "eng_Latn"
        )
    if translator.ctranslate2 is not None:
        raise ValueError("contrastive examples need the engine jax, which has likelihoods")
    for code in testset.languages:
        check_documents(testset, code)
    found = {code: examples.find(each, lines) for code, each in testset.languages.items()}
    return _measured(translator, testset, found, system=system, lines=lines)


def _measured(
    translator: Translator,
    testset: TestSet,
    found: dict[str, list[ContrastiveExample]],
    *,
    system: System,
    lines: int,
) -> Iterator[list[ContrastiveAccuracy]]:
    any_fit = False
    with progress_bar(*SENTENCES) as bar:
        task = bar.add_task("contrastive examples", total=sum(map(len, found.values())))
        for code, of_language in found.items():
            fitting = _fitting(translator, of_language)
            right = _right(translator, fitting, code) if fitting else np.zeros((0, 3), bool)
            rows = []
            for phenomenon in PHENOMENA:
                chosen = right[[each.phenomenon == phenomenon for each in fitting]]
                total = sum(each.phenomenon == phenomenon for each in of_language)
                if len(chosen):
                    rows.append(
                        ContrastiveAccuracy(
                            system=system.name, testset=testset.name, source=code,
                            target=testset.target, checkpoint=system.checkpoint,
                            config=system.config, phenomenon=phenomenon, context_lines=lines,
                            too_long=total - len(chosen), **_counts(chosen),
                        )
                    )  # fmt: skip
            if of_language and not rows:
                excluded = f"all {len(of_language)} examples of {code} are too long for the model"
                print(f"not measured: {excluded}", file=sys.stderr)
            any_fit |= bool(rows)
            bar.advance(task, len(of_language))
            yield rows
    if not any_fit:
        raise ValueError(
            f"test set {testset.name!r} has no contrastive example that fits the model: no "
            "reference has one of he, she, it, or a name that is repeated, behind another line of "
            "its document; two documents or more are needed"
        )


def table(rows: Sequence[ContrastiveAccuracy]) -> str:
    """Returns percent of the examples whose reference is more likely, as a text table.

    A p-value is that of McNemar's exact test of the column before it against `in context`. Sums
    over several languages have none, since their references may be the same.
    """
    by_language: dict[str, list[ContrastiveAccuracy]] = {}
    for row in rows:
        by_language.setdefault(row.source, []).append(row)
    several = len(by_language) > 1
    lines: list[Sequence[str]] = [_COLUMNS]
    for code, of_language in by_language.items():
        for name, counts in summaries(of_language).items():
            if not several or name in ("pronouns", "names"):
                lines.append((code, name, *_cells(counts, tested=True)))
    if several:
        lines += (("all", name, *_cells(each)) for name, each in summaries(rows).items())
    return "\n".join(text_table.aligned(lines, left=2))


def _cells(counts: ContrastiveCounts, *, tested: bool = False) -> tuple[str, ...]:
    values = counts.in_context, counts.without_context, counts.other_context
    in_context, without, other = (f"{100 * value / counts.examples:.1f}" for value in values)
    changes = (counts.gained, counts.lost), (counts.gained_over_other, counts.lost_to_other)
    p_without, p_other = (f"{mcnemar(*each):.2g}" if tested else "" for each in changes)
    return str(counts.examples), in_context, without, p_without, other, p_other


def _fitting(
    translator: Translator, of_language: Sequence[ContrastiveExample]
) -> list[ContrastiveExample]:
    """Returns the examples that fit the model, with their context and that of another document.

    Both sides fit: the source what the model reads, all targets what a search writes.
    """
    sources = [text.joined for each in of_language for text in (each.source, each.other[0])]
    sizes = np.reshape(translator.source_tokens(sources), (-1, 2)).max(axis=1)
    targets = [[target for pairs in _scored(each) for _, target in pairs] for each in of_language]
    encode, longest = translator.vocabularies["target"].encode_all, translator.max_source_length
    return [
        each
        for each, size, texts in zip(of_language, sizes.tolist(), targets, strict=True)
        if size <= longest and max(map(len, encode(texts))) < _DECODING.longest(longest)
    ]


def _right(
    translator: Translator, fitting: Sequence[ContrastiveExample], language: str
) -> Bool[np.ndarray, "examples 3"]:
    """Returns whether the reference of each example is more likely (examples, 3), by context: its
    own, none, and another document's.
    """
    texts = [pair for each in fitting for pairs in _scored(each) for pair in pairs]
    scored = scoring.score(translator, texts, source=language, decoding=_DECODING)
    scores = iter([each.score for each in scored])
    right = []
    for each in fitting:
        of_contexts = [[next(scores) for _ in (0, *each.wrong)] for _ in range(3)]
        right.append([reference > max(wrong) for reference, *wrong in of_contexts])
    return np.array(right, bool)


def _scored(each: ContrastiveExample) -> list[list[tuple[str, str]]]:
    """Returns the pairs whose likelihoods are compared, the reference first, for each context."""
    alone = SentenceInContext(each.source.text), SentenceInContext(each.target.text)
    return [
        [(source.joined, target._replace(text=text).joined) for text in (target.text, *each.wrong)]
        for source, target in ((each.source, each.target), alone, each.other)
    ]


def _counts(right: Bool[np.ndarray, "examples 3"]) -> dict[str, int]:
    """Returns the fields of `ContrastiveCounts`."""
    in_context, without, other = right.T
    counts = {
        "in_context": in_context, "without_context": without, "other_context": other,
        "gained": in_context & ~without, "gained_over_other": in_context & ~other,
    }  # fmt: skip
    return {"examples": len(right)} | {name: int(each.sum()) for name, each in counts.items()}
