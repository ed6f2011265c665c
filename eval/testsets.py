"""Test sets: a corpus' held-out split, a folder of plain parallel files, a cache's validation data.

A test set is checked whole before anything is translated. Scores are for metrics.py.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mmt import languages
from mmt.data import corpora, vocab
from mmt.data.cache import Cache


class Sentences(NamedTuple):
    """Source sentences and their translations, line by line."""

    sources: tuple[str, ...]
    references: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class TestSet:
    """Sentences of several languages with references in one target language (FLORES codes)."""

    __test__ = False  # for pytest: not a test, whatever its name

    name: str
    target: str
    languages: Mapping[str, Sentences]

    def only(self, names: Iterable[str]) -> "TestSet":
        """The same for some languages, by any name. ValueError for one that is not in it."""
        chosen = {}
        for name in names:
            code = languages.find(name).code
            if code not in self.languages:
                near = difflib.get_close_matches(code, self.languages, n=3, cutoff=0.0)
                raise ValueError(
                    f"test set {self.name!r} has no {code} ({name!r}) among its "
                    f"{len(self.languages)} languages; nearest: {', '.join(near)}"
                )
            chosen[code] = self.languages[code]
        return dataclasses.replace(self, languages=chosen)


def load(name: str | Path, *, split: str = "test", target: str = "eng") -> TestSet:
    """A test set by the name `cldr`, a corpus description, or a folder of plain files.

    A corpus (`cldr`, a folder with `corpus.toml`, or such a file) gives its `split`; its own target
    holds. A plain folder has `<language>.src` and `<language>.ref` for every language, named by any
    name of it (`deu.src`, `de.ref`), references in `target`. Raises ValueError, with file, for
    more sources than references, an empty or undecodable line, or nothing to test on.
    """
    folder = Path(name)
    if folder.is_dir() and not (folder / "corpus.toml").exists():
        return _plain(folder, languages.find(target).code)
    corpus = corpora.load(name)
    if split not in corpora.SPLITS:
        raise ValueError(f"split is {split!r}; allowed: {', '.join(corpora.SPLITS)}")
    found = {
        code: _sentences((pair.source, pair.target) for pair in corpus.pairs(code, split))
        for code in corpus.languages
        if corpus.count(code, split)
    }
    if not found:
        raise ValueError(f"corpus {corpus.name!r} has no {split} split")
    suffix = "" if split == "test" else f"-{split}"
    return TestSet(corpus.name + suffix, corpus.target, found)


def from_cache(cache: Cache, *, split: str = "validation", limit: int = 8) -> TestSet:
    """The first `limit` sentences of every language of a tokenised cache, as text again.

    Needs no corpus: the vocabularies beside the cache give the text back without loss.
    """
    manifest = cache.manifest
    vocabularies = {
        side: vocab.Vocabulary.load(path) for side, path in cache.vocabulary_files().items()
    }
    tag = vocab.tag(manifest.target) + " "
    found = {}
    for code in manifest.languages:
        if manifest.counts.get(split, {}).get(code):
            records = cache.records(code, split)
            examples = [records[i] for i in range(min(limit, len(records)))]
            sources = [vocabularies["source"].decode(e["inputs"].tolist()) for e in examples]
            targets = [vocabularies["target"].decode(e["targets"].tolist()) for e in examples]
            found[code] = Sentences(tuple(s.removeprefix(tag) for s in sources), tuple(targets))
    return TestSet(f"{manifest.name}-{split}", manifest.target, found)


def _sentences(pairs: Iterable[tuple[str, str]]) -> Sentences:
    columns = tuple(zip(*pairs, strict=True))
    return Sentences(*columns)


def _plain(folder: Path, target: str) -> TestSet:
    sources, references = _by_language(folder, "src"), _by_language(folder, "ref")
    if not sources:
        raise ValueError(f"{folder}: no test set; expected corpus.toml, or deu.src and deu.ref")
    for code in sorted(sources.keys() ^ references.keys()):
        there, lacking = (sources, "ref") if code in sources else (references, "src")
        raise ValueError(f"{there[code]}: there is no {there[code].with_suffix('.' + lacking)}")
    found = {}
    for code in sorted(sources):
        lines = Sentences(_lines(sources[code]), _lines(references[code]))
        if len(lines.sources) != len(lines.references):
            raise ValueError(
                f"{sources[code]} has {len(lines.sources)} lines, "
                f"{references[code]} has {len(lines.references)}: they must be parallel"
            )
        found[code] = lines
    return TestSet(folder.resolve().name, target, found)


def _by_language(folder: Path, suffix: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in sorted(folder.glob(f"*.{suffix}")):
        code = languages.find(path.stem).code
        if code in files:
            raise ValueError(f"{files[code]} and {path} are both {code}; leave one")
        files[code] = path
    return files


def _lines(path: Path) -> tuple[str, ...]:
    lines = []
    for number, raw in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            lines.append(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}:{number}: no UTF-8 at byte {error.start + 1}") from error
        if not lines[-1].strip():
            raise ValueError(f"{path}:{number}: empty line")
    if not lines:
        raise ValueError(f"{path}: empty file")
    return tuple(lines)
