"""SeqIO tasks and mixtures of parallel corpora: one Task per language pair, one Mixture per corpus.

T5X and plain SeqIO read them by name; `tasks.build` makes the cache that `mmt train` reads. This
package is the only place that imports SeqIO and TensorFlow: nothing that trains or translates does.
"""

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmt.data import corpora, mixing
from mmt.data import vocabulary as vocab
from mmt.data.cleaning import prepare


@contextlib.contextmanager
def _native_stderr_closed() -> Iterator[None]:
    """TensorFlow's libraries greet on file descriptor 2 while loading, whatever the log level."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with _native_stderr_closed():
    import seqio
    import tensorflow as tf

    from tasks.sources import CorpusSource, LanguageSource
    from tasks.vocabularies import (
        VOCABULARY_SIZE,
        SharedVocabulary,
        TrainedVocabulary,
        trained_on_use,
        vocabulary,
    )

    with contextlib.suppress(RuntimeError):  # TensorFlow runs already: its devices are the caller's
        tf.config.set_visible_devices([], "GPU")  # the accelerator belongs to JAX

__all__ = ["VOCABULARY_SIZE", "register", "vocabulary"]


def register(
    corpus: corpora.Corpus,
    *,
    vocabularies: int | Mapping[str, Path | seqio.Vocabulary] = VOCABULARY_SIZE,
    temperature: float = 5.0,
    max_epochs: float | None = None,
    examples: int | None = None,
    source: Callable[[Any, str], LanguageSource] = CorpusSource,
) -> str:
    """Registers a Task per language of `corpus` and their Mixture; returns the mixture's name.

    A corpus `my-news` of German and Swahili into English gives the tasks `my_news_deu_Latn_to_eng`
    and `my_news_swh_Latn_to_eng` (SeqIO's names hold letters, digits and `_.:`; other characters
    become `_`) and the mixture `my_news_to_eng`. The rates are `mmt.data.mixing.shares` of the
    training counts: n^(1/temperature), with UniMax's cap (Chung et al. 2023) of `max_epochs` passes
    over a language in a run of `examples` examples.

    A corpus that is read the other way (`corpus.reversed()`) gives `my_news_eng_to_deu_Latn` … and
    `my_news_from_eng`, with a tag of its own for each language (`<2deu_Latn>`). A corpus
    with rules (`[clean]`) gives what these leave; its test splits are as they were.

    A task's source gives text, {'inputs': 'Dienstag', 'targets': 'Tuesday'}; its preprocessors put
    `<2eng> ` before the inputs (`prefix`), tokenise (here SeqIO's own cache would be made), and
    append EOS. SeqIO cuts a feature that is longer than the `sequence_length` asked for until it
    fits with its EOS; `mmt train`, which reads our cache, leaves such examples out instead.

    `vocabularies` is the size of a shared vocabulary, which is trained from the corpus when a task
    first needs it; or {'source': ..., 'target': ...}, each a SentencePiece file (of
    `tasks.vocabulary`, or any T5 model's) or a SeqIO vocabulary. `source(corpus, language)` is the
    DataSource of a task.

    The same registration again changes nothing; one with other settings, or after the corpus has
    changed, replaces the former.
    ValueError: no language to train on; another corpus or mixture has the name.
    """
    if not any(corpus.count(language, "train") for language in corpus.languages):
        raise ValueError(f"corpus {corpus.name!r} has no language with training pairs")
    if isinstance(vocabularies, int):
        vocabularies = trained_on_use(corpus, size=vocabularies)
    features = output_features(vocabularies)
    cleaned = prepare.cleaned(corpus)
    if source is CorpusSource:
        source = functools.partial(CorpusSource, cleaned=cleaned)
    sources = {language: source(corpus, language) for language in cleaned.languages}
    counts = {language: one.num_input_examples("train") for language, one in sources.items()}
    rates = mixing.shares(counts, temperature, max_epochs=max_epochs, examples=examples)

    mixture = mixture_name(corpus)
    wanted = _Registration(corpus, corpus.hash(), features, rates)
    if _registered_already(mixture, wanted):
        return mixture
    for language, one in sources.items():
        before = prefix(features["inputs"].vocabulary, corpus, language)
        seqio.TaskRegistry.add(
            task_name(corpus, language), one, features, preprocessors(before),
            metric_fns=[bleu_and_chrf],
        )  # fmt: skip
    seqio.MixtureRegistry.add(mixture, [(task_name(corpus, code), rates[code]) for code in rates])
    _REGISTERED[mixture] = wanted
    return mixture


def task_name(corpus: corpora.Corpus, language: str) -> str:
    """`cldr_deu_Latn_to_eng`: `tasks.build` reads the two languages from the name. Of a corpus that
    is read the other way `cldr_eng_to_deu_Latn`.
    """
    target = corpus.target.split("_")[0]
    ends = f"{target}_to_{language}" if corpus.reverse else f"{language}_to_{target}"
    return f"{_safe(corpus.name)}_{ends}"


def mixture_name(corpus: corpora.Corpus) -> str:
    """`cldr_to_eng`; of a corpus that is read the other way `cldr_from_eng`."""
    way = "from" if corpus.reverse else "to"
    return f"{_safe(corpus.name)}_{way}_{corpus.target.split('_')[0]}"


def output_features(
    vocabularies: Mapping[str, Path | seqio.Vocabulary],
) -> dict[str, seqio.Feature]:
    """The features `inputs` and `targets`, each ending in EOS, of {'source': …, 'target': …}."""
    if set(vocabularies) != {"source", "target"}:
        raise ValueError(
            f"vocabularies for {sorted(vocabularies)}; wanted are exactly 'source' and 'target'"
        )
    opened = {
        side: SharedVocabulary(str(given)) if isinstance(given, Path) else given
        for side, given in vocabularies.items()
    }
    return {
        "inputs": seqio.Feature(opened["source"], add_eos=True),
        "targets": seqio.Feature(opened["target"], add_eos=True),
    }


def prefix(source: seqio.Vocabulary, corpus: corpora.Corpus, language: str) -> str:
    """What goes before a source text of a language's pairs: the tag as the vocabulary spells it,
    '<2eng> ' or '<2en> '; nothing where a SentencePiece model has no tags at all, as T5's.

    ValueError for a vocabulary with tags of other languages only; it names the nearest.
    """
    sentencepiece = isinstance(source, seqio.SentencePieceVocabulary)
    if isinstance(source, TrainedVocabulary) or not sentencepiece:
        return f"{vocab.tag_of(corpus, language)} "
    target = language if corpus.reverse else corpus.target
    known = vocab.Vocabulary.load(Path(source.sentencepiece_model_file))
    return f"{vocab.find_tag(known, target, trained=target)} " if known.tags else ""


@functools.cache
def preprocessors(prefix: str) -> tuple[Any, ...]:
    """From text to examples: prefix, tokens, (SeqIO's cache), EOS. One object for each prefix."""
    return (
        functools.partial(add_prefix, prefix=prefix),
        seqio.preprocessors.tokenize,
        seqio.CacheDatasetPlaceholder(required=False),
        seqio.preprocessors.append_eos_after_trim,
    )


def add_prefix(dataset: tf.data.Dataset, *, prefix: str) -> tf.data.Dataset:
    """Puts the tag of the target language first on the inputs: 'Hallo' -> '<2eng> Hallo'."""
    function = functools.partial(prefixed, prefix=prefix)
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)


def prefixed(example: Mapping[str, tf.Tensor], *, prefix: str) -> dict[str, tf.Tensor]:
    """The example, or the batch of examples, with `prefix` before its inputs."""
    return {**example, "inputs": tf.strings.join([prefix, example["inputs"]])}


def bleu_and_chrf(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF++ (0 to 100) by sacreBLEU: what SeqIO's Evaluator reports for every task."""
    import sacrebleu

    references = [list(targets)]
    return {
        "bleu": sacrebleu.corpus_bleu(list(predictions), references).score,
        "chrf": sacrebleu.corpus_chrf(list(predictions), references, word_order=2).score,
    }


@dataclass(frozen=True)
class _Registration:
    corpus: corpora.Corpus
    corpus_hash: str
    features: Mapping[str, seqio.Feature]
    rates: Mapping[str, float]


_REGISTERED: dict[str, _Registration] = {}  # by mixture


def _registered_already(mixture: str, wanted: _Registration) -> bool:
    """True if there is nothing to do; else the mixture's names are free now, or not to be had."""
    if mixture not in seqio.MixtureRegistry.names():
        return False
    present = _REGISTERED.get(mixture)
    if present == wanted:
        return True
    if present is None or present.corpus.root != wanted.corpus.root:
        owner = f"the corpus {present.corpus.root}" if present else "another module"
        raise ValueError(
            f"the mixture {mixture!r} of the corpus {wanted.corpus.root} is registered "
            f"already, by {owner}; give one of them another name"
        )
    for task in seqio.MixtureRegistry.get(mixture).tasks:
        seqio.TaskRegistry.remove(task.name)
    seqio.MixtureRegistry.remove(mixture)
    return False


def _safe(name: str) -> str:
    return re.sub(r"[^\w.:]", "_", name)
