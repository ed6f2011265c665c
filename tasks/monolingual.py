"""SeqIO tasks of monolingual text: span corruption or prefix language models, a Task per language.

`mmt.data.denoising` makes the examples. Here it is a preprocessor after SeqIO's cache, so T5X
resamples the noise spans every epoch. `mmt train` does so while it reads.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import seqio
import tensorflow as tf

import tasks
from mmt.data import corpora, mixing, vocabulary
from mmt.data.denoising import Denoiser, Denoising
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import Pair
from tasks.mixture import CorpusTask, Mixture, add, by_split, find_registered
from tasks.sources import CorpusSource


def register(
    corpus: corpora.Corpus,
    *,
    vocabularies: tasks.Vocabularies = tasks.VOCABULARY_SIZE,
    temperature: float = 5.0,
    share: float = 0.5,
    denoising: Denoising = Denoising(),  # noqa: B008  (frozen)
) -> dict[str, Mixture]:
    """Registers the tasks of a corpus with [monolingual] text; returns its mixtures by name.

    A corpus `news` gives the tasks `news_deu_Latn_monolingual` …, and their mixture
    `news_monolingual`, as in the pretraining of mT5 and Switch. If it has pairs too, it gives the
    tasks and mixture of `tasks.register`, and the mixture `news_mixed` of both.

    Args:
      corpus: the corpus, as `corpora.load` returns it.
      vocabularies: see `tasks.register`, but both sides share one.
      temperature: mixing rates are n^(1/temperature).
      share: the fraction of monolingual text in `news_mixed`.
      denoising: the denoising objective in SeqIO. That of `mmt train` is bound in gin
        (`pipeline.train_batches.denoising`).

    Raises:
      ValueError: the corpus has no monolingual text, or an empty file of it.
    """
    if not corpus.monolingual:
        raise ValueError(
            f"corpus {corpus.name!r} has no monolingual text; add a section [monolingual] "
            "to its corpus.toml"
        )
    pairs = None
    if corpus.files["train"]:
        pairs = tasks.register(corpus, vocabularies=vocabularies, temperature=temperature)
    read = pairs.corpora if pairs else (corpus,)
    features = pairs.features if pairs else tasks.output_features(corpus, corpus, vocabularies)
    texts = _register_texts(corpus, read, features, temperature, denoising)
    if pairs is None:
        return {texts.name: texts}
    name = mixture_names(corpus)[1]
    settings = (corpus, corpus.hash(), features, temperature, denoising, share)
    mixed = find_registered(name, corpus.root, settings) or add(
        _mix_both(name, pairs, texts),
        _rates(pairs.name, 1 - share) | _rates(texts.name, share),
        root=corpus.root,
        settings=settings,
    )
    return {mixture.name: mixture for mixture in (texts, mixed, pairs)}


def _register_texts(
    corpus: corpora.Corpus,
    corpora_read: tuple[corpora.Corpus, ...],
    features: Mapping[str, seqio.Feature],
    temperature: float,
    denoising: Denoising,
) -> Mixture:
    """Registers the tasks of the monolingual text and their mixture."""
    name = mixture_names(corpus)[0]
    settings = (corpus, corpus.hash(), features, temperature, denoising)
    if former := find_registered(name, corpus.root, settings):
        return former
    text_tasks = {
        mixing.monolingual(code): _task(
            f"{name.removesuffix('monolingual')}{code}_monolingual",
            TextSource(corpus, code),
            features,
            denoising,
        )
        for code in corpus.monolingual
    }
    counts = {
        component: text.source.num_input_examples("train") for component, text in text_tasks.items()
    }
    rates = mixing.mixing_rates(counts, temperature)
    mixture = Mixture(
        name=name,
        target=corpus.target,
        source="",
        sources=by_split(text_tasks),
        features=features,
        corpora=corpora_read,
        corpus_hash=corpus.hash(),
    )
    return add(
        mixture,
        {text_tasks[component].task.name: rate for component, rate in rates.items()},
        root=corpus.root,
        settings=settings,
        tasks=text_tasks.values(),
    )


def mixture_names(corpus: corpora.Corpus) -> tuple[str, str]:
    """Returns the names of the monolingual and the mixed mixture: 'news_monolingual', 'news_mixed'.
    """
    stem = tasks.mixture_name(corpus).rpartition("_to_")[0]
    return f"{stem}_monolingual", f"{stem}_mixed"


class TextSource(CorpusSource):
    """Streams the monolingual text of a language: {'inputs': '', 'targets': text}."""

    def __init__(self, corpus: corpora.Corpus, language: str) -> None:
        self.corpus, self.language = corpus, mixing.monolingual(language)
        present = {"train": corpus.count(language, MONOLINGUAL)}
        seqio.DataSource.__init__(self, splits=present, num_input_examples=present)

    def list_shards(self, split: str) -> Sequence[str]:
        """Returns a name per entry of the text."""
        entries = self.corpus.files[MONOLINGUAL][mixing.language_of(self.language)]
        return [f"{position}-{entry.name}" for position, entry in enumerate(entries)]

    def _pairs(self, split: str, part: tuple[int, int]) -> Iterator[Pair]:
        return self.corpus.part(*part).pairs(mixing.language_of(self.language), MONOLINGUAL)


def denoise(
    dataset: tf.data.Dataset, *, how: Denoising, sentinels: Callable[[], Sequence[int]]
) -> tf.data.Dataset:
    """Makes an example of every text, with seeds from SeqIO."""

    def noise_tokens(tokens: np.ndarray, seed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = int(np.uint32(seed[0])) << 32 | int(np.uint32(seed[1]))
        denoiser = Denoiser(how, sentinels())
        sides = denoiser.examples([tokens.tolist()], np.array([key >> 1]), [key])[0]
        return np.array(sides[0], np.int32), np.array(sides[1], np.int32)

    @seqio.map_over_dataset(num_seeds=1)
    def noise_example(example: Mapping[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        sides = tf.numpy_function(noise_tokens, (example["targets"], seed), (tf.int32, tf.int32))
        inputs, targets = (tf.ensure_shape(side, [None]) for side in sides)
        return {**example, "inputs": inputs, "targets": targets}

    return noise_example(dataset)


def _task(
    name: str, source: TextSource, features: Mapping[str, seqio.Feature], denoising: Denoising
) -> CorpusTask:
    """Registers the task of one language's text."""
    task = seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(required=False),
            functools.partial(denoise, how=denoising, sentinels=_sentinels(features)),
            seqio.preprocessors.append_eos_after_trim,
        ],
        output_features=features,
    )
    return CorpusTask(task, source, prefix="", corpus_hash=source.corpus.hash())


def _sentinels(features: Mapping[str, seqio.Feature]) -> Callable[[], Sequence[int]]:
    """Returns the sentinels of the shared vocabulary, loaded on first use."""

    @functools.cache
    def sentinels() -> Sequence[int]:
        files = {Path(side.vocabulary.sentencepiece_model_file) for side in features.values()}
        ids = vocabulary.Vocabulary.load(files.pop()).sentinels
        if files or not ids:
            raise ValueError(
                "monolingual text needs one vocabulary for both sides, with sentinels "
                f"({vocabulary.sentinel(0)}, …)"
            )
        return ids

    return sentinels


def _mix_both(name: str, pairs: Mixture, texts: Mixture) -> Mixture:
    """Returns the mixture of pairs and monolingual text, in cache order."""
    ordered = sorted(
        [*pairs.sources.items(), *texts.sources.items()],
        key=lambda item: (corpora.SPLITS.index(item[0][0]), item[1][0].task.name),
    )
    return Mixture(
        name=name,
        target=pairs.target,
        source=pairs.source,
        sources=dict(ordered),
        features=pairs.features,
        corpora=pairs.corpora,
        corpus_hash=pairs.corpus_hash,
    )


def _rates(name: str, share: float) -> dict[str, float]:
    """Returns the rates of a registered mixture's tasks, scaled to sum to `share`."""
    mixture = seqio.MixtureRegistry.get(name)
    return {task.name: mixture.get_rate(task) * share for task in mixture.tasks}
