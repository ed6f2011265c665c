"""Trains the language identifier of a run on the lines of a corpus, or of a cache."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from mmt.data import corpora
from mmt.data.cache import Cache
from mmt.data.cache.manifest import read_manifest
from mmt.data.corpora import Corpus
from mmt.data.pair import Pair
from mmt.data.vocabulary import BACK_TRANSLATED
from mmt.identify.identifier import LanguageIdentifier
from mmt.identify.training import IdentifierConfig, train
from mmt.run import Run

T = TypeVar("T")

_TAG = re.compile(r"^<2[A-Za-z][\w-]*> ?")  # before the sources of a cache

_HELD_OUT_LINES = 100  # of a language
_HELD_OUT_SHARE = 10  # one line of ten, for a corpus without a validation split


def add_to_run(
    run: Run,
    corpus: str,
    *,
    cache: Cache | None = None,
    config: IdentifierConfig = IdentifierConfig(),  # noqa: B008  (frozen)
) -> str:
    """Writes the identifier of a described run, unless it has one of its text or its languages.

    corpus: the run's corpus as `corpora.load` takes it; '' if it is not known.
    cache: the run's cache, whose text is used if there is no corpus.

    Returns the reason why the run gets none, else ''.
    """
    if not config.lines_per_language:
        return "IdentifierConfig.lines_per_language is 0"
    manifest = read_manifest(run.manifest)
    if run.identifier.is_file():
        existing = LanguageIdentifier.load(run.directory)
        is_of_same_text = existing.corpus_hash == manifest.corpus_hash
        if is_of_same_text or set(manifest.translated) <= set(existing.codes):
            return ""
    try:
        if corpus:
            identifier = train_on_corpus(
                corpora.load(corpus), config=config, corpus_hash=manifest.corpus_hash
            )
        elif cache:
            identifier = train_on_cache(cache, config=config)
        else:
            return "there is no CORPUS to train it on"
        identifier.save(run.directory)
    except ValueError as error:  # a run from a cache needs no corpus
        return str(error)
    return ""


def train_on_corpus(
    corpus: Corpus,
    *,
    config: IdentifierConfig = IdentifierConfig(),  # noqa: B008  (frozen)
    corpus_hash: str = "",
) -> LanguageIdentifier:
    """Returns an identifier of the languages of a corpus and of its target.

    It is trained on training pairs, calibrated on the validation split, and made from human text
    only: back-translated sources are omitted. corpus_hash: by default computed from the files.

    Raises ValueError for a fault in the corpus, or for fewer than two languages with text.
    """
    lines = _lines(corpus, "train", config.lines_per_language, config.max_read)
    held_out = _lines(corpus, "validation", _HELD_OUT_LINES, config.max_read)
    return _trained(lines, held_out, config, corpus_hash or corpus.hash())


def train_on_cache(
    cache: Cache,
    *,
    config: IdentifierConfig = IdentifierConfig(),  # noqa: B008  (frozen)
) -> LanguageIdentifier:
    """Returns an identifier of the languages of a cache and of its target, as `train_on_corpus`.

    Raises ValueError for fewer than two languages with text.
    """
    lines = _lines_of_cache(cache, "train", config.lines_per_language, config.max_read)
    held_out = _lines_of_cache(cache, "validation", _HELD_OUT_LINES, config.max_read)
    return _trained(lines, held_out, config, cache.manifest.corpus_hash)


def _trained(
    lines: dict[str, list[str]],
    held_out: dict[str, list[str]],
    config: IdentifierConfig,
    corpus_hash: str,
) -> LanguageIdentifier:
    """Trains on `lines`; a language without held-out lines has a part of its lines held out."""
    for code, of_language in lines.items():
        if not held_out.get(code):
            held_out[code] = of_language[::_HELD_OUT_SHARE][:_HELD_OUT_LINES]
            chosen = set(held_out[code])
            lines[code] = [line for line in of_language if line not in chosen] or of_language
    return train(lines, held_out, config=config, corpus_hash=corpus_hash)


def _lines(corpus: Corpus, split: str, limit: int, max_read: int) -> dict[str, list[str]]:
    """Returns up to `limit` distinct lines of each language of a split, the target included."""
    lines: dict[str, list[str]] = {}
    targets: dict[str, None] = {}
    for code in corpus.files.get(split, {}):
        pairs = [pair for pair in _pairs(corpus, code, split, max_read) if not pair.back_translated]
        lines[code] = _spread(list(dict.fromkeys(pair.source for pair in pairs)), limit)
        targets.update(dict.fromkeys(pair.target for pair in _spread(pairs, limit)))
    lines[corpus.target] = _spread(list(targets), limit)
    return lines


def _lines_of_cache(cache: Cache, split: str, limit: int, max_read: int) -> dict[str, list[str]]:
    """Returns lines as `_lines` does, from a cache; of a mixture from one language, swapped."""
    manifest = cache.manifest
    lines: dict[str, list[str]] = {}
    targets: dict[str, None] = {}
    for code in manifest.translated:
        count = manifest.counts.get(split, {}).get(code, 0)
        every = -(-count // max_read)
        pairs = [
            (target, text) if manifest.source else (text, target)
            for source, target in (cache.pairs(code, split, every=every) if count else ())
            if not (text := _TAG.sub("", source)).startswith(BACK_TRANSLATED)
        ]
        lines[code] = _spread(list(dict.fromkeys(source for source, _ in pairs)), limit)
        targets.update(dict.fromkeys(target for _, target in _spread(pairs, limit)))
    if shared := manifest.target or manifest.source:
        lines[shared] = _spread(list(targets), limit)
    return lines


def _pairs(corpus: Corpus, code: str, split: str, max_read: int) -> Iterator[Pair]:
    """Yields the first pairs of each entry of a language, up to `max_read` in all."""
    entries = len(corpus.files[split][code])
    for index in range(entries):
        part = corpus.part(index, entries)
        yield from itertools.islice(part.pairs(code, split), -(-max_read // entries))


def _spread(items: Sequence[T], limit: int) -> list[T]:
    """Returns up to `limit` of the items, evenly spaced."""
    if len(items) <= limit:
        return list(items)
    return [items[index * len(items) // limit] for index in range(limit)]
