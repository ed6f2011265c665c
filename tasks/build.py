"""Builds the tokenised cache that `mmt train` reads, from a corpus or from SeqIO tasks.

A run calls `ensure_cache` if its cache is missing; `build_cache` writes the cache of a
`tasks.mixture.Mixture`. `mmt.data.cache` defines the files, and reads them without TensorFlow.
"""

import functools
import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import seqio

import tasks
from mmt.data import cache, corpora, mixing, recipe
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.cleaning import provenance
from mmt.data.recipe import CacheConfig
from mmt.run import Run
from mmt.system import status
from tasks import by_name, monolingual, seqio_cache
from tasks.mixture import FEATURES, Mixture, Stream, TaskSource

_EXAMPLES_PER_PROCESS = 100_000  # fewer are not worth a process, whose start takes a second


def ensure_cache(config: CacheConfig) -> Manifest:
    """Returns the manifest of the cache that `config` describes; builds the cache if it is missing.

    First the mixture (or task) is registered: `config.module` is imported, or `config.corpus` is
    registered with the vocabulary of `config` (by default `tasks.VOCABULARY_SIZE` pieces). An
    existing cache is compared with the corpus and its vocabulary.

    Raises:
      ValueError: an unknown module or mixture (the message has the nearest), a fault in the corpus
        (file and line), or an existing cache of another text or vocabulary.
    """
    mixture, directory = _register_mixture(config), Path(config.directory)
    if directory.is_dir() and any(directory.iterdir()):
        existing = cache.open_cache(directory)
        files = mixture.vocabulary_files()
        hashes = {side: vocab.Vocabulary.load(path).hash for side, path in files.items()}
        cache.check_fresh(existing, corpus_hash=mixture.corpus_hash, vocabulary_hash=hashes)
        return existing.manifest
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
    """Returns the vocabulary of a feature, 'inputs' or 'targets', for T5X's configs.

    The mixture that `config` describes is registered first, as in `ensure_cache`. Older configs
    bind `wanted` in place of `config`.
    """
    config = config or wanted
    if feature not in FEATURES or config is None:
        raise ValueError(
            f"feature is {feature!r}, config {config!r}; allowed: {' or '.join(FEATURES)}, of a "
            "recipe.CacheConfig"
        )
    return _register_mixture(config).features[feature].vocabulary


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

    The examples are the output of the task's preprocessors before its CacheDatasetPlaceholder: the
    tag and the tokens, untrimmed, without EOS.

    Args:
      mixture: as `tasks.register` or `tasks.by_name.find` return it.
      directory: the cache's directory, see `mmt.data.cache.build`.
      pad, start: ids of the model's padding and of its decoder's first input.
      processes: the number of processes that tokenise; 0: one per core, as far as there is work.
      seqio_folder: SeqIO's cache, whose tokens are used, in its order (shuffled by Beam); '': none.

    Raises:
      ValueError: a fault in the corpus; a SeqIO cache that lacks a task, or is of another corpus or
        vocabulary.
    """
    examples = sum(
        source.task.num_input_examples(split) or 0
        for (split, _), task_sources in mixture.sources.items()
        for source in task_sources
    )
    cores = len(os.sched_getaffinity(0))
    return cache.build(
        directory,
        {
            (split, language): functools.partial(
                _examples, task_sources, split, language, seqio_folder
            )
            for (split, language), task_sources in mixture.sources.items()
        },
        name=mixture.name,
        target=mixture.target,
        source=mixture.source,
        corpus_hash=mixture.corpus_hash,
        vocabularies=mixture.vocabulary_files(),
        pad=pad,
        start=start,
        origins=provenance.origins(mixture.corpora),
        processes=processes or min(cores, 1 + examples // _EXAMPLES_PER_PROCESS),
    )


def _register_mixture(config: CacheConfig) -> Mixture:
    """Returns the mixture that `config` names, and registers it if it is not registered."""
    if (config.vocab_size or config.vocabulary_from) and not config.corpus:
        raise ValueError(
            f"vocab_size is {config.vocab_size}, vocabulary_from {config.vocabulary_from!r}, but "
            f"the tasks of module {config.module!r} have their own vocabulary; set `corpus`, or "
            "leave both unset"
        )
    if config.module:
        _import(config.module)
    if not config.corpus:
        return by_name.find(config.mixture)
    corpus, components = recipe.select(corpora.load(config.corpus), config.mixture)
    vocabularies: tasks.Vocabularies = config.vocab_size or tasks.VOCABULARY_SIZE
    if config.vocabulary_from:
        vocabularies = Run(config.vocabulary_from).vocabularies()
    elif config.target_vocab_size:
        vocabularies = (config.vocab_size or tasks.VOCABULARY_SIZE, config.target_vocab_size)
    has_text = any(map(mixing.is_monolingual, components))
    if has_text or config.mixture in monolingual.mixture_names(corpus):
        mixtures = monolingual.register(corpus, vocabularies=vocabularies)
        return mixtures.get(config.mixture) or by_name.find(config.mixture)
    mixture = tasks.register(corpus, vocabularies=vocabularies)
    return mixture if mixture.name == config.mixture else by_name.find(config.mixture)


def _special_ids(config: CacheConfig) -> tuple[int, int]:
    """Returns `pad` and `start` of the model in `vocabulary_from`; without one, the defaults."""
    manifest = Run(config.vocabulary_from).manifest
    if not config.vocabulary_from or not manifest.is_file():
        return vocab.PAD, vocab.PAD
    model = read_manifest(manifest)
    return model.pad, model.start


def _examples(
    sources: Sequence[TaskSource], split: str, language: str, seqio_folder: str
) -> Iterator[cache.Tokens | cache.Piece]:
    for source in sources:
        yield from _read_source(seqio_folder, source, split, language)


def _read_source(seqio_folder: str, source: TaskSource, split: str, language: str) -> Stream:
    if not seqio_folder:
        return source.examples(split)
    if mixing.is_monolingual(language):
        raise ValueError(
            f"{source.task.name!r}: a SeqIO cache has monolingual text with its noise spans, which "
            "cannot be used; leave recipe.CacheConfig.seqio_cache unset to tokenise the text"
        )
    return seqio_cache.examples(seqio_folder, source, split)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ValueError(f"no Python module {module!r} to import for its tasks") from error
        raise
