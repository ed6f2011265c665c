"""Data augmentation: upper case, typos, tags and others, to make a model robust to such input.

A modifier changes the texts of a pair with some probability (as in OpusTrainer, Barreau et al.
2023). Seed and draw determine the modified examples and the changes. A cache holds tokens: they are
decoded, modified, and encoded again with the run's vocabulary.
"""

import functools
import hashlib
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Int

from mmt import suggest
from mmt.data import mixing
from mmt.data.cache import Cache
from mmt.data.stages import Modifiers, Number
from mmt.data.vocabulary import Vocabulary

T = TypeVar("T")
Chance = Callable[[], float]  # returns a new number in [0, 1) every time
Ids = list[int]

_TAG = re.compile(r"<2[\w-]+> ?(?:<bt> ?)?|<bt> ?")
_SPACELESS = {  # first words of the Unicode names of letters in scripts without spaces
    "CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "FULLWIDTH", "THAI", "LAO", "KHMER", "MYANMAR",
    "TIBETAN",
}  # fmt: skip
_MARKUP = ("b", "i", "u", "em", "strong", "a", "span", "p")
_SIGNS = "★☆♥♪→←✓✗©®™§¶†‡•※♦☀☺😀😂👍🎉🔥🙏💡"
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789#@_-/"


class TextSides(NamedTuple):
    """A sentence without its tag, and its translation."""

    source: str
    target: str


def upper_case(texts: TextSides, chance: Chance) -> TextSides:
    """Converts both sides to UPPER CASE."""
    return TextSides(texts.source.upper(), texts.target.upper())


def title_case(texts: TextSides, chance: Chance) -> TextSides:
    """Capitalises Every Word Of Both Sides, As In A Headline."""
    return TextSides(*(re.sub(r"(?<!\S)\S", lambda m: m[0].title(), side) for side in texts))


def no_punctuation(texts: TextSides, chance: Chance) -> TextSides:
    """Removes the punctuation at the end of both sides."""
    return TextSides(*map(_unended, texts))


def typos(texts: TextSides, chance: Chance) -> TextSides:
    """Makes about one typing error in twenty letters of the source.

    An error swaps two letters, removes or doubles one, or replaces it by another letter of the
    sentence.
    """
    letters = list(texts.source)
    for _ in range(1 + len(letters) // 20):
        places = [i for i, letter in enumerate(letters) if letter.isalpha()]
        if len(places) < 3:
            break
        at, other = _pick(places, chance), _pick(places, chance)
        slip = int(chance() * 4)
        if slip == 0 and at + 1 < len(letters):
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        elif slip == 1:
            del letters[at]
        elif slip == 2:
            letters.insert(at, letters[at])
        else:
            letters[at] = letters[other]
    return TextSides("".join(letters), texts.target)


def noise(texts: TextSides, chance: Chance) -> TextSides:
    """Puts the same signs or made-up word before or after both sides; the model learns to copy."""
    kind = _SIGNS if chance() < 0.5 else _LETTERS
    made = "".join(_pick(kind, chance) for _ in range(1 + int(chance() * (3, 8)[kind is _LETTERS])))
    if chance() < 0.5:
        return TextSides(*(f"{made} {side}" for side in texts))
    return TextSides(*(f"{side} {made}" for side in texts))


def tags(texts: TextSides, chance: Chance) -> TextSides:
    """Puts both sides in the same markup, or the same placeholder at their ends."""
    if chance() < 0.25:
        number = int(chance() * 10)
        return TextSides(*(f"{side} {{{number}}}" for side in texts))
    name = _pick(_MARKUP, chance)
    return TextSides(*(f"<{name}>{side}</{name}>" for side in texts))


def numbers(texts: TextSides, chance: Chance) -> TextSides:
    """Replaces a number that is on both sides by another number.

    Numbers of one digit and the last two digits of long numbers stay, because in many languages the
    words around depend on them.
    """
    by_side = [set(re.findall(r"\d+", side)) for side in texts]
    new = {number: _other(number, chance) for number in sorted(by_side[0] & by_side[1])}
    return TextSides(*(re.sub(r"\d+", lambda m: new.get(m[0], m[0]), side) for side in texts))


def copied(texts: TextSides, chance: Chance) -> TextSides:
    """Uses the translation also as the source (Currey et al. 2017).

    A first stage of copies teaches a decoder to read its source faster than pairs do.
    """
    return TextSides(texts.target, texts.target)


# In the order in which they are applied; `merged` needs a second pair, see `Rewriter`.
KINDS: Mapping[str, Callable[[TextSides, Chance], TextSides]] = {
    "numbers": numbers,
    "merged": lambda texts, chance: texts,
    "copied": copied,
    "no_punctuation": no_punctuation,
    "typos": typos,
    "title_case": title_case,
    "upper_case": upper_case,
    "noise": noise,
    "tags": tags,
}


class Rewriter:
    """The modifiers of one stage.

    Args:
      probabilities: {'upper_case': 0.05, 'typos': {'deu': 0.1, 'fra': 0.05}}: the probability of a
        modifier of `KINDS` in all languages, or per language (by any name). `merged` joins a
        sentence with the next one of its language. An example may get several modifiers.
      cache: the cache whose vocabularies decode and encode.
      codes: FLORES codes; a language is identified by its position there.
      seed: of the run.

    Raises:
      ValueError: an unknown modifier or language, a probability outside 0 ... 1.
    """

    def __init__(self, probabilities: Modifiers, cache: Cache, codes: Sequence[str], seed: int):
        if not isinstance(probabilities, Mapping):
            raise ValueError(
                f"modifiers = {probabilities!r}; allowed: {{NAME: PROBABILITY, ...}}, the names "
                f"{', '.join(KINDS)}"
            )
        self._cache, self._codes = cache, codes
        self._kinds = [kind for kind in KINDS if kind in probabilities]
        self._odds = np.zeros((len(self._kinds), len(codes)))
        for kind, odds in probabilities.items():
            if kind not in KINDS:
                near = suggest.hint(str(kind), KINDS, cutoff=0.0)
                raise ValueError(f"no modifier {kind!r}{near}; allowed: {', '.join(KINDS)}")
            row = self._odds[self._kinds.index(kind)]
            if isinstance(odds, Mapping):
                named = {name: codes.index(mixing.resolve(name, codes)) for name in odds}
                if len(set(named.values())) < len(named):
                    raise ValueError(f"modifier {kind!r} names a language twice: {dict(odds)}")
                for name, value in odds.items():
                    row[named[name]] = _probability(kind, value)
            else:
                row[:] = _probability(kind, odds)
        self._odds[:, [mixing.is_monolingual(code) for code in codes]] = 0  # has noise spans
        digests = [f"{seed}/modifiers/{kind}" for kind in (*self._kinds, "")]
        self._keys = [_digest(text) for text in digests]

    def chosen(
        self, draws: Int[np.ndarray, "n"], languages: Int[np.ndarray, "n"]
    ) -> Bool[np.ndarray, "kinds n"]:
        """Returns the modifiers of each draw."""
        key = np.array(self._keys[:-1], np.uint64)[:, None]
        return mixing.uniform(draws.astype(np.uint64) ^ key) < self._odds[:, languages]

    def merged(self, chosen: Bool[np.ndarray, "kinds n"]) -> Int[np.ndarray, "_"]:
        """Returns the examples that need the next one of their language."""
        if "merged" not in self._kinds:
            return np.zeros(0, np.int64)
        return np.flatnonzero(chosen[self._kinds.index("merged")])

    def rewrite(
        self,
        draws: Int[np.ndarray, "n"],
        chosen: Bool[np.ndarray, "kinds n"],
        pairs: Sequence[tuple[Ids, Ids]],
        following: Mapping[int, tuple[Ids, Ids]],
    ) -> list[tuple[Ids, Ids] | None]:
        """Returns the tokens of modified examples; the tag stays first on the source.

        None stands for an example that the modifiers do not change.

        Args:
          draws: the draws of the examples.
          chosen: their modifiers.
          pairs: their tokens.
          following: the tokens of the next example of the language, by index, for those of
            `merged`.
        """
        before = self._texts(pairs)
        others = dict(zip(following, self._texts([*following.values()]), strict=True))
        kept: list[tuple[int, str, TextSides]] = []
        for place, (tag, texts) in enumerate(before):
            chance = random.Random(self._keys[-1] ^ int(draws[place])).random
            made = texts
            for index in np.flatnonzero(chosen[:, place]).tolist():
                if self._kinds[index] == "merged":
                    made = _joined(made, others[place][1])
                else:
                    made = KINDS[self._kinds[index]](made, chance)
            if made != texts and all(map(str.strip, made)) and not self._unknown(pairs[place]):
                kept.append((place, tag, made))
        source, target = self._vocabularies
        sources = source.encode_all([tag + made.source for _, tag, made in kept])
        targets = target.encode_all([made.target for _, _, made in kept])
        rewritten: list[tuple[Ids, Ids] | None] = [None] * len(pairs)
        for (place, _, _), *new in zip(kept, sources, targets, strict=True):
            rewritten[place] = new[0], new[1]
        return rewritten

    def _texts(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[str, TextSides]]:
        """Returns the tag of each source, and the texts."""
        sides = zip(self._vocabularies, (0, 1), strict=True)
        sources, targets = (
            vocabulary.decode_all([pair[side] for pair in pairs]) for vocabulary, side in sides
        )
        cuts = [tag.end() if (tag := _TAG.match(text)) else 0 for text in sources]
        parts = zip(sources, targets, cuts, strict=True)
        return [(source[:cut], TextSides(source[cut:], target)) for source, target, cut in parts]

    def _unknown(self, pair: tuple[Ids, Ids]) -> bool:
        """Returns whether the tokens include UNK, so that the text is not known."""
        sides = zip(self._vocabularies, pair, strict=True)
        return any(vocabulary.unk in ids for vocabulary, ids in sides)

    @functools.cached_property
    def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        files = self._cache.vocabulary_files()
        return Vocabulary.load(files["source"]), Vocabulary.load(files["target"])


def _joined(texts: TextSides, others: TextSides) -> TextSides:
    """Returns two sentences as one text, with a space if their script has spaces."""

    def join(first: str, second: str) -> str:
        spaceless = _is_spaceless(first[-1:]) and _is_spaceless(second[:1])
        return f"{first}{'' if spaceless else ' '}{second}"

    return TextSides(*map(join, texts, others))


def _is_spaceless(letter: str) -> bool:
    return bool(letter) and unicodedata.name(letter, "").split(" ")[0] in _SPACELESS


def _unended(side: str) -> str:
    end = len(side)
    while end and (side[end - 1].isspace() or unicodedata.category(side[end - 1]) == "Po"):
        end -= 1
    return side[:end]


def _other(number: str, chance: Chance) -> str:
    """Returns another number in the same script; the same number if no digit may change."""
    keep = 1 if len(number) == 2 else 2
    if len(number) < 2 or (len(number) == 2 and unicodedata.digit(number[0]) < 2):
        return number
    zero = ord(number[0]) - unicodedata.digit(number[0])
    least = 2 if len(number) == 2 else 1
    digits = [least + int(chance() * (10 - least))]
    digits += [int(chance() * 10) for _ in range(len(number) - keep - 1)]
    return "".join(chr(zero + digit) for digit in digits) + number[len(number) - keep :]


def _pick(some: Sequence[T], chance: Chance) -> T:
    return some[int(chance() * len(some))]


def _probability(kind: str, value: Number) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"modifier {kind!r} has the probability {value!r}; allowed: 0 ... 1")
    return float(value)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
