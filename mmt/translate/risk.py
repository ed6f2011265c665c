"""The risk of a translation: flags of likely errors, and a confidence calibrated to chrF.

A run's calibration, `risk.json`, is a logistic regression from the signals of a translation to the
chrF of its line. `eval.calibration` fits it on a validation set.
"""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from mmt.decoding import Decoding
from mmt.run import Run
from mmt.system import atomic
from mmt.translate import casing, line_checks
from mmt.translate.sentences import has_words
from mmt.translate.translation import Hypothesis, Risk, Signals, Translation
from mmt.translate.translator import Translator

_VERSION = 2
_SINCE_VERSION_2 = ("words", "first")  # signals
_MIN_LETTERS = 12  # of a translation whose language is identified
_MAX_NAME_WORDS = 3  # of a line in capitals that may be a name
# Options that do not change the best translation of an ordinary sentence.
_IGNORED_OPTIONS = ("split:", "nbest:", "keep_placeholders:", "recase_capitals:")

# A signal at or above its limit is a flag.
FLAGS = {
    "loop": 1.0, "length": 1.2, "numbers": 0.5, "copy": 1.0, "off_target": 0.9, "uncovered": 0.4,
}  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    """A logistic regression from signals to chrF.

    Attributes:
        weights: a weight for each signal.
        bias: the constant term.
        decode: the decoding that it was fitted with.
        lines: number of lines that it was fitted on.
        risky: the confidence below which a fifth of the validation lines lie.
        reliability: [mean confidence, mean chrF, lines] of held-out lines, in bins of confidence.
    """

    weights: dict[str, float]
    bias: float
    decode: str = ""
    lines: int = 0
    risky: float = 0.0
    reliability: list[list[float]] = field(default_factory=list)

    @classmethod
    def load(cls, model_dir: str | Path) -> "Calibration":
        """Loads the calibration of a run. Raises ValueError if it has none, or a broken one."""
        file = Run(model_dir).risk
        if not file.is_file():
            raise ValueError(
                f"{model_dir} has no calibration of confidence ({file.name}); "
                f"fit one: mmt calibrate --model {model_dir} --corpus CORPUS"
            )
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if (version := content.pop("version")) not in (1, _VERSION):
                raise ValueError(f"version {version}; this program reads 1 and {_VERSION}")
            calibration = cls(**content)
            if version == 1:
                calibration.weights.update(dict.fromkeys(_SINCE_VERSION_2, 0.0))
            if set(calibration.weights) != set(Signals._fields):
                raise ValueError(f"weights of {', '.join(calibration.weights)}")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{file} is no calibration: {error}") from error
        return calibration

    @classmethod
    def load_if_any(cls, model_dir: str | Path) -> "Calibration | None":
        """Loads the calibration of a run; None if it has none. Raises ValueError for a broken one.
        """
        return cls.load(model_dir) if Run(model_dir).risk.is_file() else None

    def warn_unless_fitted_with(self, decoding: Decoding) -> None:
        """Warns if a search is not the one that the calibration was fitted with."""
        if self.decode and _search_of(self.decode) != _search_of(str(decoding)):
            warnings.warn(
                f"the confidence is calibrated for the decoding {self.decode}, not {decoding}",
                stacklevel=3,
            )

    def save(self, model_dir: str | Path) -> None:
        """Writes the calibration of a run; replaces an old one."""
        text = json.dumps({"version": _VERSION, **asdict(self)}, indent=1) + "\n"
        atomic.write_bytes(Run(model_dir).risk, text.encode())

    def confidence(self, signals: Sequence[Signals]) -> Float[np.ndarray, "N"]:
        """Returns the expected chrF of translations, 0 to 1."""
        weights = np.array([self.weights[name] for name in Signals._fields])
        values = np.array(signals, float).reshape(-1, len(weights))
        return 1 / (1 + np.exp(-(values @ weights + self.bias)))


def _search_of(decode: str) -> list[str]:
    return [option for option in decode.split("|") if not option.startswith(_IGNORED_OPTIONS)]


def assess(
    translator: Translator,
    translations: Sequence[Translation],
    calibration: Calibration,
    *,
    target: str | None = None,
) -> list[Translation]:
    """Returns the translations with their `risk`. They must have `token_scores`."""
    code = translator.target_code(target)
    signals = [signals_of(translator, line, line.hypotheses[0], code) for line in translations]
    return [
        translation._replace(risk=_risk(values, float(confidence)))
        for translation, values, confidence in zip(
            translations, signals, calibration.confidence(signals), strict=True
        )
    ]


def _risk(signals: Signals, confidence: float) -> Risk:
    flags = tuple(name for name, limit in FLAGS.items() if getattr(signals, name) >= limit)
    return Risk(confidence, flags, signals)


def signals_of(
    translator: Translator, line: Translation, hypothesis: Hypothesis, target: str
) -> Signals:
    """Returns the signals of one hypothesis of a line. target: FLORES code.

    A recased line is judged in lower case, as the model reads it.
    """
    source, text = line.source, hypothesis.text
    if line.recased:
        source, text = casing.lower(source), casing.lower(text)
    if not has_words(source):  # it is copied unchanged
        return Signals()
    pieces_of_line = _tokens(line, hypothesis)
    tokens = [token for piece in pieces_of_line for token in piece]
    scores = [score for _, score in tokens]
    words = [score for token, score in tokens if _is_of_word(token)] or scores
    first = [piece[0][1] for piece in pieces_of_line if piece]
    pieces = list(map(translator.vocabularies["source"].piece,
                      translator.vocabularies["source"].encode(source)))  # fmt: skip
    written = len(translator.vocabularies["target"].encode(text))
    repeats = line_checks.loops(text, line_checks.normalised(text))
    return Signals(
        loop=float(repeats and not line_checks.loops(source, line_checks.normalised(source))),
        length=min(abs(math.log((written + 1) / (len(pieces) + 1))), 3.0),
        numbers=line_checks.different_numbers(source, text),
        copy=float(line_checks.is_copy(source, text) and not _may_be_names(line)),
        off_target=_off_target(translator, text, target),
        uncovered=sum(map(_is_byte, pieces)) / max(len(pieces), 1),
        score=_mean(scores),
        words=_mean(words),
        first=_mean(first),
        lowest=max(min(scores, default=0.0), -15.0),
    )


def _may_be_names(line: Translation) -> bool:
    """Returns whether a line in capitals is short enough to be a name, which may stay."""
    return line.recased and len(line_checks.normalised(line.source)) <= _MAX_NAME_WORDS


def _tokens(line: Translation, hypothesis: Hypothesis) -> list[list[tuple[str, float]]]:
    """Returns the tokens with their scores of each piece that was translated by itself."""
    if line.pieces:
        rank = line.hypotheses.index(hypothesis)
        return [tokens for piece in line.pieces
                for tokens in _tokens(piece, piece.hypotheses[rank])]  # fmt: skip
    return [list(zip(hypothesis.tokens, hypothesis.token_scores, strict=True))]


def _is_of_word(token: str) -> bool:
    """Returns whether a token has letters and no digits; the end token has neither."""
    return token != "</s>" and any(map(str.isalpha, token)) and not any(map(str.isdigit, token))


def _mean(scores: Sequence[float]) -> float:
    return max(sum(scores) / max(len(scores), 1), -10.0)


def _off_target(translator: Translator, text: str, target: str) -> float:
    identifier = translator.identifier
    if identifier is None or target not in identifier.codes:
        return 0.0
    if sum(map(str.isalpha, text)) < _MIN_LETTERS:
        return 0.0
    return 1 - float(identifier.probabilities([text])[0, identifier.codes.index(target)])


def _is_byte(piece: str) -> bool:
    return piece.startswith("<0x") or piece == "<unk>"
