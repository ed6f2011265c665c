"""Writes mix150's corpus with phrases so that each kind of text is an entry.

    python -m benchmarks.mix150.by_kind OUT

OUT is the folder that `benchmarks.mix150.phrases` wrote. It gets `kinds150`: the pairs of
`phrases150`, where a language's training text has an entry for each kind (`everyday`, `interface`,
...) and `cldr`. So a modifier can be for some kinds only.
"""

import sys
from pathlib import Path

from rich.console import Console

from benchmarks.mix150 import corpus, phrases
from mmt.data import corpora
from mmt.system.progress import track

NAME = "kinds150"


def write(out: Path) -> Path:
    """Writes OUT/by_kind, the corpus before the check for overlap; returns its description.

    Raises ValueError if OUT has no phrases.
    """
    source, folder = out / "phrases/corpus.toml", out / "by_kind"
    if not source.is_file():
        raise ValueError(f"no {source}: python -m benchmarks.mix150.phrases {out} writes it")
    text = corpora.load(source)
    folder.mkdir(exist_ok=True)
    entries = {
        code: f"[{', '.join(_entries(text, code, folder))}]"
        for code in track(text.languages, "pairs by kind", console=Console(stderr=True))
    }
    description = corpus.described_anew(source, NAME, lambda code, entry: entries[code])
    (folder / "corpus.toml").write_text(description, encoding="utf-8")
    return folder / "corpus.toml"


def _entries(text: corpora.Corpus, code: str, folder: Path) -> list[str]:
    """Writes a file for each kind of a language's training pairs; returns their entries."""
    by_kind: dict[str, list[str]] = {}
    for pair in text.pairs(code, "train"):
        kind = pair.corpus if pair.corpus == phrases.ENTRY else corpus.kind_of(pair.id)
        by_kind.setdefault(kind, []).append(f"{pair.source}\t{pair.target}\n")
    for kind, pairs in by_kind.items():
        (folder / f"{code}.{kind}.tsv").write_text("".join(pairs), encoding="utf-8")
    return [f'{{ pairs = "{code}.{kind}.tsv", name = "{kind}" }}' for kind in by_kind]


def main(arguments: list[str]) -> None:
    """Writes the corpus to OUT/kinds150; prints its path and the overlap."""
    if len(arguments) != 1:
        raise SystemExit("python -m benchmarks.mix150.by_kind OUT")
    out = Path(arguments[0])
    try:
        print(write(out))
        print(corpus.summary(corpus.without_overlap(out, "by_kind", NAME)))
    except (ValueError, OSError) as error:
        raise SystemExit(f"benchmarks.mix150.by_kind: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
