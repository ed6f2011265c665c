"""The cache of one language with a vocabulary trained on it, for a bilingual model.

The text is decoded from the shared cache, so neither the corpus nor SeqIO is needed. Vocabularies
of `vocabulary.train` decode to the original text; others may have normalised it.
"""

import contextlib
import functools
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mmt.data import cache, vocabulary
from mmt.data.cache import Cache, origins
from mmt.data.vocabulary import Vocabulary

_MAX_PAIRS = 60_000  # most pairs that a vocabulary is trained on, as for a corpus

TextPair = tuple[str, str]  # a source with its tag, a target


def bilingual_cache(shared: Cache, language: str, sizes: Mapping[str, int]) -> Cache:
    """Returns the cache of one language, with vocabularies trained on its training pairs.

    It is a directory beside `shared`, and is built if it is missing or has another text.

    >>> sizes = {"source": 1000, "target": 1000}
    >>> bilingual_cache(opened, "rtk_Latn", sizes).directory.name    # doctest: +SKIP
    'bible100_to_eng-8000-rtk_Latn-1000'

    Args:
      shared: the cache of all languages.
      language: FLORES code.
      sizes: maximum pieces of 'source' and 'target'. If the shared cache has one vocabulary for
        both, the new one has too, with the pieces of 'source'. For a short text it has fewer
        pieces, with a warning.

    Raises:
      ValueError: fewer pieces than the bytes and letters need (the message has the number), or a
        language without training pairs.
    """
    manifest, joint = shared.manifest, len(set(shared.vocabulary_files().values())) == 1
    count = manifest.counts.get("train", {}).get(language)
    if not count:
        raise ValueError(f"{shared.directory} has no training pairs of {language}")
    sides = ("both",) if joint else ("source", "target")
    sizes = {"both": sizes["source"], **sizes}
    name = "-".join([shared.directory.name, language, *(str(sizes[side]) for side in sides)])
    directory = shared.directory.with_name(name)
    if _has_cache_of(directory, shared, language):
        return cache.open_cache(directory)
    pairs = list(shared.pairs(language, "train", every=-(-count // _MAX_PAIRS)))
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for side in sides:
            files[side] = Path(folder, f"{language}.{side}.model")  # warnings contain the path
            column = vocabulary.SIDES.index(side)
            texts = itertools.chain.from_iterable(pairs) if joint else [p[column] for p in pairs]
            try:
                vocabulary.train(texts, files[side], size=sizes[side], tags=_tags(shared, pairs))
            except ValueError as error:
                raise ValueError(f"{language}: {str(error).partition(': ')[2]}") from None
        files = {side: files["both" if joint else side] for side in ("source", "target")}
        examples = functools.partial(_examples, shared, language, files)
        cache.build(
            directory,
            {(split, language): functools.partial(examples, split) for split in manifest.counts},
            name=manifest.name, target=manifest.target, source=manifest.source,
            corpus_hash=manifest.corpus_hash, vocabularies=files,
            origins=manifest.only([language]).origins,
        )  # fmt: skip
    return cache.open_cache(directory)


def _has_cache_of(directory: Path, shared: Cache, language: str) -> bool:
    """Returns whether `directory` has a complete cache of the shared one's text."""
    expected = shared.manifest.only([language])
    with contextlib.suppress(ValueError):
        opened = cache.open_cache(directory)
        manifest = opened.manifest
        follows = (made.follows(language, "train") is None for made in (opened, shared))
        if len(set(follows)) > 1:
            return False  # written by an earlier version, without documents
        counts = [_positive(each.counts) for each in (manifest, expected)]
        return manifest.corpus_hash == expected.corpus_hash and counts[0] == counts[1]
    return False


def _positive(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Returns the counts that are not 0, of the splits that have some."""
    present = {
        split: {code: count for code, count in by_language.items() if count}
        for split, by_language in counts.items()
    }
    return {split: by_language for split, by_language in present.items() if by_language}


def _tags(shared: Cache, pairs: Sequence[TextPair]) -> list[str]:
    """Returns the tags in this language's sources: '<2eng>', and '<bt>' if back-translated."""
    source = Vocabulary.load(shared.vocabulary_files()["source"])
    tags = [tag for tag in (*source.tags, vocabulary.BACK_TRANSLATED) if source.has(tag)]
    return [tag for tag in tags if any(tag in text for text, _ in pairs)]


def _examples(
    shared: Cache, language: str, files: Mapping[str, Path], split: str
) -> Iterator[cache.Tokens]:
    """Yields a split's examples, with the shared cache's names of corpora, and its documents."""
    source, target = Vocabulary.load(files["source"]), Vocabulary.load(files["target"])
    runs = shared.manifest.corpora.get(split, {}).get(language, [])
    columns = origins.columns(runs, shared.follows(language, split))
    for text, translation in shared.pairs(language, split):
        yield source.encode(text), target.encode(translation), *next(columns, ())
