"""Holds out validation and test pairs of a corpus: `mmt data split CORPUS`.

A hash of a pair's target decides whether it is held out. So all languages of a multi-way corpus
hold out the same lines, and the rule `overlap` removes these lines from [train] in every language.
"""

import hashlib
import heapq
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mmt.data.cleaning.rules import UNSPACED, normalised
from mmt.data.corpora import EMBEDDED, Corpus, check_place, load
from mmt.data.pair import SPLITS, Pair
from mmt.system.atomic import write_bytes
from mmt.system.processes import workers
from mmt.system.toml_place import located

FOLDER = "held_out"  # beside the description
PAIRS = 500  # default number of pairs of a split
MOST = 0.1  # of the pairs of a language, in each split
_NOTE = "# Made by `mmt data split`. The rule `overlap` removes these lines from [train]."

Sizes = Mapping[str, int]  # split -> maximum number of pairs of a language


def hold_out(path: str | Path, sizes: Sizes, *, processes: int = 1) -> dict[str, dict[str, int]]:
    """Adds splits to the description of a corpus; returns the pairs: split -> language -> number.

    The pairs stand in `held_out/SPLIT/LANGUAGE.tsv` beside the description. [train] keeps its
    files; `[clean]`, which the description gets if it has none, removes what is held out. The
    result does not depend on the number of processes.

    Args:
      path: a description, or its folder.
      sizes: 'validation', 'test' -> pairs of each language, at most a tenth of its pairs.

    Raises:
      ValueError: the corpus or its folder has such a split, its [clean] has no rule `overlap`, it
        has too few pairs, or an entry of [train] would read the new files. Then nothing is changed.
      OSError: a file cannot be written.
    """
    if path == EMBEDDED:
        raise ValueError(f"the embedded corpus {path} has validation and test pairs already")
    file = check_place(path)
    corpus, text = load(path), file.read_bytes().decode()
    _check(corpus, file, text, sizes)
    languages = sorted(corpus.files["train"])
    taken = frozenset(
        _hash(pair.target, corpus.target)
        for split in SPLITS[1:]
        for code in corpus.files[split]
        for pair in corpus.pairs(code, split)
    )
    with workers((corpus, sizes, taken), processes) as run:
        chosen = run("reading", _select, languages, len(languages))
    splits = {
        split: {code: of[split] for code, of in zip(languages, chosen, strict=True) if of[split]}
        for split in sizes
    }
    for split, by_language in splits.items():
        if not by_language:
            fewest = round(1 / MOST)
            raise ValueError(f"{file}: no language has {fewest} pairs, so {split} would be empty")
    folder = file.parent / FOLDER
    try:
        for split, by_language in splits.items():
            for code, lines in by_language.items():
                write_bytes(folder / split / f"{code}.tsv", "".join(lines).encode())
        _check_unread(load(file), corpus, folder)
        write_bytes(file, _described(text, splits, clean=corpus.clean is None).encode())
    except (ValueError, OSError):
        for split in splits:
            shutil.rmtree(folder / split, ignore_errors=True)
        raise
    return {
        split: {code: len(lines) for code, lines in by_language.items()}
        for split, by_language in splits.items()
    }


def _check(corpus: Corpus, file: Path, text: str, sizes: Sizes) -> None:
    if not corpus.files["train"]:
        raise ValueError(f"{file}: it has no [train]")
    for split, size in sizes.items():
        if size < 1:
            raise ValueError(f"{split} is {size}; allowed: 1 or more pairs")
        if split in tomllib.loads(text):  # TOML allows a table once
            remedy = "" if corpus.files[split] else ", without languages; remove the table"
            raise ValueError(
                f"{located(text, file, split)}: the corpus has [{split}] already{remedy}"
            )
        if (folder := file.parent / FOLDER / split).exists():
            raise ValueError(f"{folder} exists; remove it, unless another description names it")
    if corpus.clean is None:
        return
    for code in corpus.files["train"]:
        for name in corpus.entries(code, "train"):
            if "overlap" not in corpus.clean.settings(code, name):
                raise ValueError(
                    f"{located(text, file, 'clean')}: the rule `overlap` is off for {code} {name}; "
                    "it removes from [train] what is held out"
                )


def _check_unread(new: Corpus, corpus: Corpus, folder: Path) -> None:
    for code, entries in new.files["train"].items():
        if entries != corpus.files["train"][code]:
            raise ValueError(
                f"{new.root}: a folder or pattern of [train] for {code} reads the new files in "
                f"{folder}; name its files more narrowly"
            )


def _select(
    shared: tuple[Corpus, Sizes, frozenset[int]], code: str, advance: Callable[[int], None]
) -> dict[str, list[str]]:
    """Returns the lines of each split of a language: those with the least hashes.

    shared: corpus, sizes, and the hashes of the lines of its other splits.
    """
    corpus, sizes, taken = shared
    least = {split: _Least(size) for split, size in sizes.items()}
    read = 0
    for pair in corpus.pairs(code, "train"):
        read += 1
        if pair.back_translated or not _is_row(pair) or not normalised(pair.target):
            continue  # without words, the rule `overlap` does not find it
        if (value := _hash(pair.target, corpus.target)) not in taken:
            rank, split = _place(value, sizes)
            least[split].add(rank, pair)
    advance(1)
    return {split: least[split].lines(int(MOST * read)) for split in sizes}


def _is_row(pair: Pair) -> bool:
    """Returns whether a pair can stand in a TSV file."""
    return not any(c in side for side in (pair.source, pair.target) for c in "\t\n\r")


def _hash(target: str, code: str) -> int:
    """Returns 64 bits; equal for lines that are equal for the rule `overlap`."""
    space = "" if code[-4:] in UNSPACED else " "
    digest = hashlib.blake2b(space.join(normalised(target)).encode(), digest_size=8)
    return int.from_bytes(digest.digest())


def _place(value: int, sizes: Sizes) -> tuple[int, str]:
    """Returns the rank of a hash, and its split: the same in all languages."""
    rank, remainder = divmod(value, sum(sizes.values()))
    for split, size in sizes.items():
        if remainder < size:
            return rank, split
        remainder -= size
    raise AssertionError


class _Least:
    """The pairs of the least ranks, one for each rank."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[int] = []  # negative ranks
        self._lines: dict[int, str] = {}

    def add(self, rank: int, pair: Pair) -> None:
        if rank in self._lines or (len(self._heap) == self._size and rank > -self._heap[0]):
            return
        self._lines[rank] = f"{pair.source}\t{pair.target}\n"
        heapq.heappush(self._heap, -rank)
        if len(self._heap) > self._size:
            del self._lines[-heapq.heappop(self._heap)]

    def lines(self, most: int) -> list[str]:
        return [self._lines[rank] for rank in sorted(self._lines)[:most]]


def _described(text: str, splits: Mapping[str, Iterable[str]], *, clean: bool) -> str:
    """Returns the description with the tables of new splits at its end."""
    rows = [text.rstrip(), "", _NOTE]
    for split, codes in splits.items():
        rows.append(f"[{split}]")
        rows += [f'{code} = "{FOLDER}/{split}/{code}.tsv"' for code in codes]
    if clean:
        rows += ["[clean]", "overlap = true"]
    return "\n".join(rows) + "\n"
