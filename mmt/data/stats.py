"""Statistics of a corpus per language: `mmt data stats`."""

from array import array
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mmt import languages
from mmt.data import mixing
from mmt.data.corpora import Corpus
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import SPLITS, Pair


def stats(corpus: Corpus, temperature: float = 5.0) -> list[dict[str, str | int | float]]:
    """Returns a row per language; reads the whole corpus, and so validates it.

    A row has `language`, `name`, and the number of pairs in `train`, `validation` and `test`. For
    the training pairs it has `source_words` and `target_words` (split at white space),
    `source_characters` and `target_characters` (code points), and `length_ratio`, the median of
    target / source characters. `share` is the language's mixing rate at this temperature.
    """
    if not corpus.languages:
        raise ValueError(f"corpus {corpus.name} has no [train] pairs to count")
    rows: list[dict[str, str | int | float]] = []
    counts: dict[str, int] = {}
    for code in corpus.languages:
        counts[code], sizes = _sizes(corpus.pairs(code, "train"))
        row: dict[str, str | int | float] = {"language": code, "name": languages.find(code).name}
        row["train"] = counts[code]
        for split in SPLITS[1:]:
            has_split = corpus.count(code, split)
            row[split] = sum(1 for _ in corpus.pairs(code, split)) if has_split else 0
        rows.append(row | sizes)
    rates = mixing.mixing_rates(counts, temperature)
    return [row | {"share": rates[str(row["language"])]} for row in rows]


def describe_entries(corpus: Corpus) -> Iterator[str]:
    """Yields lines about entries and monolingual text.

    'train deu_Latn: web/a.tsv.gz, web/b.tsv.gz' lists the entries of a language with several.
    'monolingual eng_Latn: 120,000 lines' has the size of a text.
    """
    for split in SPLITS:
        for code in corpus.languages:
            names = corpus.entries(code, split)
            if len(names) > 1:
                ellipsis = f", … ({len(names)} in total)" if len(names) > 8 else ""
                yield f"{split} {code}: {', '.join(names[:8])}{ellipsis}"
    for code in corpus.monolingual:
        yield f"monolingual {code}: {corpus.count(code, MONOLINGUAL):,} lines"


def table(rows: Iterable[Mapping[str, str | int | float]]) -> str:
    """Returns the rows of `stats` as text: the largest language first, a total at the end."""
    ordered = sorted(rows, key=lambda row: (-int(row["train"]), row["language"]))
    counted = [key for key, value in ordered[0].items() if isinstance(value, int)]
    totals = {key: sum(int(row[key]) for row in ordered) for key in counted}
    total_row = dict.fromkeys(ordered[0], "") | totals | {"language": "all", "name": len(ordered)}
    cells = [[_cell(key, value) for key, value in row.items()] for row in [*ordered, total_row]]
    cells.insert(0, [key.replace("_", " ").replace("character", "char") for key in ordered[0]])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    align = [str.ljust, str.ljust, *[str.rjust] * (len(widths) - 2)]
    return "\n".join(
        "  ".join(pad(cell, width) for pad, cell, width in zip(align, line, widths, strict=True))
        for line in cells
    )


def _sizes(pairs: Iterable[Pair]) -> tuple[int, dict[str, str | int | float]]:
    """Returns the number of pairs, and the length columns of `stats`."""
    words, characters, ratios = [0, 0], [0, 0], array("f")  # 4 bytes a pair, for the median
    for pair in pairs:
        words = [words[0] + len(pair.source.split()), words[1] + len(pair.target.split())]
        characters = [characters[0] + len(pair.source), characters[1] + len(pair.target)]
        ratios.append(len(pair.target) / len(pair.source))
    return len(ratios), {
        "source_words": words[0],
        "target_words": words[1],
        "source_characters": characters[0],
        "target_characters": characters[1],
        "length_ratio": float(np.median(np.frombuffer(ratios, np.float32))),
    }


def _cell(key: str, value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.2%}" if key == "share" else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else value
