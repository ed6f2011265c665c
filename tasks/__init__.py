"""SeqIO tasks and mixtures of parallel corpora: one Task per language pair, one Mixture per corpus.

T5X and SeqIO use them by name; `tasks.build` builds the cache that `mmt train` reads. Only this
package imports SeqIO and TensorFlow; training and translation do not.
"""

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from mmt.data import corpora, mixing
from mmt.data import vocabulary as vocab
from mmt.data.cleaning import prepare


@contextlib.contextmanager
def _native_stderr_closed() -> Iterator[None]:
    """Closes file descriptor 2 while TensorFlow loads, because its libraries ignore the log level.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with _native_stderr_closed():
    import seqio
    import tensorflow as tf

    from tasks.mixture import CorpusTask, Mixture, add, by_split, find_registered
    from tasks.sources import CorpusSource, LanguageSource
    from tasks.vocabularies import (
        VOCABULARY_SIZE,
        SharedVocabulary,
        TrainedVocabulary,
        lazy_vocabularies,
        vocabulary,
    )

    with contextlib.suppress(RuntimeError):  # already initialised by the caller
        tf.config.set_visible_devices([], "GPU")  # JAX uses the accelerator

__all__ = ["VOCABULARY_SIZE", "Mixture", "register", "vocabulary"]

Vocabularies: TypeAlias = int | tuple[int, int] | Mapping[str, Path | seqio.Vocabulary]


def register(
    corpus: corpora.Corpus,
    *,
    vocabularies: Vocabularies = VOCABULARY_SIZE,
    temperature: float = 5.0,
    max_epochs: float | None = None,
    examples: int | None = None,
    source: Callable[[Any, str], LanguageSource] = CorpusSource,
) -> Mixture:
    """Registers a Task per language of `corpus` and their Mixture; returns their sources.

    A corpus `my-news` of German and Swahili into English gives the tasks `my_news_deu_Latn_to_eng`
    and `my_news_swh_Latn_to_eng` and the mixture `my_news_to_eng`. SeqIO's names have letters,
    digits and `_.:` only; other characters become `_`. `Mixture.sources` has a source per split and
    language, which `tasks.build` writes to a cache.

    A reversed corpus (`corpus.reversed()`) gives `my_news_eng_to_deu_Latn` … and
    `my_news_from_eng`, with a tag per language (`<2deu_Latn>`). If a corpus has rules (`[clean]`),
    its training pairs are those that pass them.

    A task's source yields text, {'inputs': 'Dienstag', 'targets': 'Tuesday'}. Its preprocessors put
    `<2eng> ` before the inputs (`prefix`), tokenise, and append EOS. SeqIO trims features that
    exceed `sequence_length`; `mmt train` skips such examples instead.

    Registering again with equal settings has no effect. Other settings, or a changed corpus,
    replace the earlier registration.

    Args:
      corpus: the corpus, as `corpora.load` returns it.
      vocabularies: the size of a shared vocabulary, or (source size, target size); they are trained
        from the corpus on first use. Or {'source': ..., 'target': ...}, each a SentencePiece file
        (of `tasks.vocabulary`, or any T5 model's) or a SeqIO vocabulary.
      temperature: mixing rates are n^(1/temperature) of the training counts.
      max_epochs: UniMax's cap (Chung et al. 2023) on epochs per language in a run ...
      examples: ... of this many examples; see `mmt.data.mixing.mixing_rates`.
      source: makes the DataSource of a task from the cleaned corpus and a language.

    Returns:
      The mixture; `seqio.get_mixture_or_task(register(corpus).name)` is SeqIO's.

    Raises:
      ValueError: no language has training pairs, or another corpus or mixture has the name.
    """
    if not any(corpus.count(language, "train") for language in corpus.languages):
        raise ValueError(f"corpus {corpus.name!r} has no language with training pairs")
    cleaned = prepare.cleaned(corpus)
    features = output_features(corpus, cleaned, vocabularies)
    sources = {language: source(cleaned, language) for language in cleaned.languages}
    counts = {language: text.num_input_examples("train") for language, text in sources.items()}
    rates = mixing.mixing_rates(counts, temperature, max_epochs=max_epochs, examples=examples)
    return _register(corpus, cleaned, sources, features, rates)


def _register(
    corpus: corpora.Corpus,
    cleaned: corpora.Corpus,
    sources: Mapping[str, LanguageSource],
    features: Mapping[str, seqio.Feature],
    rates: Mapping[str, float],
) -> Mixture:
    name = mixture_name(corpus)
    settings = (corpus, corpus.hash(), features, rates)
    if former := find_registered(name, corpus.root, settings):
        return former
    corpus_tasks = {
        language: _task(task_name(corpus, language), corpus, text, features)
        for language, text in sources.items()
    }
    mixture = Mixture(
        name=name,
        target="" if corpus.reverse else corpus.target,
        source=corpus.target if corpus.reverse else "",
        sources=by_split(corpus_tasks),
        features=features,
        corpora=(cleaned,),
        corpus_hash=corpus.hash(),
    )
    names = {task_name(corpus, language): rate for language, rate in rates.items()}
    return add(mixture, names, root=corpus.root, settings=settings, tasks=corpus_tasks.values())


def _task(
    name: str, corpus: corpora.Corpus, source: LanguageSource, features: Mapping[str, seqio.Feature]
) -> CorpusTask:
    """Registers the task of one language."""
    tag_prefix = prefix(features["inputs"].vocabulary, corpus, source.language)
    task = seqio.TaskRegistry.add(
        name, source, features, preprocessors(tag_prefix), metric_fns=[bleu_and_chrf]
    )
    return CorpusTask(task, source, tag_prefix, corpus.hash())


def task_name(corpus: corpora.Corpus, language: str) -> str:
    """Returns a language's task: `cldr_deu_Latn_to_eng`, or reversed `cldr_eng_to_deu_Latn`."""
    target = corpus.target.split("_")[0]
    pair = f"{target}_to_{language}" if corpus.reverse else f"{language}_to_{target}"
    return f"{_safe(corpus.name)}_{pair}"


def mixture_name(corpus: corpora.Corpus) -> str:
    """Returns a corpus's mixture: `cldr_to_eng`, or reversed `cldr_from_eng`."""
    direction = "from" if corpus.reverse else "to"
    return f"{_safe(corpus.name)}_{direction}_{corpus.target.split('_')[0]}"


def output_features(
    corpus: corpora.Corpus, cleaned: corpora.Corpus, vocabularies: Vocabularies
) -> dict[str, seqio.Feature]:
    """Returns the features `inputs` and `targets`, which both end in EOS.

    Args:
      corpus: the corpus before cleaning; its name and hash name the trained vocabularies.
      cleaned: the text that vocabularies are trained on.
      vocabularies: sizes, files or SeqIO vocabularies, see `register`.
    """
    if isinstance(vocabularies, int):
        vocabularies = lazy_vocabularies(corpus, cleaned, size=vocabularies)
    elif isinstance(vocabularies, tuple):
        size, target_size = vocabularies
        vocabularies = lazy_vocabularies(corpus, cleaned, size=size, target_size=target_size)
    if set(vocabularies) != {"source", "target"}:
        raise ValueError(
            f"vocabularies for {sorted(vocabularies)}; expected exactly 'source' and 'target'"
        )
    seqio_vocabularies = {
        side: SharedVocabulary(str(source)) if isinstance(source, Path) else source
        for side, source in vocabularies.items()
    }
    return {
        "inputs": seqio.Feature(seqio_vocabularies["source"], add_eos=True),
        "targets": seqio.Feature(seqio_vocabularies["target"], add_eos=True),
    }


def prefix(source: seqio.Vocabulary, corpus: corpora.Corpus, language: str) -> str:
    """Returns the text before each source text of a language: the tag, in the vocabulary's
    spelling.

    It is '<2eng> ' or '<2en> ', and '' if the SentencePiece model has no tags, as T5's.

    Raises:
      ValueError: the vocabulary has tags of other languages only; the message names the nearest.
    """
    sentencepiece = isinstance(source, seqio.SentencePieceVocabulary)
    if isinstance(source, TrainedVocabulary) or not sentencepiece:
        return f"{vocab.tag_of(corpus, language)} "
    target = language if corpus.reverse else corpus.target
    model = vocab.Vocabulary.load(Path(source.sentencepiece_model_file))
    return vocab.source_prefix(model, target)


@functools.cache
def preprocessors(prefix: str) -> tuple[Any, ...]:
    """Returns the preprocessors from text to examples: prefix, tokens, (SeqIO's cache), EOS."""
    return (
        functools.partial(add_prefix, prefix=prefix),
        seqio.preprocessors.tokenize,
        seqio.CacheDatasetPlaceholder(required=False),
        seqio.preprocessors.append_eos_after_trim,
    )


def add_prefix(dataset: tf.data.Dataset, *, prefix: str) -> tf.data.Dataset:
    """Puts the tag of the target language before the inputs: 'Hallo' -> '<2eng> Hallo'."""
    function = functools.partial(prefixed, prefix=prefix)
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)


def prefixed(example: Mapping[str, tf.Tensor], *, prefix: str) -> dict[str, tf.Tensor]:
    """Returns the example, or the batch of examples, with `prefix` before its inputs."""
    return {**example, "inputs": tf.strings.join([prefix, example["inputs"]])}


def bleu_and_chrf(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """Returns BLEU and chrF++ (0 to 100) by sacreBLEU, which SeqIO's Evaluator reports per task."""
    import sacrebleu

    references = [list(targets)]
    return {
        "bleu": sacrebleu.corpus_bleu(list(predictions), references).score,
        "chrf": sacrebleu.corpus_chrf(list(predictions), references, word_order=2).score,
    }


def _safe(name: str) -> str:
    return re.sub(r"[^\w.:]", "_", name)
