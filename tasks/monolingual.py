"""SeqIO tasks of monolingual text: span corruption or prefix language models, a Task per language.

What is made of a line is `mmt.data.denoising`'s; here it is a preprocessor behind SeqIO's cache, so
that T5X sees other gaps in every epoch, as `mmt train` does, which makes them when it draws.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

import tasks
from mmt.data import corpora, mixing, vocabulary
from mmt.data.denoising import Denoiser, Denoising
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import Pair
from tasks.sources import CorpusSource


def register(
    corpus: corpora.Corpus,
    *,
    vocabularies: int | Mapping[str, Path | seqio.Vocabulary] = tasks.VOCABULARY_SIZE,
    temperature: float = 5.0,
    share: float = 0.5,
    denoising: Denoising = Denoising(),  # noqa: B008  (frozen)
) -> tuple[str, ...]:
    """Registers the tasks of a corpus with [monolingual] text and returns the mixtures' names.

    A corpus `news` gives the tasks `news_deu_Latn_monolingual` …, and their mixture
    `news_monolingual` (mT5's and Switch's pretraining). Where it has pairs too, the tasks and the
    mixture of `tasks.register`, and `news_mixed` of both, with a `share` of monolingual text.
    Rates are n^(1/temperature), as there; `vocabularies`, too, but both sides have one.

    `denoising` is what SeqIO makes of a line; that of `mmt train` is bound in gin
    (`pipeline.train_batches.denoising`).

    ValueError: the corpus has no monolingual text, or an empty file of it.
    """
    if not corpus.monolingual:
        raise ValueError(
            f"corpus {corpus.name!r} has no monolingual text; [monolingual] in its corpus.toml "
            "names some"
        )
    if isinstance(vocabularies, int):
        vocabularies = tasks.trained_on_use(corpus, size=vocabularies)
    features = tasks.output_features(vocabularies)
    sources = {code: TextSource(corpus, code) for code in corpus.monolingual}
    counts = {code: one.num_input_examples("train") for code, one in sources.items()}
    rates = mixing.shares(counts, temperature)
    alone, both = mixture_names(corpus)
    _claim((alone, both), corpus)
    own = {code: f"{alone.removesuffix('monolingual')}{code}_monolingual" for code in sources}
    for code, name in own.items():
        _replace(seqio.TaskRegistry, name)
        seqio.TaskRegistry.add(
            name,
            source=sources[code],
            preprocessors=[
                seqio.preprocessors.tokenize,
                seqio.CacheDatasetPlaceholder(required=False),
                functools.partial(denoise, how=denoising, sentinels=_sentinels(features)),
                seqio.preprocessors.append_eos_after_trim,
            ],
            output_features=features,
        )
    _mixture(alone, {own[code]: rates[code] for code in own})
    if not corpus.files["train"]:
        return (alone,)
    pairs = tasks.register(corpus, vocabularies=vocabularies, temperature=temperature)
    translated = seqio.MixtureRegistry.get(pairs)
    rest = {task.name: translated.get_rate(task) * (1 - share) for task in translated.tasks}
    _mixture(both, rest | {own[code]: rates[code] * share for code in own})
    return alone, both, pairs


def mixture_names(corpus: corpora.Corpus) -> tuple[str, str]:
    """Of the monolingual text alone and of it with the pairs: 'news_monolingual', 'news_mixed'."""
    stem = tasks.mixture_name(corpus).rpartition("_to_")[0]
    return f"{stem}_monolingual", f"{stem}_mixed"


class TextSource(CorpusSource):
    """Streams the monolingual text of a language: {'inputs': '', 'targets': text}."""

    def __init__(self, corpus: corpora.Corpus, language: str) -> None:
        self.corpus, self.language = corpus, mixing.monolingual(language)
        self.cleaned = corpus  # rules are of pairs
        present = {"train": corpus.count(language, MONOLINGUAL)}
        seqio.DataSource.__init__(self, splits=present, num_input_examples=present)

    def list_shards(self, split: str) -> Sequence[str]:
        entries = self.corpus.files[MONOLINGUAL][mixing.language_of(self.language)]
        return [f"{place}-{entry.name}" for place, entry in enumerate(entries)]

    def _pairs(self, split: str, part: tuple[int, int]) -> Iterator[Pair]:
        return self.corpus.part(*part).pairs(mixing.language_of(self.language), MONOLINGUAL)


def denoise(
    dataset: tf.data.Dataset, *, how: Denoising, sentinels: Callable[[], Sequence[int]]
) -> tf.data.Dataset:
    """Makes an example of every text, by seeds of SeqIO's own."""

    def made(tokens: np.ndarray, seed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = int(np.uint32(seed[0])) << 32 | int(np.uint32(seed[1]))
        denoiser = Denoiser(how, sentinels())
        sides = denoiser.examples([tokens.tolist()], np.array([key >> 1]), [key])[0]
        return np.array(sides[0], np.int32), np.array(sides[1], np.int32)

    @seqio.map_over_dataset(num_seeds=1)
    def one(example: Mapping[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        sides = tf.numpy_function(made, (example["targets"], seed), (tf.int32, tf.int32))
        inputs, targets = (tf.ensure_shape(side, [None]) for side in sides)
        return {**example, "inputs": inputs, "targets": targets}

    return one(dataset)


def _sentinels(features: Mapping[str, seqio.Feature]) -> Callable[[], Sequence[int]]:
    """The sentinels of the vocabulary that both sides share, which is loaded when it is needed."""

    @functools.cache
    def found() -> Sequence[int]:
        files = {Path(one.vocabulary.sentencepiece_model_file) for one in features.values()}
        sentinels = vocabulary.Vocabulary.load(files.pop()).sentinels
        if files or not sentinels:
            raise ValueError(
                "monolingual text needs one vocabulary for both sides, with sentinels "
                f"({vocabulary.sentinel(0)}, …)"
            )
        return sentinels

    return found


def _claim(names: Sequence[str], corpus: corpora.Corpus) -> None:
    for name in names:
        owner = _OWNERS.get(name)
        if owner != corpus.root and (owner or name in seqio.MixtureRegistry.names()):
            raise ValueError(
                f"the mixture {name!r} of the corpus {corpus.root} is registered already, by "
                f"{owner or 'another module'}; give one of them another name"
            )
        _OWNERS[name] = corpus.root


def _mixture(name: str, rates: Mapping[str, float]) -> None:
    _replace(seqio.MixtureRegistry, name)
    seqio.MixtureRegistry.add(name, list(rates.items()))


def _replace(registry: Any, name: str) -> None:
    if name in registry.names():
        registry.remove(name)


_OWNERS: dict[str, Path] = {}  # by mixture, the corpus' folder
