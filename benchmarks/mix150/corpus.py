"""Writes the training corpus and the test sets of the benchmark, and checks one against the other.

    python -m benchmarks.mix150.corpus DATA OUT

DATA holds the packs `mix/`, `flores/devtest/`, `ntrex/` and `tico19/`, in the versions of
packs.sha256. OUT gets a folder with a corpus.toml for each corpus:

    packs           the 152 languages of mix with 1,000 training pairs or more, as they are
    mix150          the same without training pairs that overlap a test set; its report.txt counts
                    what was dropped. All systems train on it; its test is the pack's.
    everyday150, news150, interface150, stories150, technical150
                    the test of mix150 by the kind of its sources
    flores150       FLORES-200 devtest; ntrex150: news; tico150: health

and, for two CPU cores, which have no time for all lines of a test, `mix150few`, `everyday150few`,
... with at most 100 lines of a language (50 of a kind).

Training pairs are dropped, never test lines: so scores stay comparable with those of others. A
language is in the test of a kind if it has 25 lines of it. OUT holds text of the packs: keep it out
of the repository.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks import packs
from eval import testsets
from mmt.data import corpora
from mmt.data.cleaning import prepare, rulebook
from mmt.data.cleaning.report import Report
from mmt.system import text_lines

LEAST = 1000  # training pairs
COLUMNS = ("train", "dev", "test")  # of the manifest
SPLITS = {"train": "train", "validation": "dev", "test": "test"}
SUMS = Path(__file__).parent / "packs.sha256"
KINDS = {
    "everyday": ("tatoeba", "laser_tatoeba", "multi30k_train", "nusax"),
    "news": ("newstest", "lafand", "menyo", "hornmt", "xquad"),
    "interface": (
        "mediawiki_ext", "scratch", "mozilla_www", "wikipedia_android", "osm", "wikibase", "anki",
    ),
    "stories": ("stories", "stories_pb"),
    "technical": ("pythondocs", "gnome_help", "tldr"),
}  # fmt: skip
LINES_OF_KIND = 25  # a language with fewer is not in the kind's test
FEW, FEW_OF_KIND = 100, 50
MIX = "by source, some non-commercial"
OTHERS = {  # test sets of other packs: folder, domain, licence
    "flores150": ("flores/devtest", "Wikipedia and news", "CC BY-SA 4.0"),
    "ntrex150": ("ntrex", "news", "CC BY-SA 4.0"),
    "tico150": ("tico19", "health", "CC0"),
}
OVERLAP = rulebook.Rulebook({"": {"overlap": True}}, {"": "benchmarks.mix150.corpus"})


def describe(data: Path, out: Path, sums: Path = SUMS) -> list[Path]:
    """Writes the descriptions of what is in the packs; returns their files.

    Raises:
      ValueError: a pack is missing or of another version, a file has another number of lines than
        its manifest says, or an id names an unknown source.
    """
    packs.check_versions(data, sums)
    sizes = languages_of(data / "mix/manifest.tsv")
    _check_lines(data / "mix", sizes)
    for folder, _, _ in OTHERS.values():
        packs.check_files(packs.files_of_test(data / folder, sizes))
    every, few = dict.fromkeys(sizes, 0), {code: min(FEW, n[2]) for code, n in sizes.items()}
    mixed = [line for split, part in SPLITS.items()
             for line in packs.split(split, data, f"mix/{part}", every)]  # fmt: skip
    written = [
        packs.write(out / "packs", "mix150", ("all kinds", MIX), mixed),
        packs.write(
            out / "mix150few", "mix150few", ("all kinds", MIX),
            packs.split("test", data, "mix/test", few),
        ),
    ]  # fmt: skip
    for kind, counts in _split_by_kind(data / "mix/test", list(sizes), out).items():
        for suffix, most in (("", 0), ("few", FEW_OF_KIND)) if counts else ():
            name, lines = f"{kind}150{suffix}", _of_kind(data, out / "kinds" / kind, counts, most)
            written.append(packs.write(out / name, name, (kind, MIX), lines))
    for name, (folder, domain, licence) in OTHERS.items():
        for suffix, most in (("", 0), ("few", FEW)):
            lines = packs.split("test", data, folder, dict.fromkeys(sizes, most))
            place = out / f"{name}{suffix}"
            written.append(packs.write(place, place.name, (domain, licence), lines))
    return written


def without_overlap(out: Path, described: str = "packs", name: str = "mix150") -> Report:
    """Writes OUT/`name`, the corpus OUT/`described` without training pairs that overlap a test set.

    A side of a dropped pair is a line of a test set or validation split, or shares eight running
    words with one (the rule `overlap` of `mmt data prepare`).
    """
    tests = testsets.lines([str(out / name) for name in OTHERS], target="eng")
    corpus = corpora.load(out / described)
    return prepare.prepare(corpus, out / name, book=OVERLAP, tests=tests)


def described_anew(description: Path, name: str, entry_of: Callable[[str, str], str]) -> str:
    """Returns a description with another name and other training entries.

    entry_of: a function from the code and the entry of a language to its new entry.
    """
    lines, split = [], ""
    for line in description.read_text(encoding="utf-8").splitlines():
        split = line if line.startswith("[") else split
        key, equals, value = line.partition(" = ")
        if key == "name":
            line = f'name = "{name}"'
        elif split == "[train]" and equals:
            line = f"{key} = {entry_of(key, value)}"
        lines.append(f"{line}\n")
    return "".join(lines)


def languages_of(file: Path) -> dict[str, tuple[int, ...]]:
    """Returns code -> lines of train, dev and test, of languages with LEAST pairs or more."""
    sizes = packs.manifest(file, COLUMNS)
    return {code: counts for code, counts in sizes.items() if counts[0] >= LEAST}


def kind_of(name: str) -> str:
    """Returns the kind of the source that an id such as `tatoeba:548652` begins with."""
    source = name.partition(":")[0]
    for kind, sources in KINDS.items():
        if source in sources:
            return kind
    known = ", ".join(source for sources in KINDS.values() for source in sources)
    raise ValueError(f"unknown source {source!r}; known: {known}")


def summary(report: Report) -> str:
    """Returns what the check for overlap dropped, by test set."""
    dropped = sum(report.dropped.values())
    lines = [
        f"overlap with test sets: {dropped:,} of {report.read:,} training pairs dropped, "
        f"{report.kept:,} kept; no test line is dropped"
    ]
    lines += [f"  {count:>7,}  {reason}" for reason, count in report.dropped.items()]
    return "\n".join(lines)


def _check_lines(folder: Path, sizes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ValueError where a file is missing or differs in length from the manifest."""
    packs.check_files(packs.path(folder / part, code) for part in SPLITS.values()
                      for code in (packs.ENGLISH, *sizes))  # fmt: skip
    for code, counts in sizes.items():
        for part, expected in zip(SPLITS.values(), counts, strict=True):
            file = packs.path(folder / part, code)
            if (lines := text_lines.count(file)) != expected:
                raise ValueError(f"{file}: {lines:,} lines; the manifest says {expected:,}")


def _split_by_kind(test: Path, codes: list[str], out: Path) -> dict[str, dict[str, int]]:
    """Writes OUT/kinds/KIND/CODE.tsv with the test's lines; returns kind -> code -> lines."""
    counts: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    for code in codes:
        by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
        file = packs.path(test, code)
        for number, line in enumerate(text_lines.read(file), 1):
            try:
                by_kind[kind_of(line)].append(line)
            except ValueError as error:
                raise ValueError(f"{file}:{number}: {error}") from None
        for kind, lines in by_kind.items():
            if len(lines) >= LINES_OF_KIND:
                place = out / "kinds" / kind / f"{code}.tsv"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                counts[kind][code] = len(lines)
    return counts


def _of_kind(data: Path, folder: Path, counts: Mapping[str, int], most: int) -> Iterator[str]:
    """Yields the test split of a kind, with at most `most` lines of a language; 0: all."""
    english = packs.path(data / "mix/test", packs.ENGLISH)
    yield "[test]"
    for code, count in counts.items():
        file = folder / f"{code}.tsv"
        entry = packs.entry(file, english, f"{folder.name}/{code}", sample=min(most, count))
        yield f"{code} = {entry}"


def main(arguments: list[str]) -> None:
    """Writes the corpora of the packs in DATA to OUT; prints their paths and the overlap."""
    if len(arguments) != 2:
        raise SystemExit("python -m benchmarks.mix150.corpus DATA OUT")
    data, out = map(Path, arguments)
    try:
        for file in describe(data, out):
            print(file)
        print(summary(without_overlap(out)))
    except (ValueError, OSError) as error:
        raise SystemExit(f"benchmarks.mix150.corpus: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
