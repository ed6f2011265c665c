"""Output checks that BLEU does not show: copies, empty, cut off, looping or not English.

Each check is a rule on one line. The rules prefer misses to false alarms. A row has the shares.
testset_quality.py rates test sets.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eval.analyses import english
from eval.analyses.significance import key_of
from eval.analyses.train_overlap import TrainingTargets
from eval.records.analysis import OutputChecks
from eval.records.results import Row
from mmt.translate import line_checks
from mmt.translate.line_checks import normalised

_SLACK = 20  # characters; 'Yes.' for 'Yes, he is.' is acceptable


class Flags(NamedTuple):
    """The checks that one output fails. not_english, memorised: None if unknown.

    copy: equal to the source, except case and punctuation. short, long: under half or over twice as
    many characters as the reference, and a difference over 20. looping: repeats a phrase.
    memorised: equal to a line of the training target, but not to the reference.
    """

    copy: bool
    empty: bool
    short: bool
    long: bool
    looping: bool
    not_english: bool | None
    memorised: bool | None


def flags(
    source: str,
    output: str,
    reference: str,
    *,
    target: str = "eng_Latn",
    training: TrainingTargets | None = None,
) -> Flags:
    """Returns the checks that `output` fails.

    target: FLORES code. training: the target side of the training data. Properties that the
    reference shares, such as an unchanged name or `holy, holy, holy, holy`, do not count.

    >>> flags("Das ist es.", "das ist es", "That is it.").copy
    True
    >>> flags("Sven Olson", "Sven Olson", "Sven Ohlson").copy  # names alone may stay
    False
    """
    words, right = normalised(output), normalised(reference)
    wrong = words != right
    length, expected = len(output.strip()), len(reference.strip())
    return Flags(
        copy=wrong and line_checks.is_copy(source, output),
        empty=wrong and not words,
        short=bool(words) and length < expected / 2 and expected - length > _SLACK,
        long=length > expected * 2 and length - expected > _SLACK,
        looping=line_checks.loops(output, words) and not line_checks.loops(reference, right),
        not_english=wrong and english.is_other(output) if target == "eng_Latn" else None,
        memorised=None if training is None else wrong and bool(words) and output in training,
    )


def check(
    row: Row,
    lines: Sequence[tuple[str, str, str]],
    hypotheses: str,
    *,
    training: TrainingTargets | None = None,
) -> OutputChecks:
    """Returns the shares of flagged outputs of a row's texts.

    lines: source, output and reference of every sentence. hypotheses: hash of the texts.
    """
    flagged = [flags(*line, target=row.target, training=training) for line in lines]

    def share(name: str) -> Any:
        values = [getattr(output, name) for output in flagged]
        return None if None in values else round(float(np.mean(values)), 6)

    columns = {"copy": "copies", "memorised": "recited"}  # names in analysis.jsonl
    shares = {columns.get(name, name): share(name) for name in Flags._fields}
    return OutputChecks(
        **key_of(row),
        **shares,
        sentences=len(flagged),
        hypotheses=hypotheses,
    )
