"""A language of a cache in a vocabulary of its own, for a bilingual model that shares nothing.

The text is read back from the cache, so neither the corpus nor SeqIO is needed. What `vocab.train`
made gives every text back as it was; of a vocabulary from elsewhere it is what that keeps of it.
"""

import contextlib
import functools
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mmt.data import cache, vocabulary
from mmt.data.cache import Cache
from mmt.data.vocabulary import Vocabulary

_MOST = 60_000  # pairs that a vocabulary is trained on, as of a corpus

Pair = tuple[str, str]  # a source with its tag, a target


def own_vocabulary(shared: Cache, language: str, sizes: Mapping[str, int]) -> Cache:
    """The cache of `language` alone, its vocabularies trained on its own training pairs. It lies
    beside the `shared` one, and is made where it is not there or is of another text.

    sizes: pieces, at most, of 'source' and 'target'; both are in one vocabulary of 'source' pieces
    where the shared cache has one. A short text has fewer, with a warning. ValueError for too few
    for the bytes and letters (it names enough), and for a language without training pairs.

    >>> sizes = {"source": 1000, "target": 1000}
    >>> own_vocabulary(opened, "rtk_Latn", sizes).directory.name    # doctest: +SKIP
    'bible100_to_eng-8000-rtk_Latn-1000'
    """
    manifest, joint = shared.manifest, len(set(shared.vocabulary_files().values())) == 1
    count = manifest.counts.get("train", {}).get(language)
    if not count:
        raise ValueError(f"{shared.directory} has no training pairs of {language}")
    sides = ("both",) if joint else ("source", "target")
    sizes = {"both": sizes["source"], **sizes}
    name = "-".join([shared.directory.name, language, *(str(sizes[side]) for side in sides)])
    directory = shared.directory.with_name(name)
    if _is_of(directory, shared, language):
        return cache.open_cache(directory)
    pairs = list(_pairs(shared, language, "train", every=-(-count // _MOST)))
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for side in sides:
            files[side] = Path(folder, f"{language}.{side}.model")  # in what is warned of
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
        )  # fmt: skip
    return cache.open_cache(directory)


def _is_of(directory: Path, shared: Cache, language: str) -> bool:
    """Whether a whole cache of the shared one's text is there."""
    whole = shared.manifest.only([language])
    with contextlib.suppress(ValueError):
        own = cache.open_cache(directory).manifest
        return (own.corpus_hash, own.counts) == (whole.corpus_hash, whole.counts)
    return False


def _pairs(shared: Cache, language: str, split: str, every: int = 1) -> Iterator[Pair]:
    """One of `every` so many pairs."""
    files = shared.vocabulary_files()
    source, target = Vocabulary.load(files["source"]), Vocabulary.load(files["target"])
    records = shared.records(language, split)
    for i in range(0, len(records), every):
        record = records[i]
        ids = record["inputs"].tolist(), record["targets"].tolist()
        yield source.decode(ids[0]), target.decode(ids[1])


def _tags(shared: Cache, pairs: Sequence[Pair]) -> list[str]:
    """The marks that stand in this language's sources: '<2eng>', '<bt>' where a model made some."""
    source = Vocabulary.load(shared.vocabulary_files()["source"])
    marks = [mark for mark in (*source.tags, vocabulary.BACK_TRANSLATED) if source.has(mark)]
    return [mark for mark in marks if any(mark in text for text, _ in pairs)]


def _examples(
    shared: Cache, language: str, files: Mapping[str, Path], split: str
) -> Iterator[cache.Tokens]:
    """A split's examples, each with the name of its corpus where the shared cache tells."""
    source, target = Vocabulary.load(files["source"]), Vocabulary.load(files["target"])
    runs = shared.manifest.corpora.get(split, {}).get(language, [])
    names = itertools.chain.from_iterable(itertools.repeat((name,), n) for name, n in runs)
    for text, translation in _pairs(shared, language, split):
        yield source.encode(text), target.encode(translation), *next(names, ())
