"""`mmt score`: the scores of given translations, and their word alignments.

Imports are lazy. Results go to stdout, messages to stderr.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mmt.cli.data_commands import as_json
from mmt.cli.translate_commands import translator_of

if TYPE_CHECKING:
    from mmt.translate import Hypothesis


def score(args: argparse.Namespace) -> None:
    """Runs `mmt score`: prints the score of each pair of stdin, `line<TAB>translation`."""
    from mmt import config
    from mmt.translate import AUTO, Translator, arriving_lines, scoring, sentences

    if args.source == AUTO:
        raise ValueError("--from auto: scores need no detected language; name it, or omit --from")
    translator, decoding = translator_of(args)
    if (engine := config.bound(Translator.load, "engine")) not in (None, args.engine):
        raise ValueError(f"Translator.load.engine = {engine!r}: scores need the engine jax")
    if sys.stdin is None:
        raise ValueError("there is no standard input to score")
    stdin: Any = sys.stdin.buffer
    languages = {"source": args.source, "target": args.target}
    number, too_long = 0, list[int]()
    for lines in sentences.windows(arriving_lines(stdin)):
        pairs = [_pair(line, i) for i, line in enumerate(lines, number + 1)]
        scored = scoring.score(translator, pairs, decoding=decoding, **languages)
        too_long += [i for i, each in enumerate(scored, number + 1) if not each.tokens]
        number += len(lines)
        links: list[list[tuple[int, int]]] = [[]] * len(pairs)
        if args.alignment:
            links = scoring.word_links(translator, pairs, scored, **languages)
        for pair, hypothesis, of_pair in zip(pairs, scored, links, strict=True):
            print(_scored_row(args, pair, hypothesis, of_pair), flush=True)
    if too_long:
        print(
            f"{len(too_long)} of {number} pairs are too long for the model, and have the score "
            f"nan; the first is line {too_long[0]}", file=sys.stderr,
        )  # fmt: skip


def _pair(line: str, number: int) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        raise ValueError(
            f"stdin, line {number}: {len(columns)} columns; expected 2, source<TAB>translation"
        )
    return columns[0], columns[1]


def _scored_row(
    args: argparse.Namespace,
    pair: tuple[str, str],
    hypothesis: "Hypothesis",
    links: Sequence[tuple[int, int]],
) -> str:
    """Returns the output of a pair: its score, and the alignment if it is wanted."""
    from mmt.translate import Translation, to_json

    if args.format == "text":
        row = f"{hypothesis.score:.6f}"
        return f"{row}\t{' '.join(f'{s}-{t}' for s, t in links)}" if args.alignment else row
    (scored,) = to_json(Translation(pair[0], (hypothesis,)))["hypotheses"]
    scored["score"] = scored["score"] if hypothesis.tokens else None
    return as_json({"source": pair[0]} | scored | ({"alignment": links} if args.alignment else {}))
