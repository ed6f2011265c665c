"""Mixtures by their names in SeqIO's registry: those of `tasks.register` and of other modules.

Only this module parses task names, because tasks of other modules do not state their languages.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import seqio

from mmt import languages, suggest
from mmt.data import corpora
from tasks.mixture import (
    FEATURES,
    Mixture,
    Stream,
    TaskSource,
    registered,
    registered_task,
    token_ids,
)
from tasks.sources import LanguageSource


def find(name: str) -> Mixture:
    """Returns the registered mixture `name`, or the task of this name as a mixture.

    Raises:
      ValueError: the name is not registered (the message names the nearest). Also for tasks without
        a language in their names, with several targets, or with different vocabularies.
    """
    names = sorted({*seqio.MixtureRegistry.names(), *seqio.TaskRegistry.names()})
    if name not in names:
        hint = suggest.hint(name, names, 3, cutoff=0.3)
        raise ValueError(
            f"no mixture or task {name!r} is registered"
            f"{hint or '; nearest: none (import its module, or register its corpus)'}"
        )
    tasks = seqio.get_subtasks(seqio.get_mixture_or_task(name))
    return registered(name) or _mixture_of_tasks(name, tasks)


def _mixture_of_tasks(name: str, tasks: Sequence[seqio.Task]) -> Mixture:
    sources: dict[tuple[str, str], tuple[TaskSource, ...]] = {}
    for split in corpora.SPLITS:
        for task in sorted(tasks, key=lambda task: task.name):
            if split in task.splits:
                key = split, _languages(task)[0]
                source = registered_task(task) or ForeignTask(task)
                sources[key] = (*sources.get(key, ()), source)
    targets = {_languages(task)[1] for task in tasks}
    source_languages = {_source_language(task) for task in tasks}
    if len(targets) > 1 or len(source_languages) > 1:
        raise ValueError(f"{name!r} has the targets {sorted(targets)}; allowed: one")
    return Mixture(
        name=name,
        target=targets.pop(),
        source=source_languages.pop(),
        sources=sources,
        features={key: _feature(tasks, key) for key in FEATURES},
        corpora=_corpora_of(tasks),
        corpus_hash=_corpus_hash(tasks),
    )


@dataclass(frozen=True)
class ForeignTask:
    """A task of another module, tokenised by its own preprocessors."""

    task: seqio.Task

    @property
    def corpus_name(self) -> str:
        source = self.task.source
        return source.corpus.name if isinstance(source, LanguageSource) else self.task.name

    def examples(self, split: str) -> Stream:
        """Yields the examples that the preprocessors before the CacheDatasetPlaceholder make.

        Raises:
          ValueError: there is no CacheDatasetPlaceholder.
        """
        task = self.task
        if not task.supports_caching:
            raise ValueError(
                f"task {task.name!r} has no seqio.CacheDatasetPlaceholder among its preprocessors, "
                "which marks where examples can be cached"
            )
        dataset = task.preprocess_precache(task.source.get_dataset(split, shuffle=False))
        yield from ((*ids, task.name) for ids in token_ids(task, dataset))


def _languages(task: seqio.Task) -> tuple[str, str]:
    """Returns the FLORES codes of source and target, from the task's source or its name."""
    if isinstance(task.source, LanguageSource):
        corpus = task.source.corpus
        return task.source.language, "" if corpus.reverse else corpus.target
    match = re.search(r"([a-z]{3}_[A-Z][a-z]{3})_to_([a-z]{3})$", task.name)
    if not match:
        raise ValueError(
            f"the task {task.name!r} does not name its languages; expected a name like "
            "'mycorpus_deu_Latn_to_eng'"
        )
    return match[1], languages.find(match[2]).code


def _source_language(task: seqio.Task) -> str:
    """Returns the FLORES code of the source, for mixtures into several languages."""
    reverse = isinstance(task.source, LanguageSource) and task.source.corpus.reverse
    return task.source.corpus.target if reverse else ""


def _corpora_of(tasks: Sequence[seqio.Task]) -> tuple[corpora.Corpus, ...]:
    by_name: dict[str, corpora.Corpus] = {}
    for task in tasks:
        if isinstance(task.source, LanguageSource):
            by_name.setdefault(task.source.corpus.name, task.source.corpus)
    return tuple(by_name.values())


def _feature(tasks: Sequence[seqio.Task], name: str) -> seqio.Feature:
    """Returns the feature of a name, whose vocabulary all tasks must share."""
    feature = tasks[0].output_features[name]
    for task in tasks:
        if task.output_features[name].vocabulary != feature.vocabulary:
            raise ValueError(f"{tasks[0].name} and {task.name} differ in their {name} vocabulary")
    return feature


def _corpus_hash(tasks: Sequence[seqio.Task]) -> str:
    """Returns the hash of the tasks' corpus; without a single corpus, of names and sizes too."""
    hashes: dict[str, str] = {}  # by corpus name
    for task in tasks:
        if isinstance(task.source, LanguageSource) and task.source.corpus.name not in hashes:
            corpus_task = registered_task(task)
            hashes[task.source.corpus.name] = (
                corpus_task.corpus_hash if corpus_task else task.source.corpus.hash()
            )
    if len(hashes) == 1 and all(isinstance(task.source, LanguageSource) for task in tasks):
        return hashes.popitem()[1]
    parts = sorted([*hashes.values(), *map(_size, tasks)])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _size(task: seqio.Task) -> str:
    return f"{task.name} {[(split, task.num_input_examples(split)) for split in task.splits]}"
