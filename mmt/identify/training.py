"""Trains a `LanguageIdentifier` on lines: multinomial logistic regression by Adagrad.

Half of the lines of a batch are cut to a few words, so that short texts are recognised too. The
class `und` is trained on lines whose letters are in random order, and on letters that no language
has. Probabilities are calibrated by a temperature on held-out lines.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int
from scipy import optimize

from mmt import checked
from mmt.identify import ngrams
from mmt.identify.identifier import NONE, LanguageIdentifier, softmax
from mmt.system.progress import COUNT, REMAINING, progress_bar

_BATCH = 1024
_MAX_WORDS, _MAX_LETTERS = 8, 16  # of a line that is cut
_RATES = {"embedding": 0.2, "output": 0.1, "bias": 0.5}
_RARE = 2  # a letter that occurs less often is not in the alphabet


@dataclass(frozen=True)
class IdentifierConfig:
    """Size and training of a language identifier.

    Attributes:
        lines_per_language: most lines of a language to train on; 0: no identifier.
        epochs: passes over these lines.
        buckets: number of embeddings of n-grams, a power of two.
        dimensions: size of an embedding; an identifier has about buckets * dimensions bytes.
        max_read: most pairs of a language that are read to choose lines from.
        seed: seed of the order, the cuts and the first parameters.
    """

    lines_per_language: int = field(default=2000, metadata=checked.within(0))
    epochs: int = field(default=4, metadata=checked.within(1))
    buckets: int = field(default=2**16, metadata=checked.within(2**8, 2**22))
    dimensions: int = field(default=48, metadata=checked.within(2, 1024))
    max_read: int = field(default=20_000, metadata=checked.within(1))
    seed: int = field(default=0, metadata=checked.within(0))

    def __post_init__(self) -> None:
        checked.check(self)
        if self.buckets & (self.buckets - 1):
            raise ValueError(f"buckets: {self.buckets}; allowed: powers of two")


def train(
    lines: Mapping[str, Sequence[str]],
    held_out: Mapping[str, Sequence[str]],
    *,
    config: IdentifierConfig = IdentifierConfig(),
    corpus_hash: str = "",
) -> LanguageIdentifier:
    """Returns an identifier of the languages of `lines`. It is the same for the same arguments.

    Args:
        lines: FLORES code -> lines of text to train on.
        held_out: the same, other lines, to calibrate the probabilities.
        config: sizes of the identifier and its training.
        corpus_hash: identifies the text.

    Raises:
        ValueError: fewer than two languages have lines with letters.
    """
    random = np.random.default_rng(config.seed)
    alphabet = _alphabet([line for of_language in lines.values() for line in of_language])
    codes = tuple(sorted(code for code in lines if lines[code]))
    if len(codes) < 2 or not len(alphabet):
        raise ValueError(
            f"text in {len(codes)} languages ({', '.join(codes) or 'none'}); to tell languages "
            "apart at least two need lines with letters"
        )
    codes = (*codes, NONE)
    texts, labels = _examples(lines, codes, alphabet, random)
    model = _Classifier(codes, alphabet, config, random)
    with progress_bar(COUNT, "lines", REMAINING) as bar:
        task = bar.add_task("language identifier", total=config.epochs * len(texts))
        steps = config.epochs * -(-len(texts) // _BATCH)
        for step, chosen in enumerate(_batches(len(texts), config.epochs, random)):
            batch = [_cut(texts[index], random) if index % 2 == step % 2 else texts[index]
                     for index in chosen]  # fmt: skip
            model.step(batch, labels[chosen], rate=1 - step / steps)
            bar.advance(task, len(chosen))
    identifier = model.identifier(corpus_hash).quantised()
    texts, labels = _examples(held_out, codes, alphabet, random)
    cut = [_cut(text, random) for text in texts]
    return _calibrated(identifier, [*texts, *cut], np.append(labels, labels))


class _Classifier:
    """The parameters and their Adagrad accumulators."""

    def __init__(
        self,
        codes: tuple[str, ...],
        alphabet: Int[np.ndarray, "A"],
        config: IdentifierConfig,
        random: np.random.Generator,
    ) -> None:
        size, languages = config.dimensions, len(codes)
        self.codes, self.alphabet = codes, alphabet
        self.embedding = random.normal(0, 0.1, (config.buckets, size)).astype(np.float32)
        self.output = random.normal(0, 0.3, (size, languages)).astype(np.float32)
        self.bias = np.zeros(languages, np.float32)
        self._squares = np.full(config.buckets, 1e-8, np.float32)
        self._output_squares = np.full_like(self.output, 1e-8)

    def step(self, lines: Sequence[str], labels: Int[np.ndarray, "N"], *, rate: float) -> None:
        """Takes one step of Adagrad. rate: factor on the learning rates."""
        features = ngrams.extract(lines, alphabet=self.alphabet, buckets=len(self.embedding))
        hidden = features.project(self.embedding)
        errors = softmax(hidden @ self.output + self.bias)
        errors[np.arange(len(lines)), labels] -= 1
        errors /= len(lines)
        used, gradient = features.gradient(errors @ self.output.T)
        of_output = hidden.T @ errors
        self._squares[used] += np.square(gradient).mean(1)
        self._output_squares += np.square(of_output)
        scale = rate * _RATES["embedding"] / np.sqrt(self._squares[used])
        self.embedding[used] -= gradient * scale[:, None]
        self.output -= rate * _RATES["output"] * of_output / np.sqrt(self._output_squares)
        self.bias -= rate * _RATES["bias"] * errors.sum(0)

    def identifier(self, corpus_hash: str) -> LanguageIdentifier:
        """Returns the identifier with these parameters."""
        return LanguageIdentifier(
            self.codes, self.alphabet, self.embedding, self.output, self.bias, corpus_hash
        )


def _calibrated(
    identifier: LanguageIdentifier, lines: Sequence[str], labels: Int[np.ndarray, "N"]
) -> LanguageIdentifier:
    """Returns the identifier with the temperature that gives `lines` the greatest likelihood."""
    scores = identifier.scores(lines)
    right = np.isfinite(scores[np.arange(len(labels)), labels])  # not without letters
    scores, labels = scores[right], labels[right]
    if not len(labels):
        return identifier

    def loss(sharpness: float) -> float:
        logits = (scores - scores.max(1, keepdims=True)) * sharpness
        normaliser = np.log(np.exp(logits).sum(1))
        return float((normaliser - logits[np.arange(len(labels)), labels]).mean())

    optimum = optimize.minimize_scalar(loss, bounds=(0.05, 20), method="bounded")
    sharpness = np.float32(optimum.x)
    return dataclasses.replace(
        identifier, output=identifier.output * sharpness, bias=identifier.bias * sharpness
    )


def _alphabet(lines: Sequence[str]) -> Int[np.ndarray, "A"]:
    """Returns the letters of the lines, without rare ones, as sorted code points."""
    counts = np.zeros(ngrams.CODE_POINTS, np.int64)
    for start in range(0, len(lines), _BATCH):
        points, _ = ngrams.letters(lines[start : start + _BATCH])
        counts += np.bincount(points, minlength=len(counts))
    counts[0] = 0  # the boundary
    return np.flatnonzero(counts >= _RARE).astype(np.int32)


def _examples(
    lines: Mapping[str, Sequence[str]],
    codes: Sequence[str],
    alphabet: Int[np.ndarray, "A"],
    random: np.random.Generator,
) -> tuple[list[str], Int[np.ndarray, "N"]]:
    """Returns lines and the indices of their codes, and lines of none of the languages."""
    texts: list[str] = []
    labels: list[int] = []
    for label, code in enumerate(codes):
        of_language = lines.get(code, ())
        texts += of_language
        labels += [label] * len(of_language)
    unused_letters = np.setdiff1d(np.flatnonzero(ngrams.is_letter()), alphabet)
    count = 2 * -(-len(texts) // len(codes))
    for index, choice in enumerate(random.integers(0, max(len(texts), 1), count if texts else 0)):
        texts.append(_foreign(texts[choice], unused_letters, random) if index % 4 == 0
                     else _scrambled(texts[choice], random))  # fmt: skip
        labels.append(len(codes) - 1)
    return texts, np.array(labels, np.int64)


def _scrambled(text: str, random: np.random.Generator) -> str:
    """Returns the text with its letters in random order; words keep their lengths."""
    letters = list(text.replace(" ", ""))
    random.shuffle(letters)
    shuffled = iter(letters)
    return "".join(letter if letter == " " else next(shuffled) for letter in text)


def _foreign(text: str, unused_letters: Int[np.ndarray, "P"], random: np.random.Generator) -> str:
    """Returns the text with letters of no language in place of all but spaces."""
    drawn = iter(unused_letters[random.integers(0, len(unused_letters), len(text))])
    return "".join(letter if letter == " " else chr(next(drawn)) for letter in text)


def _cut(text: str, random: np.random.Generator) -> str:
    """Returns a few words of the text; of a text in one word, some of its letters."""
    words, separator, limit = text.split(), " ", _MAX_WORDS
    if len(words) < 3:
        words, separator, limit = list(text), "", _MAX_LETTERS
    if len(words) < 3:
        return text
    size = int(random.integers(1 if separator else 2, min(len(words), limit) + 1))
    start = int(random.integers(0, len(words) - size + 1))
    return separator.join(words[start : start + size])


def _batches(
    count: int, epochs: int, random: np.random.Generator
) -> Iterator[Int[np.ndarray, "N"]]:
    """Yields the indices of the examples of each batch, in another order in every epoch."""
    for _ in range(epochs):
        order = random.permutation(count)
        yield from (order[start : start + _BATCH] for start in range(0, count, _BATCH))
