"""From SeqIO tasks to the cache that `mmt train` reads: every task of a mixture, tokenised.

`ensure_cache` is what a run calls when its cache is missing; `build_cache` the work itself. The
files of the cache, and reading them without TensorFlow, are `mmt.data.cache`.
"""

import functools
import hashlib
import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import seqio
import tensorflow as tf

import tasks
from mmt import languages, suggest
from mmt.data import cache, corpora
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import MANIFEST, Manifest, read_manifest
from mmt.data.cleaning import prepare
from mmt.data.recipe import Recipe
from tasks import monolingual
from tasks.sources import LanguageSource

FEATURES = ("inputs", "targets")
_EXAMPLES_EACH = 100_000  # for so many another process is started, which takes a second
_SAMPLE = 64

Stream = Iterator[cache.Tokens | cache.Piece]
Ids = tuple[int, ...]


def ensure_cache(wanted: Recipe) -> Manifest:
    """The manifest of the cache that `wanted` describes, which is built if it is not there.

    So that the mixture (or task) exists, `wanted.module` is imported or `wanted.corpus` registered,
    with the vocabulary that the recipe names (no size: `tasks.VOCABULARY_SIZE` pieces). A cache
    that is there is compared with the corpus and its vocabulary, not rebuilt.
    ValueError, before a cache is written: unknown module or mixture (naming the nearest), a fault
    in the corpus (file and line), a cache made of something else.
    """
    directory, found = Path(wanted.directory), _registered(wanted)
    if directory.is_dir() and any(directory.iterdir()):
        present = cache.open_cache(directory)
        hashes = {side: vocab.Vocabulary.load(path).hash for side, path in _files(found).items()}
        cache.check_fresh(present, corpus_hash=corpus_hash(found), vocabulary_hash=hashes)
        return present.manifest
    for own in _corpora(found):
        prepare.cleaned(own).validate()
    return build_cache(
        wanted.mixture,
        directory,
        corpus_hash=corpus_hash(found),
        processes=wanted.processes,
        seqio_cache=wanted.seqio_cache,
        **_special_ids(wanted),
    )


def vocabulary(wanted: Recipe, feature: str) -> seqio.Vocabulary:
    """The vocabulary of a feature ('inputs' or 'targets') of the mixture that `wanted` describes,
    which is registered first, as by `ensure_cache`.
    """
    if feature not in FEATURES:
        raise ValueError(f"feature {feature!r}; allowed: {', '.join(FEATURES)}")
    return _vocabulary(_registered(wanted), feature)


def _registered(wanted: Recipe) -> list[seqio.Task]:
    """The tasks of the mixture, which is registered first where it is not."""
    if (wanted.vocab_size or wanted.vocabulary_from) and not wanted.corpus:
        raise ValueError(
            f"vocab_size is {wanted.vocab_size}, but only a vocabulary that is trained for a "
            "`corpus` can have a chosen size; the tasks of module "
            f"{wanted.module!r} bring their own: leave it 0"
        )
    if wanted.module:
        _import(wanted.module)
    if wanted.corpus:
        corpus = corpora.load(wanted.corpus)
        if wanted.mixture == tasks.mixture_name(corpus.reversed()):
            corpus = corpus.reversed()
        given = _vocabularies(wanted, corpus)
        if wanted.mixture in monolingual.mixture_names(corpus):
            monolingual.register(corpus, vocabularies=given)
        else:
            tasks.register(corpus, vocabularies=given)
    return find(wanted.mixture)


def _special_ids(wanted: Recipe) -> dict[str, int]:
    """pad and start of the model whose vocabulary is taken over; else the cache's own defaults."""
    manifest = Path(wanted.vocabulary_from) / MANIFEST
    if not wanted.vocabulary_from or not manifest.is_file():
        return {}
    found = read_manifest(manifest)
    return {"pad": found.pad, "start": found.start}


def _vocabularies(
    wanted: Recipe, corpus: corpora.Corpus
) -> Mapping[str, Path | seqio.Vocabulary]:
    """Taken over from another run, or trained on use: one for both sides, or one for each."""
    if wanted.vocabulary_from:
        return vocab.files(Path(wanted.vocabulary_from))
    size = wanted.vocab_size or tasks.VOCABULARY_SIZE
    return tasks.trained_on_use(corpus, size=size, target_size=wanted.target_vocab_size)


def build_cache(
    mixture_or_task_name: str,
    directory: Path,
    *,
    corpus_hash: str,
    pad: int = vocab.PAD,
    start: int = vocab.PAD,
    processes: int = 0,
    seqio_cache: str = "",
) -> Manifest:
    """Writes the cache of a mixture's tasks, all splits, as `mmt.data.cache.build` does, in so many
    processes (0: one for each core, where there is work for them).

    An example is what the task's preprocessors before its CacheDatasetPlaceholder make of it: the
    tag and the tokens, untrimmed, without EOS. Tasks are named `<corpus>_<source>_to_<target>`
    ('cldr_deu_Latn_to_eng'), which gives their languages. Tasks of `tasks.register` are tokenised
    many sentences at a time; a task of another kind runs its own preprocessors. Where there is a
    `seqio_cache`, the tokens are taken from there, in its order, which Beam has shuffled.
    ValueError: it has not all the tasks, or is of another corpus or vocabulary.
    """
    found = find(mixture_or_task_name)
    examples: dict[tuple[str, str], list[seqio.Task]] = {}
    for split in corpora.SPLITS:
        for task in sorted(found, key=lambda task: task.name):
            if split in task.splits:
                examples.setdefault((split, _languages(task)[0]), []).append(task)
    targets = {_languages(task)[1] for task in found}
    sources = {_source(task) for task in found}
    if len(targets) > 1 or len(sources) > 1:
        raise ValueError(f"{mixture_or_task_name!r} has the targets {sorted(targets)}; wanted: one")
    tokens = functools.partial(_from_seqio, seqio_cache) if seqio_cache else _tokens
    total = sum(
        task.num_input_examples(key[0]) or 0 for key, some in examples.items() for task in some
    )
    return cache.build(
        directory,
        {key: functools.partial(_of_all, tokens, some, key[0]) for key, some in examples.items()},
        name=mixture_or_task_name,
        target=targets.pop(),
        source=sources.pop(),
        corpus_hash=corpus_hash,
        vocabularies=_files(found),
        pad=pad,
        start=start,
        processes=processes or min(len(os.sched_getaffinity(0)), 1 + total // _EXAMPLES_EACH),
    )


def find(mixture_or_task_name: str) -> list[seqio.Task]:
    """The tasks of a registered mixture, or the one task; ValueError names the nearest."""
    names = sorted({*seqio.MixtureRegistry.names(), *seqio.TaskRegistry.names()})
    if mixture_or_task_name not in names:
        near = suggest.hint(mixture_or_task_name, names, 3, cutoff=0.3)
        raise ValueError(
            f"no mixture or task {mixture_or_task_name!r} is registered"
            f"{near or '; nearest: none (import its module, or register its corpus)'}"
        )
    return seqio.get_subtasks(seqio.get_mixture_or_task(mixture_or_task_name))


def corpus_hash(found: Sequence[seqio.Task]) -> str:
    """The hash of the tasks' corpus; of the corpora, names and sizes where they are several."""
    own = _corpora(found)
    if len(own) == 1 and all(isinstance(task.source, LanguageSource) for task in found):
        return own[0].hash()
    parts = sorted([*(one.hash() for one in own), *map(_size, found)])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _of_all(tokens: Callable[..., Stream], some: Sequence[seqio.Task], split: str) -> Stream:
    for task in some:
        yield from tokens(task, split)


def _tokens(task: seqio.Task, split: str) -> Stream:
    """The (inputs, targets, corpus) of a task's split, in the source's order; of our tasks,
    functions that make them.
    """
    prefix = _prefix(task)
    if prefix is not None and isinstance(task.source, LanguageSource):
        files = _files([task])
        tokenise = vocab.Tokeniser(prefix, files["source"], files["target"])
        for chunk in task.source.chunks(split):
            sources, targets = (chunk[key].tolist() for key in FEATURES)
            names = chunk.get("corpus", np.array([task.source.corpus.name] * len(sources)))
            yield functools.partial(tokenise, sources, targets, names.tolist())
        return
    if not task.supports_caching:
        raise ValueError(
            f"task {task.name!r} has no seqio.CacheDatasetPlaceholder among its preprocessors, "
            "which says where its examples are ready to be cached"
        )
    dataset = task.preprocess_precache(task.source.get_dataset(split, shuffle=False))
    yield from ((*ids, task.name) for ids in _ids(task, dataset))


def _prefix(task: seqio.Task) -> str | None:
    """What our task puts before its sources; None of a task of another kind."""
    if isinstance(task.source, monolingual.TextSource):
        return ""
    if not isinstance(task.source, LanguageSource):
        return None
    vocabulary = _vocabulary([task], "inputs")
    prefix = tasks.prefix(vocabulary, task.source.corpus, task.source.language)
    return prefix if task.preprocessors is tasks.preprocessors(prefix) else None


def _from_seqio(folder: str, task: seqio.Task, split: str) -> Stream:
    """The tokens of a task's split out of SeqIO's cache, which says nothing of what it was made of:
    the number of examples and the first _SAMPLE are looked for.
    """
    if isinstance(task.source, monolingual.TextSource):
        raise ValueError(
            f"{task.name!r}: monolingual text is not taken from a SeqIO cache, which gives it with "
            "its gaps; without recipe.Recipe.seqio_cache it is tokenised here"
        )
    seqio.add_global_cache_dirs([folder])
    if not task.cache_dir:
        raise ValueError(
            f"{folder} has no finished cache of the task {task.name!r}: "
            f"{seqio.get_task_dir_from_name(task.name)}/COMPLETED is missing; seqio_cache_tasks "
            "makes it"
        )
    name = task.source.corpus.name if isinstance(task.source, LanguageSource) else task.name
    text = task.preprocess_precache(task.source.get_dataset(split, shuffle=False).take(_SAMPLE))
    missing = set(_ids(task, text))
    count, wanted = 0, task.num_input_examples(split)
    for ids in _ids(task, task.get_dataset(None, split, use_cached=True, shuffle=False)):
        yield *ids, name
        count += 1
        missing.discard(ids)
    if missing or count != (wanted or count):
        raise ValueError(
            f"the SeqIO cache {task.cache_dir} is of another corpus or vocabulary than the task "
            f"{task.name!r} now has: {count} {split} examples, of {wanted}, and {len(missing)} of "
            f"the first {_SAMPLE} are not among them; make it again"
        )


def _ids(task: seqio.Task, dataset: tf.data.Dataset) -> Iterator[tuple[Ids, Ids]]:
    """Inputs and targets of tokenised examples, without EOS."""
    eos = {key: _vocabulary([task], key).eos_id for key in FEATURES}
    for example in dataset.as_numpy_iterator():
        inputs, targets = (tuple(_without(example[key].tolist(), eos[key])) for key in FEATURES)
        yield inputs, targets


def _languages(task: seqio.Task) -> tuple[str, str]:
    """FLORES codes of source and target, from the task's name."""
    if isinstance(task.source, LanguageSource):
        corpus = task.source.corpus
        return task.source.language, "" if corpus.reverse else corpus.target
    parts = re.search(r"([a-z]{3}_[A-Z][a-z]{3})_to_([a-z]{3})$", task.name)
    if not parts:
        raise ValueError(
            f"the task {task.name!r} does not tell its languages; wanted is a name like "
            "'mycorpus_deu_Latn_to_eng'"
        )
    return parts[1], languages.find(parts[2]).code


def _source(task: seqio.Task) -> str:
    """The FLORES code of the one source, where the languages are those translated into."""
    reverse = isinstance(task.source, LanguageSource) and task.source.corpus.reverse
    return task.source.corpus.target if reverse else ""


def _corpora(found: Iterable[seqio.Task]) -> list[corpora.Corpus]:
    own: dict[str, corpora.Corpus] = {}
    for task in found:
        if isinstance(task.source, LanguageSource):
            own.setdefault(task.source.corpus.name, task.source.corpus)
    return list(own.values())


def _vocabulary(found: Sequence[seqio.Task], feature: str) -> seqio.Vocabulary:
    """The vocabulary of a feature, which all tasks must share."""
    vocabulary = found[0].output_features[feature].vocabulary
    for task in found:
        if task.output_features[feature].vocabulary != vocabulary:
            raise ValueError(
                f"{found[0].name} and {task.name} differ in their {feature} vocabulary"
            )
    return vocabulary


def _files(found: Sequence[seqio.Task]) -> dict[str, Path]:
    """{'source': file, 'target': file} of the tasks' SentencePiece models."""
    files = {}
    for side, feature in zip(("source", "target"), FEATURES, strict=True):
        vocabulary = _vocabulary(found, feature)
        if not isinstance(vocabulary, seqio.SentencePieceVocabulary):
            raise ValueError(f"{found[0].name}: {vocabulary} is not a SentencePieceVocabulary")
        files[side] = Path(vocabulary.sentencepiece_model_file)
    return files


def _size(task: seqio.Task) -> str:
    return f"{task.name} {[(split, task.num_input_examples(split)) for split in task.splits]}"


def _without(ids: list[int], eos: int) -> list[int]:
    """The cache holds no EOS: tasks that append it before their placeholder lose it here."""
    return ids[:-1] if ids and ids[-1] == eos else ids


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ValueError(f"no Python module {module!r} to import for its tasks") from error
        raise
