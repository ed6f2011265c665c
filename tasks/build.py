"""The cache that `mmt train` reads, made of a corpus or of SeqIO tasks, tokenised.

`ensure_cache` is what a run calls when its cache is missing; `build_cache` writes a cache of a
`tasks.mixture.Mixture`. The files of the cache, and reading them without TensorFlow, are
`mmt.data.cache`.
"""

import functools
import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import seqio

import tasks
from mmt.data import cache, corpora, mixing
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.cleaning import provenance
from mmt.data.recipe import CacheConfig
from mmt.run import Run
from mmt.system import status
from tasks import by_name, monolingual, seqio_cache
from tasks.mixture import FEATURES, Mixture, Stream, TaskSource

_EXAMPLES_EACH = 100_000  # per process: starting one takes a second


def ensure_cache(config: CacheConfig) -> Manifest:
    """Returns the manifest of the cache that `config` describes; builds the cache if it is missing.

    The mixture (or task) is made to exist first: `config.module` is imported, or `config.corpus`
    registered with the vocabulary that `config` names (`tasks.VOCABULARY_SIZE` pieces where it
    names no size). A cache that exists is compared with the corpus and its vocabulary.

    Raises:
      ValueError: before a cache is written, for an unknown module or mixture (the message names the
        nearest), a fault in the corpus (file and line), a cache made of something else.
    """
    mixture, directory = _registered(config), Path(config.directory)
    if directory.is_dir() and any(directory.iterdir()):
        present = cache.open_cache(directory)
        files = mixture.vocabulary_files()
        hashes = {side: vocab.Vocabulary.load(path).hash for side, path in files.items()}
        cache.check_fresh(present, corpus_hash=mixture.corpus_hash, vocabulary_hash=hashes)
        return present.manifest
    for corpus in mixture.corpora:
        corpus.validate()
    pad, start = _special_ids(config)
    status.begin("building the cache")
    return build_cache(
        mixture,
        directory,
        pad=pad,
        start=start,
        processes=config.processes,
        seqio_folder=config.seqio_cache,
    )


def vocabulary(
    config: CacheConfig | None = None, feature: str = "", *, wanted: CacheConfig | None = None
) -> seqio.Vocabulary:
    """Returns the vocabulary of a feature ('inputs' or 'targets') of the mixture that `config`
    describes, which is registered first, as `ensure_cache` does. For T5X's configs, of which older
    ones bind `wanted` in place of `config`.
    """
    config = config or wanted
    if feature not in FEATURES or config is None:
        raise ValueError(f"feature {feature!r}; allowed: {', '.join(FEATURES)}, of a config")
    return _registered(config).features[feature].vocabulary


def build_cache(
    mixture: Mixture,
    directory: Path,
    *,
    pad: int = vocab.PAD,
    start: int = vocab.PAD,
    processes: int = 0,
    seqio_folder: str = "",
) -> Manifest:
    """Writes the cache of a mixture's sources, all splits, and returns its manifest.

    An example is what the task's preprocessors before its CacheDatasetPlaceholder make: the tag and
    the tokens, untrimmed, without EOS.

    Args:
      mixture: as `tasks.register` or `tasks.by_name.find` return it.
      directory: where the cache will be, see `mmt.data.cache.build`.
      pad, start: ids of the model's padding and of its decoder's first input.
      processes: how many tokenise; 0 is one per core, where there is work for them.
      seqio_folder: if given, the tokens are taken from SeqIO's cache there, in its order, which
        Beam has shuffled.

    Raises:
      ValueError: a fault in the corpus; a SeqIO cache that lacks a task, or is of another corpus or
        vocabulary.
    """
    total = sum(
        source.task.num_input_examples(split) or 0
        for (split, _), several in mixture.sources.items()
        for source in several
    )
    return cache.build(
        directory,
        {
            (split, language): functools.partial(_examples, several, split, language, seqio_folder)
            for (split, language), several in mixture.sources.items()
        },
        name=mixture.name,
        target=mixture.target,
        source=mixture.source,
        corpus_hash=mixture.corpus_hash,
        vocabularies=mixture.vocabulary_files(),
        pad=pad,
        start=start,
        origins=provenance.origins(mixture.corpora),
        processes=processes or min(len(os.sched_getaffinity(0)), 1 + total // _EXAMPLES_EACH),
    )


def _registered(config: CacheConfig) -> Mixture:
    """The mixture that `config` names, which is registered first where it is not."""
    if (config.vocab_size or config.vocabulary_from) and not config.corpus:
        raise ValueError(
            f"vocab_size is {config.vocab_size}, but only a vocabulary that is trained for a "
            "`corpus` can have a chosen size; the tasks of module "
            f"{config.module!r} bring their own: leave it 0"
        )
    if config.module:
        _import(config.module)
    if not config.corpus:
        return by_name.find(config.mixture)
    corpus = corpora.load(config.corpus)
    if config.mixture == tasks.mixture_name(corpus.reversed()):
        corpus = corpus.reversed()
    vocabularies: tasks.Vocabularies = config.vocab_size or tasks.VOCABULARY_SIZE
    if config.vocabulary_from:
        vocabularies = Run(config.vocabulary_from).vocabularies()
    elif config.target_vocab_size:
        vocabularies = (config.vocab_size or tasks.VOCABULARY_SIZE, config.target_vocab_size)
    if config.mixture in monolingual.mixture_names(corpus):
        mixtures = monolingual.register(corpus, vocabularies=vocabularies)
        return mixtures.get(config.mixture) or by_name.find(config.mixture)
    mixture = tasks.register(corpus, vocabularies=vocabularies)
    return mixture if mixture.name == config.mixture else by_name.find(config.mixture)


def _special_ids(config: CacheConfig) -> tuple[int, int]:
    """pad and start of the model whose vocabulary is taken over; else the cache's own defaults."""
    manifest = Run(config.vocabulary_from).manifest
    if not config.vocabulary_from or not manifest.is_file():
        return vocab.PAD, vocab.PAD
    model = read_manifest(manifest)
    return model.pad, model.start


def _examples(
    sources: Sequence[TaskSource], split: str, language: str, seqio_folder: str
) -> Iterator[cache.Tokens | cache.Piece]:
    for source in sources:
        yield from _from(seqio_folder, source, split, language)


def _from(seqio_folder: str, source: TaskSource, split: str, language: str) -> Stream:
    if not seqio_folder:
        return source.examples(split)
    if mixing.is_monolingual(language):
        raise ValueError(
            f"{source.task.name!r}: monolingual text is not taken from a SeqIO cache, which holds "
            "it with its noise spans; without recipe.CacheConfig.seqio_cache it is tokenised here"
        )
    return seqio_cache.examples(seqio_folder, source, split)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ValueError(f"no Python module {module!r} to import for its tasks") from error
        raise
