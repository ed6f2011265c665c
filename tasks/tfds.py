"""SeqIO tasks of any TensorFlow Datasets translation set: rekeyed to inputs and targets, tagged.

`register_tfds` makes the task of one language pair, a `TfdsCorpus` with `tasks.register` those of
many (as `tasks.opus100` does). Where TFDS keeps its files is TFDS's business ($TFDS_DATA_DIR).
"""

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

import tasks
from mmt import languages
from mmt.data import corpora
from mmt.data.pair import Pair


def register_tfds(
    tfds_name: str,
    *,
    source: str,
    target: str = "en",
    name: str = "",
    splits: Mapping[str, str] | None = None,
    vocabularies: int | Mapping[str, Path | seqio.Vocabulary] = tasks.VOCABULARY_SIZE,
) -> str:
    """Registers the task of one language pair of a TFDS set; returns the name of its mixture.

    `tfds_name` carries a version ('ted_hrlr_translate/az_to_en:1.0.0'); `source` and `target` are
    the languages as the set calls them. `name` is the corpus's, by default the set's own. `splits`
    maps train, validation and test to TFDS's ({'validation': 'train[:1%]', …}); by default those
    of the three that the set has. The set must be prepared: its size is asked for.

    >>> register_tfds("ted_hrlr_translate/az_to_en:1.0.0", source="az")    # doctest: +SKIP
    'ted_hrlr_translate_to_eng'
    """
    one = TfdsSet(tfds_name, source, target, splits=splits)
    corpus = tfds_corpus(
        name or tfds_name.split("/")[0].split(":")[0],
        {languages.find(source).code: one},
        target=languages.find(target).code,
    )
    return tasks.register(corpus, vocabularies=vocabularies, source=TfdsSource)


@dataclass(frozen=True)
class TfdsSet:
    """A translation set of TFDS and the names it has for its two languages.

    `counts` (split -> examples) saves asking a set that may not be prepared yet.
    """

    tfds_name: str
    source: str
    target: str
    splits: Mapping[str, str] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


def tfds_corpus(name: str, sets: Mapping[str, TfdsSet], *, target: str) -> "TfdsCorpus":
    """The corpus of TFDS sets, one for each source language; languages are FLORES codes."""
    return TfdsCorpus(name, target, root=Path("tfds", name), files={}, sets=sets)


@dataclass(frozen=True)
class TfdsCorpus(corpora.Corpus):
    """A corpus whose pairs TFDS keeps: `files` is empty, `root` only a label."""

    sets: Mapping[str, TfdsSet] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(sorted(self.sets))

    def pairs(self, language: str, split: str) -> Iterator[Pair]:
        """Streams the pairs of a split; `line` is the example's number, from 1."""
        examples = TfdsSource(self, language).get_dataset(split, shuffle=False)
        for number, example in enumerate(examples.as_numpy_iterator(), start=1):
            source, target = example["inputs"].decode(), example["targets"].decode()
            yield Pair(source, target, language, self.name, number)

    def entries(self, language: str, split: str) -> tuple[str, ...]:
        """One, with the corpus's name; none where the set has no such split."""
        return (self.name,) if self.count(language, split) else ()

    def count(self, language: str, split: str) -> int:
        source = TfdsSource(self, language)
        return source.num_input_examples(split) if split in source.splits else 0

    def hash(self) -> str:
        """Over the names and versions of the sets, which TFDS never changes the content of."""
        return hashlib.sha256(repr(sorted(self.sets.items())).encode()).hexdigest()[:16]

    def validate(self) -> None:
        """Nothing to do: TFDS has checked its files when it prepared them."""


class TfdsSource(seqio.TfdsDataSource):
    """A TfdsDataSource that gives text, {'inputs': ..., 'targets': ...}, of a TfdsCorpus."""

    def __init__(self, corpus: TfdsCorpus, language: str) -> None:
        self.corpus, self.language = corpus, language
        self._set = corpus.sets[language]
        splits = self._set.splits or {split: split for split in self._set.counts}
        super().__init__(tfds_name=self._set.tfds_name, splits=dict(splits))

    @property
    def splits(self) -> Any:
        """Those of train, validation and test that the set has."""
        present = self._set.splits or self._set.counts or self._prepared()
        return tuple(split for split in corpora.SPLITS if split in present)

    def num_input_examples(self, split: str) -> int:
        if split in self._set.counts:
            return self._set.counts[split]
        self._prepared()
        return super().num_input_examples(split)

    def _prepared(self) -> Any:
        """TFDS's splits of the set; ValueError if it is not prepared, since then it has none."""
        builder = self.tfds_dataset.builder
        if not builder.info.splits:
            raise ValueError(
                f"the TFDS set {self._set.tfds_name} is not prepared in {builder.data_dir}; "
                f"run: tfds build {self._set.tfds_name}"
            )
        return builder.info.splits

    def get_dataset(self, *args: Any, **kwargs: Any) -> tf.data.Dataset:
        return texts(super().get_dataset(*args, **kwargs), self._set)

    def chunks(self, split: str) -> Iterator[dict[str, np.ndarray]]:
        """The examples in order, many at a time, as arrays of UTF-8 bytes."""
        yield from self.get_dataset(split, shuffle=False).batch(256).as_numpy_iterator()


def texts(dataset: tf.data.Dataset, of: TfdsSet) -> tf.data.Dataset:
    """{'inputs', 'targets'} from TFDS's features for translations.

    They are Translation, {'de': …, 'en': …}, alone or inside a dictionary, and
    TranslationVariableLanguages, {'language': […], 'translation': […]}, of which the examples with
    both languages are taken (the first translation where there are several).
    """
    spec = dataset.element_spec
    for name, inner in {"": spec, **spec}.items():
        if isinstance(inner, dict) and {of.source, of.target} <= inner.keys():
            return dataset.map(functools.partial(_fixed, name=name, of=of))
        if isinstance(inner, dict) and {"language", "translation"} <= inner.keys():
            both = dataset.filter(functools.partial(_has_both, name=name, of=of))
            return both.map(functools.partial(_chosen, name=name, of=of))
    raise ValueError(
        f"TFDS set {of.tfds_name} has no translations between {of.source!r} and {of.target!r}; "
        f"its features: {spec}"
    )


def _fixed(example: dict, *, name: str, of: TfdsSet) -> dict[str, tf.Tensor]:
    inner = example[name] if name else example
    return {"inputs": inner[of.source], "targets": inner[of.target]}


def _has_both(example: dict, *, name: str, of: TfdsSet) -> tf.Tensor:
    there = (example[name] if name else example)["language"]
    return tf.reduce_any(there == of.source) & tf.reduce_any(there == of.target)


def _chosen(example: dict, *, name: str, of: TfdsSet) -> dict[str, tf.Tensor]:
    inner = example[name] if name else example
    return {
        side: tf.boolean_mask(inner["translation"], inner["language"] == language)[0]
        for side, language in (("inputs", of.source), ("targets", of.target))
    }
