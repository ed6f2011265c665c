"""`LanguageIdentifier`: identifies the language of a line among those of a run's training data."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mmt.identify import ngrams
from mmt.run import Run
from mmt.system import atomic

NONE = "und"  # ISO 639-3's code of an undetermined language: none of the others
_VERSION = 1
_BATCH = 2048  # lines


@dataclass(frozen=True, eq=False)
class LanguageIdentifier:
    """A linear classifier of lines over the embeddings of their character n-grams.

    Probabilities are calibrated on held-out lines. A line without letters is `und`.

    Attributes:
        codes: FLORES codes of the languages, then `und` (none of them).
        alphabet: sorted code points of the letters in the training text.
        embedding: a vector for every bucket of n-grams.
        output, bias: the scores of the languages, from the sum of the vectors.
        corpus_hash: identifies the text that it was trained on.

    >>> identifier = LanguageIdentifier.load("runs/demo/multilingual")    # doctest: +SKIP
    >>> identifier.rank(["Dienstag, 2. März 2021"], most=2)               # doctest: +SKIP
    [[('deu_Latn', 0.97), ('lim_Latn', 0.01)]]
    """

    codes: tuple[str, ...]
    alphabet: Int[np.ndarray, "A"]
    embedding: Float[np.ndarray, "B D"]
    output: Float[np.ndarray, "D L"]
    bias: Float[np.ndarray, "L"]
    corpus_hash: str = ""

    @classmethod
    def load(cls, model_dir: str | Path) -> "LanguageIdentifier":
        """Loads the identifier of a run directory.

        Raises:
            ValueError: the run has none, or its file is broken.
        """
        file = Run(model_dir).identifier
        if not file.is_file():
            raise ValueError(
                f"{model_dir} has no language identifier ({file.name}); "
                f"train one: mmt data identify --model {model_dir} --corpus CORPUS"
            )
        try:
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            return cls._from_arrays(arrays)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{file} is no language identifier: {error}") from error

    @classmethod
    def _from_arrays(cls, arrays: dict[str, Any]) -> "LanguageIdentifier":
        if (version := int(arrays["version"])) != _VERSION:
            raise ValueError(f"version {version}; this program reads {_VERSION}")
        identifier = cls(
            codes=tuple(map(str, arrays["codes"])),
            alphabet=arrays["alphabet"],
            embedding=arrays["embedding"] * arrays["scale"].astype(np.float32)[:, None],
            output=arrays["output"].astype(np.float32),
            bias=arrays["bias"].astype(np.float32),
            corpus_hash=str(arrays["corpus_hash"]),
        )
        (buckets, size), languages = identifier.embedding.shape, len(identifier.codes)
        shapes = identifier.output.shape, identifier.bias.shape
        if shapes != ((size, languages), (languages,)) or buckets & (buckets - 1):
            raise ValueError(f"arrays of shapes {identifier.embedding.shape}, {shapes}")
        return identifier

    def arrays(self) -> dict[str, Any]:
        """Returns the arrays that `load` reads; the embeddings are int8 with a scale per row."""
        scale = np.maximum(np.abs(self.embedding).max(1), 1e-6) / 127
        scale = scale.astype(np.float16).astype(np.float32)
        return {
            "version": np.int32(_VERSION),
            "codes": np.array(self.codes),
            "alphabet": self.alphabet.astype(np.int32),
            "embedding": np.rint(self.embedding / scale[:, None]).clip(-127, 127).astype(np.int8),
            "scale": scale.astype(np.float16),
            "output": self.output.astype(np.float32),
            "bias": self.bias.astype(np.float32),
            "corpus_hash": np.array(self.corpus_hash),
        }

    def save(self, model_dir: str | Path) -> None:
        """Writes the identifier of a run directory; replaces an old one."""
        stream = io.BytesIO()
        np.savez_compressed(stream, **self.arrays())
        atomic.write_bytes(Run(model_dir).identifier, stream.getvalue())

    def quantised(self) -> "LanguageIdentifier":
        """Returns the identifier as it is after saving and loading."""
        return self._from_arrays(self.arrays())

    def scores(self, lines: Sequence[str]) -> Float[np.ndarray, "N L"]:
        """Returns unnormalised log-probabilities."""
        parts = [np.zeros((0, len(self.codes)), np.float32)]
        for start in range(0, len(lines), _BATCH):
            features = ngrams.extract(
                lines[start : start + _BATCH],
                alphabet=self.alphabet, buckets=len(self.embedding),
            )  # fmt: skip
            scores = features.project(self.embedding) @ self.output + self.bias
            scores[features.scale == 0] = np.where(np.array(self.codes) == NONE, 0, -np.inf)
            parts.append(scores)
        return np.concatenate(parts)

    def probabilities(self, lines: Sequence[str]) -> Float[np.ndarray, "N L"]:
        """Returns the probability of each of `codes` for each line."""
        return softmax(self.scores(lines))

    def rank(self, lines: Sequence[str], *, most: int = 3) -> list[list[tuple[str, float]]]:
        """Returns the `most` likely codes of each line with their probabilities, best first."""
        probabilities = self.probabilities(lines)
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :most]
        return [
            [(self.codes[index], float(row[index])) for index in order]
            for row, order in zip(probabilities, best, strict=True)
        ]


def softmax(scores: Float[np.ndarray, "N L"]) -> Float[np.ndarray, "N L"]:
    """Returns the probabilities of scores."""
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
