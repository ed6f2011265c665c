"""Selects the examples that modifiers change, and makes their new tokens.

Seed and draw determine the modified examples and the changes. A cache holds tokens: they are
decoded, modified, and encoded again with the run's vocabulary.
"""

import functools
import hashlib
import random
import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from mmt import suggest
from mmt.data import mixing
from mmt.data.cache import Cache
from mmt.data.cache.origins import in_corpora
from mmt.data.mixture_sampler import uniform
from mmt.data.modifiers import romanise
from mmt.data.modifiers.bpe_dropout import BpeDropout
from mmt.data.modifiers.texts import (
    BPE_DROPOUT,
    CONTEXT,
    KINDS,
    ROMANISED,
    SEPARATOR,
    Chance,
    TextSides,
    in_context,
    joined,
)
from mmt.data.stages import Modifiers, Number
from mmt.data.vocabulary import Vocabulary

Ids = list[int]

_TAG = re.compile(r"<2[\w-]+> ?(?:<bt> ?)?|<bt> ?")


class Rewriter:
    """The modifiers of one stage.

    Args:
      probabilities: {'upper_case': 0.05, 'typos': {'deu': 0.1, 'interface': 0.05}}: the probability
        of a modifier of `KINDS` in all examples, or in those of a language (by any name) or entry
        of the corpus; an entry wins over its language. `merged` joins a sentence with the next one
        of its language; `context` puts the lines before it in its document before it; `bpe_dropout`
        keeps the text and divides it into other pieces. An example may get several modifiers.
      cache: the cache whose vocabularies decode and encode.
      codes: FLORES codes; a language is identified by its position there.
      seed: of the run.
      context_lines: maximum lines of `context`; each number from 1 is as frequent.

    Attributes:
      by_corpus: whether probabilities differ within a language, by `Manifest.corpus_table`.

    Raises:
      ValueError: an unknown modifier, language or entry, a probability outside 0 ... 1,
        `bpe_dropout` with a vocabulary that is not BPE, `romanised` without uroman, `context` for
        languages without documents.
    """

    def __init__(
        self,
        probabilities: Modifiers,
        cache: Cache,
        codes: Sequence[str],
        seed: int,
        context_lines: int = 1,
    ):
        if not isinstance(probabilities, Mapping):
            raise ValueError(
                f"modifiers = {probabilities!r}; allowed: {{NAME: PROBABILITY, ...}}, the names "
                f"{', '.join(KINDS)}"
            )
        self._cache, self._codes, self._context_lines = cache, codes, context_lines
        self._kinds = [kind for kind in KINDS if kind in probabilities]
        self._odds = self._odds_of(probabilities)
        digests = [f"{seed}/modifiers/{kind}" for kind in (*self._kinds, "")]
        self._keys = [_digest(text) for text in digests]
        if BPE_DROPOUT in self._kinds:
            _ = self._bpe_dropout  # its error belongs here
        if ROMANISED in self._kinds:
            romanise.load()
        if CONTEXT in self._kinds and cache.has_text:
            self._check_context(probabilities[CONTEXT])

    def _odds_of(self, probabilities: Modifiers) -> Float[np.ndarray, "kinds groups"]:
        """Returns the probabilities by language, or by corpus if one is named."""
        by_language = np.zeros((len(self._kinds), len(self._codes)))
        of_entries: list[tuple[int, str, float]] = []
        for kind, odds in probabilities.items():
            if kind not in KINDS:
                hint = suggest.hint(str(kind), KINDS, cutoff=0.0)
                raise ValueError(f"no modifier {kind!r}{hint}; allowed: {', '.join(KINDS)}")
            row, named = self._kinds.index(kind), set[int]()
            if not isinstance(odds, Mapping):
                by_language[row] = _probability(kind, odds)
                continue
            for name, value in odds.items():
                language = self._language(name)
                if language is None:
                    of_entries.append((row, name, _probability(kind, value)))
                    continue
                if language in named:
                    raise ValueError(f"modifier {kind!r} names a language twice: {dict(odds)}")
                named.add(language)
                by_language[row, language] = _probability(kind, value)
        by_language[:, [mixing.is_monolingual(code) for code in self._codes]] = 0  # noise spans
        self.by_corpus = bool(of_entries)
        if not of_entries:
            return by_language
        table = self._cache.manifest.corpus_table
        by_corpus = np.zeros((len(self._kinds), len(table)))
        for corpus_id, (code, corpus) in enumerate(table):
            if code in self._codes and not mixing.is_monolingual(code):
                by_corpus[:, corpus_id] = by_language[:, self._codes.index(code)]
                for row, name, probability in of_entries:
                    if in_corpora(corpus, [name]):
                        by_corpus[row, corpus_id] = probability
        return by_corpus

    def _language(self, name: str) -> int | None:
        """Returns the position of a language; None for the name of an entry."""
        try:
            return self._codes.index(mixing.resolve(name, self._codes))
        except ValueError as error:
            corpora = dict.fromkeys(corpus for _, corpus in self._cache.manifest.corpus_table)
            if any(in_corpora(corpus, [name]) for corpus in corpora):
                return None
            hint = suggest.hint(name, [*corpora])
            raise ValueError(f"{error}, nor an entry of the corpus{hint}") from None

    def select(
        self, draws: Int[np.ndarray, "n"], groups: Int[np.ndarray, "n"]
    ) -> Bool[np.ndarray, "kinds n"]:
        """Returns which modifiers are applied to each draw.

        groups: the language of each, or its corpus id if `by_corpus`.
        """
        key = np.array(self._keys[:-1], np.uint64)[:, None]
        return uniform(draws.astype(np.uint64) ^ key) < self._odds[:, groups]

    def merged(self, chosen: Bool[np.ndarray, "kinds n"]) -> Int[np.ndarray, "_"]:
        """Returns the examples that need the next one of their language."""
        if "merged" not in self._kinds:
            return np.zeros(0, np.int64)
        return np.flatnonzero(chosen[self._kinds.index("merged")])

    def context(
        self, draws: Int[np.ndarray, "n"], chosen: Bool[np.ndarray, "kinds n"]
    ) -> Int[np.ndarray, "n"]:
        """Returns how many lines before it each example needs, if its document has them."""
        if CONTEXT not in self._kinds:
            return np.zeros(len(draws), np.int64)
        key = np.uint64(self._keys[-1])
        lines = 1 + (uniform(draws.astype(np.uint64) ^ key) * self._context_lines)
        return np.where(chosen[self._kinds.index(CONTEXT)], lines.astype(np.int64), 0)

    def rewrite(
        self,
        draws: Int[np.ndarray, "n"],
        chosen: Bool[np.ndarray, "kinds n"],
        pairs: Sequence[tuple[Ids, Ids]],
        following: Mapping[int, tuple[Ids, Ids]],
        preceding: Mapping[int, Sequence[tuple[Ids, Ids]]],
    ) -> list[tuple[Ids, Ids] | None]:
        """Returns the tokens of modified examples; the tag stays first on the source.

        None stands for an example that the modifiers do not change.

        Args:
          draws: the draws of the examples.
          chosen: their modifiers.
          pairs: their tokens.
          following: the tokens of the next example of the language, by index, for those of
            `merged`.
          preceding: the tokens of the examples before it, by index, for those of `context`.
        """
        chances = [random.Random(self._keys[-1] ^ int(draw)).random for draw in draws]
        rewritten = self._changed_texts(chosen, pairs, following, preceding, chances)
        if BPE_DROPOUT in self._kinds:
            for index in np.flatnonzero(chosen[self._kinds.index(BPE_DROPOUT)]).tolist():
                sides = zip(self._bpe_dropout, rewritten[index] or pairs[index], strict=True)
                source, target = (divide(ids, chances[index]) for divide, ids in sides)
                if (source, target) != tuple(map(list, pairs[index])):
                    rewritten[index] = source, target
        return rewritten

    def _changed_texts(
        self,
        chosen: Bool[np.ndarray, "kinds n"],
        pairs: Sequence[tuple[Ids, Ids]],
        following: Mapping[int, tuple[Ids, Ids]],
        preceding: Mapping[int, Sequence[tuple[Ids, Ids]]],
        chances: Sequence[Chance],
    ) -> list[tuple[Ids, Ids] | None]:
        """Returns the tokens of the changed texts, None for others; see `rewrite`."""
        if self._kinds == [BPE_DROPOUT]:
            return [None] * len(pairs)
        originals = self._texts(pairs)
        next_texts = dict(zip(following, self._texts([*following.values()]), strict=True))
        contexts = self._contexts(preceding)
        changed: list[tuple[int, str, TextSides]] = []
        for index, (tag, texts) in enumerate(originals):
            modified = texts
            for kind_index in np.flatnonzero(chosen[:, index]).tolist():
                if self._kinds[kind_index] == CONTEXT:
                    modified = in_context(modified, contexts[index])
                elif self._kinds[kind_index] == "merged":
                    modified = joined(modified, next_texts[index][1])
                else:
                    modified = KINDS[self._kinds[kind_index]](modified, chances[index])
            is_complete = all(map(str.strip, modified))
            if modified != texts and is_complete and not self._has_unknown(pairs[index]):
                changed.append((index, tag, modified))
        source, target = self._vocabularies
        sources = source.encode_all([tag + modified.source for _, tag, modified in changed])
        targets = target.encode_all([modified.target for _, _, modified in changed])
        rewritten: list[tuple[Ids, Ids] | None] = [None] * len(pairs)
        for (index, _, _), *tokens in zip(changed, sources, targets, strict=True):
            rewritten[index] = tokens[0], tokens[1]
        return rewritten

    def _contexts(
        self, preceding: Mapping[int, Sequence[tuple[Ids, Ids]]]
    ) -> dict[int, list[TextSides]]:
        """Returns the texts before each example; none if one of them is not known."""
        texts = iter(self._texts([pair for pairs in preceding.values() for pair in pairs]))
        contexts = {index: [next(texts)[1] for _ in pairs] for index, pairs in preceding.items()}
        for index, pairs in preceding.items():
            if any(map(self._has_unknown, pairs)):
                contexts[index] = []
        return contexts

    def _texts(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[str, TextSides]]:
        """Returns the tag of each source, and the texts."""
        sides = zip(self._vocabularies, (0, 1), strict=True)
        sources, targets = (
            vocabulary.decode_all([pair[side] for pair in pairs]) for vocabulary, side in sides
        )
        tag_ends = [tag.end() if (tag := _TAG.match(text)) else 0 for text in sources]
        rows = zip(sources, targets, tag_ends, strict=True)
        return [
            (source[:tag_end], TextSides(source[tag_end:], target))
            for source, target, tag_end in rows
        ]

    def _check_context(self, odds: Number | Mapping[str, Number]) -> None:
        """Checks that languages have documents, and vocabularies the separator."""
        group_odds = self._odds[self._kinds.index(CONTEXT)]
        codes = np.array(self._codes)
        if self.by_corpus:
            codes = np.array([code for code, _ in self._cache.manifest.corpus_table])
        without = [c for c in self._codes if self._cache.follows(c, "train") is None]
        no_documents = np.isin(codes, without)
        lacking = codes[no_documents & (group_odds > 0)]
        is_for_all = not isinstance(odds, Mapping)
        if lacking.size and (not is_for_all or lacking.size == np.count_nonzero(group_odds)):
            names = ", ".join([*dict.fromkeys(lacking.tolist())][:5])
            raise ValueError(
                f"the modifier {CONTEXT!r} needs documents, which the training text of {names} in "
                f"{self._cache.directory} does not have; add documents = true to the entries of "
                "corpus.toml whose lines are in order, and build the cache again"
            )
        group_odds[no_documents] = 0
        for side, vocabulary in zip(("source", "target"), self._vocabularies, strict=True):
            if vocabulary.unk in vocabulary.encode(f" {SEPARATOR} "):
                raise ValueError(
                    f"the modifier {CONTEXT!r} joins lines with {SEPARATOR!r}, which the {side} "
                    "vocabulary cannot write"
                )

    def _has_unknown(self, pair: tuple[Ids, Ids]) -> bool:
        """Returns whether the tokens include UNK, so that the text is not known."""
        sides = zip(self._vocabularies, pair, strict=True)
        return any(vocabulary.unk in ids for vocabulary, ids in sides)

    @functools.cached_property
    def _bpe_dropout(self) -> tuple[BpeDropout, BpeDropout]:
        source, target = map(BpeDropout, self._vocabularies)
        return source, target

    @functools.cached_property
    def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        files = self._cache.vocabulary_files()
        return Vocabulary.load(files["source"]), Vocabulary.load(files["target"])


def _probability(kind: str, value: Number) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"modifier {kind!r} has the probability {value!r}; allowed: 0 ... 1")
    return float(value)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
