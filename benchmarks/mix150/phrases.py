"""Writes mix150's corpus with short phrases of CLDR beside it: names, dates, quantities.

    python -m benchmarks.mix150.phrases OUT

OUT is the folder that `benchmarks.mix150.corpus` wrote. It gets `phrases150`: the same pairs, and
for each language of CLDR an entry `cldr` with all weekdays and months, other names, and random
phrases. The text of the study has almost no single words, so its models take one for a line of
interface text (behave.md). Pairs that overlap a test set are dropped, as in mix150.

The phrases are an excerpt of CLDR (Unicode-3.0).
"""

import itertools
import random
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.mix150 import corpus
from mmt.data import cldr, corpora
from mmt.data.cldr.phrases import WEIGHTS, Drawer, schedule
from mmt.data.cldr.speaker import Missing, Phrase, Speaker
from mmt.system.progress import track

NAME = "phrases150"
ENTRY = "cldr"
SHARE = 0.15  # phrases of a language, as a share of its training pairs
LEAST, MOST = 600, 6000
NAMES = 0.5  # of a language's phrases
_DRAWS = 6  # tries per phrase: CLDR does not have every phrase in every language
_CALENDAR = [Phrase("weekday", (day,)) for day in range(7)]
_CALENDAR += [Phrase("month", (month,)) for month in range(1, 13)]


def wanted(pairs: int) -> int:
    """Returns the number of phrases of a language with this many training pairs.

    >>> wanted(1_000), wanted(10_000), wanted(60_000)
    (600, 1500, 6000)
    """
    return min(max(LEAST, round(SHARE * pairs)), MOST)


def phrases(code: str, count: int) -> list[tuple[str, str]]:
    """Returns at most `count` distinct phrases of a language with their English; [] without CLDR.

    >>> phrases("deu_Latn", 600)[:2], phrases("cbk_Latn", 600)
    ([('Montag', 'Monday'), ('Dienstag', 'Tuesday')], [])
    """
    speaker, english = cldr.speaker_of(code), Speaker("en_US")
    if speaker is None:
        return []
    drawer, rng = Drawer(english), random.Random(f"phrases {code}")
    others = itertools.islice(schedule(WEIGHTS), _DRAWS * count)
    drawn = (
        (count, _CALENDAR),
        (round(NAMES * count), (drawer.draw("name", rng).phrase for _ in range(_DRAWS * count))),
        (count, (drawer.draw(kind, rng).phrase for kind in others)),
    )
    found: dict[str, str] = {}
    for most, some in drawn:
        for phrase in some:
            if len(found) >= most:
                break
            try:
                found.setdefault(speaker.say(phrase), english.say(phrase))
            except Missing:
                continue
    return list(found.items())


def write(out: Path) -> Path:
    """Writes OUT/phrases, the corpus before the check for overlap; returns its description.

    Raises ValueError if OUT has no packs.
    """
    source, folder = out / "packs/corpus.toml", out / "phrases"
    if not source.is_file():
        raise ValueError(f"no {source}: python -m benchmarks.mix150.corpus DATA {out} writes it")
    packs = corpora.load(source)
    folder.mkdir(exist_ok=True)
    added = {}
    for code in track(packs.languages, "phrases from CLDR", console=Console(stderr=True)):
        pairs = phrases(code, wanted(packs.count(code, "train")))
        if pairs:
            text = "".join(f"{own}\t{english}\n" for own, english in pairs)
            (folder / f"{code}.tsv").write_text(text, encoding="utf-8")
            added[code] = f'{{ pairs = "{code}.tsv", name = "{ENTRY}" }}'

    def with_phrases(code: str, entry: str) -> str:
        return f"[{entry}, {added[code]}]" if code in added else entry

    description = corpus.described_anew(source, NAME, with_phrases)
    (folder / "corpus.toml").write_text(description, encoding="utf-8")
    return folder / "corpus.toml"


def main(arguments: list[str]) -> None:
    """Writes the corpus to OUT/phrases150; prints its path and the overlap."""
    if len(arguments) != 1:
        raise SystemExit("python -m benchmarks.mix150.phrases OUT")
    out = Path(arguments[0])
    try:
        print(write(out))
        print(corpus.summary(corpus.without_overlap(out, "phrases", NAME)))
    except (ValueError, OSError) as error:
        raise SystemExit(f"benchmarks.mix150.phrases: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
