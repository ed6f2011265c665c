"""The embedded corpus: real phrases in 129 languages and in English, from Babel's CLDR data.

`ensure` writes it as an ordinary corpus folder if it is missing. Readers treat it like any other
corpus. This file decides languages, sizes and splits. `mmt.data.cldr.phrases` generates the
phrases, and `mmt.data.cldr.speaker` puts them into words.

Interpretation of scores: most held-out sentences are new combinations of parts that occur in
training: other numbers, dates and lists of the same names. A test set therefore measures how well a
model has learnt a language's names of months, units and territories, its number agreement and its
order of parts. It does not measure translation of free text. About one test sentence in fifty is a
single name that training shows only as part of a list. Numbers have the digits 0-9 in all
languages, as Babel writes them. If CLDR has no separate long form of a unit, its short form is used
("5 km").
"""

import functools
import hashlib
import itertools
import math
import os
import random
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import babel
from rich.console import Console

from mmt import languages
from mmt.data.cldr import phrases as cldr_phrases
from mmt.data.cldr import speaker as cldr_speaker
from mmt.data.cldr.phrases import TRAIN_WEIGHTS, WEIGHTS, Drawer, Drawn, schedule
from mmt.data.cldr.speaker import Missing, Speaker, plain
from mmt.data.pair import SPLITS
from mmt.system.data_root import data_root
from mmt.system.progress import track

LARGEST, SMALLEST = 20_000, 100  # training pairs of the first and the last language
VARIED = 300  # number of training pairs of a language that are chosen for new words
HELD_OUT = {"test": 100, "validation": 50}  # pairs of every language
DESCRIPTION = """name = "cldr"
target = "eng"
domain = "dates, numbers and names"
licence = "Unicode-3.0"
"""

# Babel's locales, roughly by the amount of text in the world, estimated from the sizes of web
# crawls and Wikipedias. Babel has every kind of phrase for all of them. Left out are variants of
# English, and second scripts and close relatives that would only repeat another's data (Haitian
# Creole, for example, falls back to French).
LOCALES = tuple(
    """
    de fr es ru zh ja it pt nl pl sv ar cs ko tr vi id fa ro hu uk el da fi nb he bg zh_Hant th sk
    hi ca hr lt sl et sr lv bn ms ta ur sq mk az ka is gl eu bs kk te mr hy be ml af sw fil gu kn ne
    pa si my uz am mn km cy eo ga so nn ha zu ky lo ps jv tk yo sd ku or as lb gd br fy oc ti yue
    sr_Latn ug ast qu mi fo pcm ak ee sah sc ia kab kok to fur szl vec lij kea kl dz hsb dsb bew
    syr chr ie frr brx ksh ff_Adlm ccp yrl kgp trw
    """.split()
)


def ensure(root: Path | None = None) -> Path:
    """Returns the corpus's folder under `root` (by default the data root); generates it if missing.

    The folder's name contains a hash of Babel's version and of the generator, so a new version
    makes a new folder. The content depends on nothing else. The corpus is built in a temporary
    folder and renamed at the end, so readers never see a part. If several processes build it at
    once, the first to finish wins. Building takes about 20 seconds.

    >>> (ensure() / "train" / "deu_Latn.tsv").read_text().splitlines()[0]  # doctest: +SKIP
    'Mittwoch, 13. Oktober 2004\\tWednesday, October 13, 2004'
    """
    root = data_root() if root is None else root
    folder = root / f"cldr-{_version()}"
    if not (folder / "corpus.toml").exists():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".cldr-", dir=root) as building:
            _write(Path(building) / "corpus")
            try:
                os.rename(Path(building) / "corpus", folder)
            except OSError:
                if not (folder / "corpus.toml").exists():  # else another process was first
                    raise
    return folder


def train_size(rank: int) -> int:
    """Returns the training pairs of LOCALES[rank]: LARGEST (rank + 1)^-a, down to SMALLEST."""
    share = math.log(rank + 1) / math.log(len(LOCALES))
    return round(LARGEST * (SMALLEST / LARGEST) ** share)


def split_of(english: str) -> str:
    """Returns the split of an English sentence in all languages: "train", "validation" or "test".

    It is chosen by a keyed hash of the lower-case words. Sentences that differ only in case, spaces
    or punctuation are in the same split.
    """
    words = " ".join(re.findall(r"\w+", plain(english).casefold()))
    digest = hashlib.blake2b(words.encode(), key=b"mmt cldr splits", digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "test" if place < 0.1 else "validation" if place < 0.16 else "train"


def _write(folder: Path) -> None:
    screen = Console(stderr=True)
    drawer = Drawer(Speaker("en_US"))
    pools = _pools(drawer)
    for split in SPLITS:
        (folder / split).mkdir(parents=True)
    codes = []
    for rank, locale in enumerate(
        track(LOCALES, "phrases from CLDR", console=screen, transient=True)
    ):
        code = languages.find(locale.replace("_", "-")).code
        try:
            student = _Student(Speaker(locale, script=code[-4:]))
            pairs = {
                split: student.held_out(pools[split], size) for split, size in HELD_OUT.items()
            }
            pairs["train"] = student.training(drawer, train_size(rank))
        except Missing as missing:
            screen.print(
                f"omitted {code}: Babel {babel.__version__} has too few data ({missing})"
            )
            continue
        codes.append(code)
        for split in SPLITS:
            lines = "".join(f"{source}\t{english}\n" for source, english in pairs[split])
            (folder / split / f"{code}.tsv").write_text(lines, encoding="utf-8", newline="\n")
    tables = [
        f"[{split}]\n" + "".join(f'{code} = "{split}/{code}.tsv"\n' for code in sorted(codes))
        for split in SPLITS
    ]
    (folder / "corpus.toml").write_text("\n".join([DESCRIPTION, *tables]))


class _Student:
    """Collects the pairs of a language: every source once in all splits, no pair with equal sides.
    """

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._sources: set[str] = set()

    def held_out(self, pool: Mapping[str, Iterable[Drawn]], size: int) -> list[tuple[str, str]]:
        """Returns the first phrases of a pool that the language has words for, mixed by WEIGHTS.

        All languages share the pool, so they get the same phrases as far as their data allow. If a
        language has too few phrases of a kind, other kinds replace them.
        """
        usable = {kind: filter(None, map(self._say, phrases)) for kind, phrases in pool.items()}
        pairs: list[tuple[str, str]] = []
        for kind in itertools.islice(schedule(WEIGHTS), 10 * size):
            for source, english in itertools.islice(usable[kind], 1):
                self._sources.add(source.casefold())
                pairs.append((source, english))
            if len(pairs) == size:
                return pairs
        raise Missing(f"{len(pairs)} of {size} held-out phrases")

    def training(self, drawer: Drawer, size: int) -> list[tuple[str, str]]:
        """Returns random phrases that are in no held-out split, with kinds mixed by TRAIN_WEIGHTS.

        Each of the first VARIED phrases is the one with the most new words of three. So even the
        smallest languages show most of their weekdays, months and common units.
        """
        rng = random.Random(f"training {self._speaker.locale}")
        pairs: list[tuple[str, str]] = []
        words: set[str] = set()
        for kind in itertools.islice(schedule(TRAIN_WEIGHTS), 10 * size):
            drawn = (drawer.draw(kind, rng) for _ in range(3))
            allowed = (phrase for phrase in drawn if split_of(phrase.english) == "train")
            sayable = filter(None, map(self._say, allowed))
            if len(pairs) < VARIED:
                pair = max(sayable, key=lambda pair: len(_words(pair[0]) - words), default=None)
            else:
                pair = next(sayable, None)
            if pair:
                self._sources.add(pair[0].casefold())
                words |= _words(pair[0])
                pairs.append(pair)
            if len(pairs) == size:
                return pairs
        raise Missing(f"{len(pairs)} of {size} training phrases")

    def _say(self, drawn: Drawn) -> tuple[str, str] | None:
        """Returns the pair; None if words are missing, the source is a duplicate or equals the
        target.
        """
        try:
            source = self._speaker.say(drawn.phrase)
        except Missing:
            return None
        key = source.casefold()
        known = key in self._sources or key == drawn.english.casefold()
        return None if known else (source, drawn.english)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", text))


def _pools(drawer: Drawer) -> dict[str, dict[str, list[Drawn]]]:
    """Returns distinct phrases by split and kind, several times as many as a test set needs."""
    pools: dict[str, dict[str, list[Drawn]]] = {
        split: {kind: [] for kind in WEIGHTS} for split in SPLITS
    }
    rng = random.Random("held-out phrases")
    seen: set[str] = set()
    for kind in itertools.islice(schedule(WEIGHTS), 20_000):
        drawn = drawer.draw(kind, rng)
        if drawn.english not in seen:
            seen.add(drawn.english)
            pools[split_of(drawn.english)][kind].append(drawn)
    return pools


@functools.cache
def _version() -> str:
    """Returns a hash of Babel's version and of the code that generates the phrases."""
    sources = [Path(module.__file__ or "") for module in (cldr_phrases, cldr_speaker)]
    digest = hashlib.blake2b(babel.__version__.encode(), digest_size=6)
    for file in (Path(__file__), *sources):
        digest.update(file.read_bytes())
    return digest.hexdigest()
