"""SeqIO tasks of any TensorFlow Datasets translation set: rekeyed to inputs and targets, tagged.

`register_tfds` registers the task of one language pair. For many pairs, pass a `TfdsCorpus` to
`tasks.register`, as `tasks.opus100` does. TFDS stores its files under $TFDS_DATA_DIR.
"""

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

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
    vocabularies: tasks.Vocabularies = tasks.VOCABULARY_SIZE,
) -> tasks.Mixture:
    """Registers the task of one language pair of a TFDS set; returns its mixture.

    >>> register_tfds("ted_hrlr_translate/az_to_en:1.0.0", source="az").name    # doctest: +SKIP
    'ted_hrlr_translate_to_eng'

    Args:
      tfds_name: the set with its version. It must be prepared, because its size is needed.
      source, target: the languages in the set's own codes.
      name: the corpus's name; by default the set's.
      splits: train, validation and test -> TFDS's splits ({'validation': 'train[:1%]', …}); by
        default the set's own splits of these names.
      vocabularies: see `tasks.register`.

    Raises:
      ValueError: the set is not prepared (the message has the command); otherwise as
        `tasks.register`.
    """
    corpus = tfds_corpus(
        name or tfds_name.split("/")[0].split(":")[0],
        {languages.find(source).code: TfdsSet(tfds_name, source, target, splits=splits)},
        target=languages.find(target).code,
    )
    return tasks.register(corpus, vocabularies=vocabularies, source=TfdsSource)


@dataclass(frozen=True)
class TfdsSet:
    """A translation set of TFDS, and its codes of the two languages.

    Attributes:
      counts: split -> examples, if known without the prepared set.
    """

    tfds_name: str
    source: str
    target: str
    splits: Mapping[str, str] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


def tfds_corpus(name: str, sets: Mapping[str, TfdsSet], *, target: str) -> "TfdsCorpus":
    """Returns the corpus of TFDS sets, one per source language; languages are FLORES codes."""
    return TfdsCorpus(name, target, root=Path("tfds", name), files={}, sets=sets)


@dataclass(frozen=True)
class TfdsCorpus(corpora.Corpus):
    """A corpus whose pairs TFDS stores: `files` is empty, and `root` is only a label.

    Attributes:
      sets: FLORES code of the source -> its set.
      counted: (language, split) -> pairs, of splits that had to be read to be counted.
    """

    sets: Mapping[str, TfdsSet] = field(default_factory=dict)
    counted: dict[tuple[str, str], int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(sorted(self.sets))

    def pairs(self, language: str, split: str) -> Iterator[Pair]:
        """Yields the pairs of a split; `line` is the example's number, from 1."""
        examples = TfdsSource(self, language).get_dataset(split, shuffle=False)
        for number, example in enumerate(examples.as_numpy_iterator(), start=1):
            source, target = example["inputs"].decode(), example["targets"].decode()
            yield Pair(source, target, language, self.name, number)

    def entries(self, language: str, split: str) -> tuple[str, ...]:
        """Returns (corpus name,), or () if the set lacks the split."""
        return (self.name,) if self.count(language, split) else ()

    def count(self, language: str, split: str) -> int:
        source = TfdsSource(self, language)
        return source.num_input_examples(split) if split in source.splits else 0

    def hash(self) -> str:
        """Returns 16 hex digits of the sets' names and versions; TFDS never changes a version."""
        content = repr(sorted(self.sets.items())) + (" reverse" if self.reverse else "")
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def validate(self) -> None:
        """Does nothing, because TFDS checks its files when it prepares them."""


class TfdsSource(seqio.TfdsDataSource):
    """A TfdsDataSource of a TfdsCorpus, which gives text: {'inputs': ..., 'targets': ...}."""

    def __init__(self, corpus: TfdsCorpus, language: str) -> None:
        self.corpus, self.language = corpus, language
        of = corpus.sets[language]
        self._set = replace(of, source=of.target, target=of.source) if corpus.reverse else of
        splits = self._set.splits or {split: split for split in self._set.counts}
        super().__init__(tfds_name=self._set.tfds_name, splits=dict(splits))

    @property
    def splits(self) -> Any:
        """Returns those of train, validation and test that the set has."""
        present = self._set.splits or self._set.counts or self._prepared()
        return tuple(split for split in corpora.SPLITS if split in present)

    def num_input_examples(self, split: str) -> int:
        """Returns the pairs of a split; those of a set with several languages are read once."""
        if split in self._set.counts:
            return self._set.counts[split]
        self._prepared()
        if not _is_multilingual(self.tfds_dataset.info.features):
            return super().num_input_examples(split)
        counted, key = self.corpus.counted, (self.language, split)
        if key not in counted:
            counted[key] = sum(1 for _ in self.get_dataset(split, shuffle=False))
        return counted[key]

    def _prepared(self) -> Any:
        """Returns TFDS's splits of the set. Raises ValueError if the set is not prepared."""
        builder = self.tfds_dataset.builder
        if not builder.info.splits:
            raise ValueError(
                f"the TFDS set {self._set.tfds_name} is not prepared in {builder.data_dir}; "
                f"run: tfds build {self._set.tfds_name}"
            )
        return builder.info.splits

    def get_dataset(self, *args: Any, **kwargs: Any) -> tf.data.Dataset:
        return texts(super().get_dataset(*args, **kwargs), self._set).filter(_is_visible)

    def chunks(self, split: str) -> Iterator[dict[str, np.ndarray]]:
        """Yields the examples in order, in chunks, as arrays of UTF-8 bytes."""
        yield from self.get_dataset(split, shuffle=False).batch(256).as_numpy_iterator()


def texts(dataset: tf.data.Dataset, of: TfdsSet) -> tf.data.Dataset:
    """Returns {'inputs', 'targets'} from TFDS's features for translations.

    The features are Translation, {'de': …, 'en': …}, alone or inside a dictionary, or
    TranslationVariableLanguages, {'language': […], 'translation': […]}. Of the latter, examples
    with both languages are used, and the first of several translations.

    Raises:
      ValueError: the set has no translations between the two languages.
    """
    spec = dataset.element_spec
    for name, translations in {"": spec, **spec}.items():
        if isinstance(translations, dict) and {of.source, of.target} <= translations.keys():
            return dataset.map(functools.partial(_read_translation, name=name, of=of))
        if isinstance(translations, dict) and {"language", "translation"} <= translations.keys():
            bilingual = dataset.filter(functools.partial(_has_both_languages, name=name, of=of))
            return bilingual.map(functools.partial(_read_variable, name=name, of=of))
    raise ValueError(
        f"TFDS set {of.tfds_name} has no translations between {of.source!r} and {of.target!r}; "
        f"its features: {spec}"
    )


def _is_multilingual(features: tfds.features.FeatureConnector) -> bool:
    """Returns whether examples may lack a language, so that TFDS's sizes are those of all pairs."""
    variable = tfds.features.TranslationVariableLanguages
    nested = features.values() if isinstance(features, tfds.features.FeaturesDict) else ()
    return isinstance(features, variable) or any(isinstance(one, variable) for one in nested)


def _read_translation(example: dict, *, name: str, of: TfdsSet) -> dict[str, tf.Tensor]:
    translations = example[name] if name else example
    return {"inputs": translations[of.source], "targets": translations[of.target]}


def _is_visible(example: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns whether both sides have a visible character, see `text_lines.is_blank`."""
    blank = r"[\pZ\p{Cc}\p{Cf}]*"
    sides = tf.stack([example["inputs"], example["targets"]])
    return ~tf.reduce_any(tf.strings.regex_full_match(sides, blank))


def _has_both_languages(example: dict, *, name: str, of: TfdsSet) -> tf.Tensor:
    codes = (example[name] if name else example)["language"]
    return tf.reduce_any(codes == of.source) & tf.reduce_any(codes == of.target)


def _read_variable(example: dict, *, name: str, of: TfdsSet) -> dict[str, tf.Tensor]:
    translations = example[name] if name else example
    return {
        side: tf.boolean_mask(translations["translation"], translations["language"] == language)[0]
        for side, language in (("inputs", of.source), ("targets", of.target))
    }
