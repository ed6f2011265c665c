"""The mixture that `tasks.register` makes of a corpus: SeqIO's tasks, and their sources.

`tasks.build` writes the cache of a `Mixture`. SeqIO's global registry has the same tasks by name,
for SeqIO and T5X. `tasks.by_name` finds mixtures there, including those of other modules.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import seqio
import tensorflow as tf

from mmt.data import cache, corpora
from mmt.data import vocabulary as vocab
from tasks.sources import LanguageSource

FEATURES = ("inputs", "targets")

Ids = tuple[int, ...]
Stream = Iterator[cache.Tokens | cache.Piece]


class TaskSource(Protocol):
    """A SeqIO task whose splits can be written to a cache."""

    @property
    def task(self) -> seqio.Task: ...

    @property
    def corpus_name(self) -> str: ...

    def examples(self, split: str) -> Stream:
        """Yields the examples of a split as `cache.Tokens`, or functions that return lists of them.

        They are in the source's order: token ids without EOS.
        """


@dataclass(frozen=True)
class CorpusTask:
    """A task of one language of a corpus, tokenised in chunks of sentences.

    Attributes:
      task: the SeqIO task of the same examples.
      source: the text.
      prefix: the text before every source sentence, '<2eng> '.
      corpus_hash: of the corpus before cleaning.
    """

    task: seqio.Task
    source: LanguageSource
    prefix: str
    corpus_hash: str

    @property
    def corpus_name(self) -> str:
        return self.source.corpus.name

    def examples(self, split: str) -> Stream:
        """Yields functions, each of which tokenises a chunk of the text."""
        files = vocabulary_files(self.task.output_features)
        tokenise = vocab.Tokeniser(self.prefix, files["source"], files["target"])
        for chunk in self.source.chunks(split):
            sources, targets = (chunk[key].tolist() for key in FEATURES)
            names = chunk.get("corpus", np.array([self.corpus_name] * len(sources)))
            follows = chunk.get("follows", np.zeros(len(sources), bool))
            yield functools.partial(tokenise, sources, targets, names.tolist(), follows.tolist())


@dataclass(frozen=True)
class Mixture:
    """A registered mixture and where its examples come from.

    Attributes:
      name: the mixture's name in SeqIO's registry, 'cldr_to_eng'.
      target: FLORES code of the language of all targets; '' where targets are in many languages.
      source: FLORES code of the language of all sources; '' where sources are in many languages.
      sources: (split, language) -> the tasks that give the examples of that split and language.
        The language is one of `corpora.Corpus.languages`, or 'deu_Latn.monolingual'.
      features: 'inputs' and 'targets', with the vocabularies of the two sides.
      corpora: the corpora that are read, after cleaning.
      corpus_hash: identifies the text that the examples are made of.
    """

    name: str
    target: str
    source: str
    sources: Mapping[tuple[str, str], Sequence[TaskSource]]
    features: Mapping[str, seqio.Feature]
    corpora: tuple[corpora.Corpus, ...]
    corpus_hash: str

    def vocabulary_files(self) -> dict[str, Path]:
        """Returns the SentencePiece models of 'source' and 'target'; trains them if missing."""
        return vocabulary_files(self.features)


def vocabulary_files(features: Mapping[str, seqio.Feature]) -> dict[str, Path]:
    """Returns {'source': file, 'target': file}, the SentencePiece models of `features`.

    Raises:
      ValueError: a vocabulary of another kind.
    """
    files = {}
    for side, feature in zip(("source", "target"), FEATURES, strict=True):
        vocabulary = features[feature].vocabulary
        if not isinstance(vocabulary, seqio.SentencePieceVocabulary):
            raise ValueError(f"{side}: {vocabulary} is not a SentencePieceVocabulary")
        files[side] = Path(vocabulary.sentencepiece_model_file)
    return files


def by_split(tasks: Mapping[str, TaskSource]) -> dict[tuple[str, str], tuple[TaskSource, ...]]:
    """Returns `Mixture.sources` of one task per language, in cache order: by split, then task name.
    """
    ordered = sorted(tasks.items(), key=lambda item: item[1].task.name)
    return {
        (split, language): (source,)
        for split in corpora.SPLITS
        for language, source in ordered
        if split in source.task.splits
    }


def token_ids(task: seqio.Task, dataset: tf.data.Dataset) -> Iterator[tuple[Ids, Ids]]:
    """Yields inputs and targets of tokenised examples, without a final EOS."""
    eos = {key: task.output_features[key].vocabulary.eos_id for key in FEATURES}
    for example in dataset.as_numpy_iterator():
        inputs, targets = (_strip_eos(example[key].tolist(), eos[key]) for key in FEATURES)
        yield inputs, targets


def registered(name: str) -> Mixture | None:
    """Returns the mixture that `add` registered as `name` in this process, or None."""
    is_registered = name in _REGISTERED and name in seqio.MixtureRegistry.names()
    return _REGISTERED[name].mixture if is_registered else None


def registered_task(task: seqio.Task) -> CorpusTask | None:
    """Returns the corpus task that `add` registered as this SeqIO task, or None."""
    corpus_task = _TASKS.get(task.name)
    return corpus_task if corpus_task is not None and corpus_task.task is task else None


def find_registered(name: str, root: Path, settings: object) -> Mixture | None:
    """Returns the mixture of `name` if it was registered with equal settings, else None.

    In the latter case `name` is free: an earlier mixture of the same corpus folder is removed, with
    the tasks that were registered for it.

    Raises:
      ValueError: the mixture of another corpus or module has the name.
    """
    if name not in seqio.MixtureRegistry.names():
        return None
    former = _REGISTERED.get(name)
    if former is not None and former.settings == settings:
        return former.mixture
    if former is None or former.root != root:
        owner = f"the corpus {former.root}" if former else "another module"
        raise ValueError(
            f"the mixture {name!r} of the corpus {root} is registered already, by {owner}; "
            "rename one of them"
        )
    for task_name in former.task_names:
        if task_name in seqio.TaskRegistry.names():
            seqio.TaskRegistry.remove(task_name)
    seqio.MixtureRegistry.remove(name)
    return None


def add(
    mixture: Mixture,
    rates: Mapping[str, float],
    *,
    root: Path,
    settings: object,
    tasks: Iterable[CorpusTask] = (),
) -> Mixture:
    """Registers a mixture in SeqIO's registry and returns it.

    Args:
      mixture: the mixture, with a name that is free by `find_registered`.
      rates: name of a registered task -> its rate.
      root: the folder of the corpus.
      settings: all settings of the mixture, for comparison with later registrations.
      tasks: the tasks that were registered for this mixture, and are removed with it.
    """
    corpus_tasks = tuple(tasks)
    seqio.MixtureRegistry.add(mixture.name, list(rates.items()))
    _REGISTERED[mixture.name] = _Registration(
        mixture, root, settings, tuple(task.task.name for task in corpus_tasks)
    )
    _TASKS.update((task.task.name, task) for task in corpus_tasks)
    return mixture


@dataclass(frozen=True)
class _Registration:
    mixture: Mixture
    root: Path
    settings: object
    task_names: tuple[str, ...]  # registered for this mixture, and removed with it


_REGISTERED: dict[str, _Registration] = {}  # by mixture name
_TASKS: dict[str, CorpusTask] = {}  # by name


def _strip_eos(ids: list[int], eos: int) -> Ids:
    return tuple(ids[:-1] if ids and ids[-1] == eos else ids)
