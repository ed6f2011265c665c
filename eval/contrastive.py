"""Contrastive evaluation of pronouns that depend on previous sentences.

As in ContraPro (Müller et al. 2018), nothing is translated: the model scores the reference and the
same text with another pronoun. The examples come from any corpus with documents, into English.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import stats

from mmt.data.corpora import Corpus
from mmt.data.pair import Pair
from mmt.data.vocabulary import find_tag
from mmt.translate import Translator
from mmt.translate.context import History, SentenceInContext

PRONOUNS = ("he", "she", "it")
_WORD = re.compile(r"\b(he|she|it)\b", re.IGNORECASE)
_OTHER = re.compile(r"\b(him|his|her|hers|its|himself|herself|itself)\b", re.IGNORECASE)


class PronounExample(NamedTuple):
    """A sentence with a pronoun in its translation.

    Attributes:
      source: the sentence with its context.
      target: the reference with its context.
      pronoun: 'he', 'she' or 'it'.
      changed: the reference with each of the other pronouns.
    """

    source: SentenceInContext
    target: SentenceInContext
    pronoun: str
    changed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PronounAccuracy:
    """How often the right pronoun is more likely than each other one.

    Attributes:
        alone: pronoun -> whether each example is right without its context.
        in_context: pronoun -> whether each example is right with its context.
    """

    alone: dict[str, list[bool]]
    in_context: dict[str, list[bool]]

    def p_value(self) -> float:
        """Returns the p of McNemar's exact test: both accuracies are equal."""
        pairs = list(zip(_flat(self.alone), _flat(self.in_context), strict=True))
        gained, lost = pairs.count((False, True)), pairs.count((True, False))
        return float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0

    def table(self) -> str:
        """Returns a text table: a row per pronoun, and one for all; accuracies in percent."""
        rows = ["pronoun\texamples\twithout context\twith context"]
        for name in (*self.alone, "all"):
            alone, in_context = (
                _flat(of) if name == "all" else of[name] for of in (self.alone, self.in_context)
            )
            shares = (f"{100 * np.mean(right):.1f}" for right in (alone, in_context))
            rows.append("\t".join([name, str(len(alone)), *shares]))
        return "\n".join([*rows, f"McNemar's exact test: p = {self.p_value():.2g}"])


def examples(pairs: Iterable[Pair], lines: int) -> Iterator[PronounExample]:
    """Yields the examples of pairs in the order of their documents, with up to `lines` of context.

    The reference has exactly one of `PRONOUNS` and no other pronoun of the third person singular,
    and is not the first line of its document.
    """
    sources, targets = History(lines), History(lines)
    for pair in pairs:
        if not pair.follows:
            sources.end_document()
            targets.end_document()
        source, target = sources.add(pair.source), targets.add(pair.target)
        pronouns = _WORD.findall(pair.target)
        unclear = len(source.previous) != len(target.previous) or _OTHER.search(pair.target)
        if len(pronouns) == 1 and source.previous and not unclear:
            right = pronouns[0].lower()
            wrong = [pronoun for pronoun in PRONOUNS if pronoun != right]
            changed = (
                _WORD.sub(_like(pronouns[0], replacement), pair.target) for replacement in wrong
            )
            yield PronounExample(source, target, right, tuple(changed))


def pronouns(
    translator: Translator, corpus: Corpus, language: str, *, split: str = "test", lines: int = 1
) -> PronounAccuracy:
    """Returns the accuracy of a model on the pronouns of a split, without and with context.

    Args:
      translator: a model into English, of the engine jax.
      corpus: a corpus into English, of which entries of the split have `documents = true`.
      language: the source, by any name.
      split: 'train', 'validation' or 'test'.
      lines: previous lines of the context.

    Raises:
      ValueError: the corpus is not into English, or has no example that fits the model.
    """
    if corpus.target != "eng_Latn" or corpus.reverse:
        raise ValueError(f"corpus {corpus.name} is into {corpus.target}; allowed: eng_Latn")
    chosen = list(examples(corpus.pairs(language, split), lines))
    sizes = translator.source_tokens([each.source.joined for each in chosen])
    chosen = [
        each
        for each, size in zip(chosen, sizes, strict=True)
        if size <= translator.max_source_length
    ]
    if not chosen:
        raise ValueError(
            f"corpus {corpus.name} has no {split} pair of {language} with one of "
            f"{', '.join(PRONOUNS)} behind another line of its document (documents = true)"
        )
    by_context = []
    for with_context in (False, True):
        texts = [text for each in chosen for text in _scored(each, with_context)]
        scores = iter(log_likelihoods(translator, texts, source=language).tolist())
        right: dict[str, list[bool]] = {each: [] for each in PRONOUNS}
        for each in chosen:
            reference, *alternatives = [next(scores) for _ in range(len(PRONOUNS))]
            right[each.pronoun].append(reference > max(alternatives))
        by_context.append({name: values for name, values in right.items() if values})
    return PronounAccuracy(*by_context)


def log_likelihoods(
    translator: Translator, pairs: Sequence[tuple[str, str]], *, source: str | None = None
) -> Float[np.ndarray, "n"]:
    """Returns the log-probability of each translation of (source, translation), end included.

    The translations are into English, and the sources fit the model. A model that routes by
    language needs `source`.
    """
    config, sides = translator.model.config, translator.vocabularies
    language = translator.language_id(source) if translator.routes_by_language else 0
    tag = ""
    if translator.tagged:
        tag = find_tag(sides["source"], "eng", trained=translator.manifest.target) + " "
    sources = sides["source"].encode_all([tag + text for text, _ in pairs])
    targets = sides["target"].encode_all([text for _, text in pairs])
    encoded = list(zip(sources, targets, strict=True))
    shapes = [tuple(max(16, 1 << len(ids).bit_length()) for ids in pair) for pair in encoded]
    scores = np.zeros(len(pairs), np.float64)
    rows = translator.batch_size
    for shape in sorted(set(shapes)):
        indices = [i for i, of_pair in enumerate(shapes) if of_pair == shape]
        for start in range(0, len(indices), rows):
            batch = indices[start : start + rows]
            arrays = [np.full((rows, length), config.pad_id, np.int32) for length in shape]
            for row, i in enumerate(batch):
                for array, ids in zip(arrays, encoded[i], strict=True):
                    array[row, : len(ids) + 1] = [*ids, config.eos_id]
            values = _log_likelihood(
                translator.model, translator.params, *arrays, language, size=sides["target"].size
            )
            scores[batch] = np.asarray(values)[: len(batch)]
    return scores


@functools.partial(jax.jit, static_argnames=("model", "size"))
def _log_likelihood(
    model: Any,
    params: Any,
    sources: Int[Array, "B S"],
    targets: Int[Array, "B T"],
    language: int,
    *,
    size: int,
) -> Float[Array, "B"]:
    """Returns the log-probability of each row; `size` logits have pieces."""
    config = model.config
    inputs = jnp.pad(targets, ((0, 0), (1, 0)), constant_values=config.start_id)[:, :-1]
    languages = jnp.full_like(targets, language)
    counted = targets != config.pad_id
    logits = model.apply({"params": params}, sources, inputs, decoder_language_ids=languages)
    log_probabilities = jax.nn.log_softmax(logits[..., :size])
    of_tokens = jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1)
    return jnp.sum(of_tokens[..., 0] * counted, axis=1)


def _scored(each: PronounExample, with_context: bool) -> list[tuple[str, str]]:
    """Returns the pairs whose likelihoods are compared: the reference, then the changed ones."""
    texts = [each.target.text, *each.changed]
    if not with_context:
        return [(each.source.text, text) for text in texts]
    return [(each.source.joined, each.target._replace(text=text).joined) for text in texts]


def _like(written: str, pronoun: str) -> str:
    return pronoun.capitalize() if written[0].isupper() else pronoun


def _flat(of_pronouns: dict[str, list[bool]]) -> list[bool]:
    return [right for values in of_pronouns.values() for right in values]
