"""`Translation` and `Hypothesis`: the results of translating a line, and their output formats."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mmt.translate.alignment import Alignment
from mmt.translate.sentences import has_words
from mmt.translate.source_language import Detected


class Hypothesis(NamedTuple):
    """A translation of a line and its score.

    Attributes:
        text: the translation, without line breaks.
        score: the log-probability divided by the length penalty. For a line translated in pieces it
            is the mean over the pieces with letters or digits; for a line without any it is 0.
        tokens: vocabulary pieces, end token included; empty for a line translated in pieces.
        token_scores: log-probabilities of the tokens, whose sum is the undivided score; empty
            unless requested.
        alignment: the alignment with the line, where inline tags need it
            (`mmt.translate.markup.aligned`).
        quality: the neural score of a translator with a `reranker`; for a line translated in pieces
            it is a mean as the score is.
    """

    text: str
    score: float
    tokens: tuple[str, ...] = ()
    token_scores: tuple[float, ...] = ()
    alignment: Alignment | None = None
    quality: float | None = None


class Signals(NamedTuple):
    """Features that predict the quality of a translation; 0 is harmless, except for the scores.

    Attributes:
        loop: 1 if the translation repeats itself, and the source does not.
        length: |log| of the ratio of tokens, translation to source; at most 3.
        numbers: share of the numbers, also of those in dates, that only one side has.
        copy: 1 if the source is left untranslated.
        off_target: probability that the translation is not in the target language; 0 if unknown.
        uncovered: share of the source's pieces that the vocabulary does not have.
        score: mean log-probability of a token; at least -10.
        words: mean log-probability of the tokens that have letters and no digits; at least -10.
            Copied numbers and punctuation, which are nearly certain, do not raise it.
        first: log-probability of the first token; at least -10.
        lowest: log-probability of the least likely token; at least -15.
    """

    loop: float = 0.0
    length: float = 0.0
    numbers: float = 0.0
    copy: float = 0.0
    off_target: float = 0.0
    uncovered: float = 0.0
    score: float = 0.0
    words: float = 0.0
    first: float = 0.0
    lowest: float = 0.0


class Risk(NamedTuple):
    """The risk of a translation.

    Attributes:
        confidence: expected chrF of the line, 0 to 1.
        flags: names of the signals that are at or above their limit.
        signals: the signals.
    """

    confidence: float
    flags: tuple[str, ...]
    signals: Signals


class Translation(NamedTuple):
    """A line and its translations, best first.

    Attributes:
        source: the line.
        hypotheses: translations, best first.
        pieces: translations of the pieces of a line that is too long for the model, else empty. The
            i-th hypothesis of the line joins the i-th hypothesis of each piece with spaces.
        line: number of the line, from 0.
        detected: language of the line, if it was to be detected.
        risk: risk of the best translation, if it was assessed (`mmt.translate.risk`).
        recased: whether the line or a part of it was in capitals, and was translated in sentence
            case (`Decoding.recase_capitals`).
    """

    source: str
    hypotheses: tuple[Hypothesis, ...]
    pieces: tuple["Translation", ...] = ()
    line: int = 0
    detected: Detected | None = None
    risk: Risk | None = None
    recased: bool = False

    @property
    def text(self) -> str:
        """Returns the best translation."""
        return self.hypotheses[0].text

    def best(self, count: int) -> "Translation":
        """Returns the line with its `count` best translations only."""
        pieces = tuple(piece.best(count) for piece in self.pieces)
        return self._replace(hypotheses=self.hypotheses[:count], pieces=pieces)

    def recased_by(self, change: Callable[[str], str]) -> "Translation":
        """Returns the translation of a recased line, with changed texts; of equal ones the first.
        """
        changed = (each._replace(text=change(each.text)) for each in self.hypotheses)
        return self._replace(hypotheses=tuple(changed), recased=True).distinct()

    def distinct(self) -> "Translation":
        """Returns the translation without hypotheses that have the text of a better one."""
        first: dict[str, Hypothesis] = {}
        for hypothesis in self.hypotheses:
            first.setdefault(hypothesis.text, hypothesis)
        return self._replace(hypotheses=tuple(first.values()))


def join(line: str, pieces: Sequence[Translation]) -> Translation:
    """Returns the translation of a line from those of its pieces; an empty one without pieces."""
    if not pieces:
        return Translation(line, (Hypothesis("", 0.0),))
    recased = any(piece.recased for piece in pieces)
    if len(pieces) == 1:
        return Translation(line, pieces[0].hypotheses, recased=recased)
    count = min(len(piece.hypotheses) for piece in pieces)
    scored = [piece for piece in pieces if has_words(piece.source)] or pieces
    hypotheses = (
        Hypothesis(
            " ".join(filter(None, (piece.hypotheses[i].text for piece in pieces))),
            sum(piece.hypotheses[i].score for piece in scored) / len(scored),
            quality=mean_quality([piece.hypotheses[i] for piece in scored]),
        )
        for i in range(count)
    )
    return Translation(line, tuple(hypotheses), tuple(pieces), recased=recased)


def mean_quality(hypotheses: Sequence[Hypothesis]) -> float | None:
    """Returns the mean quality of those hypotheses that have one; None if none has."""
    known = [each.quality for each in hypotheses if each.quality is not None]
    return sum(known) / len(known) if known else None


def on_one_line(text: str) -> str:
    """Replaces every character that a program may take for a line break by a space."""
    return re.sub("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+", " ", text).strip()


def format_text(translation: Translation, *, nbest: int = 1) -> str:
    """Returns the translation as text.

    An assessed translation has two more columns, separated by tabs: confidence and flags.

    With `nbest` above 1 there is one line per hypothesis, best first, as Moses and Marian write
    them: `line ||| translation ||| score`, where `line` counts input lines from 0. The quality of
    a hypothesis, if it has one, is a fourth column.
    """
    if nbest == 1 and translation.risk:
        text = translation.text.replace("\t", " ")
        return f"{text}\t{translation.risk.confidence:.3f}\t{','.join(translation.risk.flags)}"
    if nbest == 1:
        return translation.text
    return "\n".join(
        f"{translation.line} ||| {hypothesis.text} ||| {hypothesis.score:.6f}"
        + ("" if hypothesis.quality is None else f" ||| {hypothesis.quality:.6f}")
        for hypothesis in translation.hypotheses
    )


def to_json(translation: Translation) -> dict[str, Any]:
    """Returns {"source", "hypotheses": [{"text", "score", "tokens", "token_scores"}, ...]}.

    Further keys are present where they apply: "token_scores", "quality", "detected" {"language",
    "probability"}, "risk" {"confidence", "flags", "signals"}. A line translated in pieces has
    "pieces" beside its hypotheses, which then have no tokens.
    """
    result: dict[str, Any] = {
        "source": translation.source,
        "hypotheses": [_hypothesis_json(hypothesis) for hypothesis in translation.hypotheses],
    }
    if translation.detected:
        result["detected"] = {
            "language": translation.detected.language,
            "probability": round(translation.detected.probability, 6),
        }
    if translation.risk:
        result["risk"] = _risk_json(translation.risk)
    if translation.pieces:
        result["pieces"] = [to_json(piece) for piece in translation.pieces]
    return result


def _hypothesis_json(hypothesis: Hypothesis) -> dict[str, Any]:
    result: dict[str, Any] = {"text": hypothesis.text, "score": round(hypothesis.score, 6)}
    if hypothesis.tokens:
        result["tokens"] = list(hypothesis.tokens)
    if hypothesis.token_scores:
        result["token_scores"] = [round(score, 6) for score in hypothesis.token_scores]
    if hypothesis.quality is not None:
        result["quality"] = round(hypothesis.quality, 6)
    return result


def _risk_json(risk: Risk) -> dict[str, Any]:
    signals = {name: round(value, 4) for name, value in risk.signals._asdict().items()}
    return {"confidence": round(risk.confidence, 4), "flags": list(risk.flags), "signals": signals}
