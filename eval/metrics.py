"""BLEU, chrF++, spBLEU and TER, computed by sacreBLEU and always returned with their signatures.

The module also provides counts per sentence, and the scores of many sums of counts at once, which
significance tests need.
"""

import base64
import dataclasses
import functools
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers import tokenizer_spm
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.utils import SACREBLEU_DIR

from mmt import checked

SPBLEU = ("flores200", "flores101")


@dataclasses.dataclass(frozen=True)
class Metrics:
    """The scores to compute in addition to BLEU and chrF++.

    Attributes:
        spbleu: SentencePiece model of spBLEU (Goyal et al., 2022), `flores200` or `flores101`; ""
            for no spBLEU. The model must be in sacreBLEU's cache.
        ter: whether to compute the translation edit rate (Snover et al., 2006). It takes as long as
            all other scores together.

    Raises:
        ValueError: the model of spBLEU is unknown or missing; the message has its path.
    """

    spbleu: str = ""
    ter: bool = False

    def __post_init__(self) -> None:
        checked.check(self, max_int=None, words=checked.JSON)
        checked.one_of(self, "spbleu", self.spbleu, ("", *SPBLEU))
        if self.spbleu:
            _check_model(self.spbleu)


DEFAULT_METRICS = Metrics()


@dataclasses.dataclass(frozen=True)
class Scores:
    """Corpus scores and their sacreBLEU signatures.

    Scores are 0 to 100. TER has no upper bound, and lower is better. None: not computed.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    spbleu: float | None = None
    spbleu_signature: str | None = None
    ter: float | None = None
    ter_signature: str | None = None


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    effective_order: bool = False,
    also: Metrics = DEFAULT_METRICS,
) -> Scores:
    """Returns corpus BLEU (Papineni et al., 2002), chrF++ (Popović, 2017) and the scores in `also`.

    BLEU uses tokenizer 13a and chrF++ word order 2; both tokenize for an English target.
    effective_order omits n-gram orders that no line is long enough for; the signature shows it.
    Scores are rounded to 4 decimals. Raises ValueError for unequal numbers of lines, or no lines.

    >>> score(["the end of March 2021"], ["the end of March 2021"]).bleu
    100.0
    """
    _check_lines(len(hypotheses), len(references))
    metrics: dict[str, Metric] = {
        "bleu": BLEU(effective_order=effective_order),
        "chrf": CHRF(word_order=2),
    }
    if also.spbleu:
        metrics["spbleu"] = BLEU(tokenize=also.spbleu, effective_order=effective_order)
    if also.ter:
        metrics["ter"] = TER()
    values: dict[str, float | str] = {}
    for name, metric in metrics.items():
        value = metric.corpus_score(hypotheses, [references]).score
        values[name] = round(float(value), 4)
        values[f"{name}_signature"] = str(metric.get_signature())
    return Scores(**values)  # type: ignore[arg-type]


def score_again(
    hypotheses: Sequence[str],
    references: Sequence[str],
    former: Scores,
    *,
    also: Metrics = DEFAULT_METRICS,
) -> Scores:
    """Returns `score` of texts that had `former` scores, with the metrics of these too.

    A former spBLEU whose model is now missing is kept if sacreBLEU's version is the same.
    """
    signature = former.spbleu_signature or ""
    name = next((name for name in SPBLEU if f"|tok:{name}|" in signature), "")
    spbleu = also.spbleu or (name if name and _model_file(name).is_file() else "")
    computed = Metrics(spbleu=spbleu, ter=also.ter or former.ter is not None)
    scores = score(hypotheses, references, also=computed)
    if spbleu or signature.replace(f"|tok:{name}|", "|tok:13a|") != scores.bleu_signature:
        return scores
    return dataclasses.replace(scores, spbleu=former.spbleu, spbleu_signature=signature)


def signatures(also: Metrics = DEFAULT_METRICS) -> dict[str, str | None]:
    """Returns the signatures that `score` would give, by field of `Scores`; None where not
    computed.
    """
    fields = dataclasses.asdict(score(["a"], ["a"], also=also))
    return {name: value for name, value in fields.items() if name.endswith("_signature")}


@dataclasses.dataclass(frozen=True)
class Statistics:
    """sacreBLEU's counts per sentence. Corpus scores are computed from their sums.

    For a micro average over languages, concatenate their rows.

    Attributes:
        bleu: (sentences, 10): both lengths, then matches and totals of 1- to 4-grams.
        chrf: (sentences, 24): n-grams in hypothesis, reference and both, for 6 character orders and
            2 word orders.
    """

    bleu: np.ndarray
    chrf: np.ndarray


def packed(counts: np.ndarray) -> str:
    """Returns `Statistics.bleu` as one line of ASCII, about four characters per sentence.

    The totals follow from the hypothesis length n: n, n - 1, n - 2, n - 3. The other counts take
    one byte each, or two if any exceeds 255. They are compressed and encoded in base 85.
    """
    stored = counts[:, :6]
    small = stored.astype(np.uint8 if stored.max(initial=0) < 256 else "<u2")
    return base64.b85encode(zlib.compress(small.T.tobytes(), 9)).decode()


def unpacked(text: str, sentences: int) -> np.ndarray:
    """Returns the counts that `packed` encoded. Raises ValueError for another number of sentences.

    >>> counts = np.array([[5, 4, 3, 2, 1, 0, 5, 4, 3, 2], [2, 3, 1, 0, 0, 0, 2, 1, 0, 0]])
    >>> (unpacked(packed(counts), 2) == counts).all()
    np.True_
    """
    try:
        content = zlib.decompress(base64.b85decode(text))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"packed is {text[:20]!r}…, which cannot be unpacked: {error}") from error
    width, remainder = divmod(len(content), 6 * max(sentences, 1))
    if remainder or width not in (1, 2):
        raise ValueError(f"packed holds {len(content)} bytes; expected {sentences} sentences")
    stored = np.frombuffer(content, np.uint8 if width == 1 else "<u2").reshape(6, sentences).T
    totals = np.maximum(stored[:, :1].astype(int) - np.arange(4), 0)
    return np.concatenate([stored, totals], axis=1).astype(np.float64)


class References:
    """The references of a test set in one language, prepared for counting many systems."""

    def __init__(self, references: Sequence[str]) -> None:
        self._size = len(references)
        self._bleu = BLEU(references=[references])
        self._chrf = CHRF(word_order=2, references=[references])

    def statistics(self, hypotheses: Sequence[str]) -> Statistics:
        """Returns the counts of one system. Raises ValueError for unequal numbers of lines, or no
        lines.
        """
        _check_lines(len(hypotheses), self._size)
        counts = [
            np.array(metric._extract_corpus_statistics(hypotheses, None), np.float64)
            for metric in (self._bleu, self._chrf)
        ]
        return Statistics(*counts)


def bleu(sums: np.ndarray) -> np.ndarray:
    """Returns BLEU from sums of `Statistics.bleu` (..., 10), computed as sacreBLEU does.

    Smoothing is sacreBLEU's `exp`: the k-th order without a match counts as 1/2^k matches.
    """
    hypothesis, reference = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2:6], sums[..., 6:10]
    smoothed = 0.5 ** np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, smoothed) / totals
        logs = np.log(precisions).mean(axis=-1)
        penalty = np.minimum(1 - reference / hypothesis, 0)
        scores = 100 * np.exp(logs + penalty)
    return np.where((totals > 0).all(axis=-1) & (matches > 0).any(axis=-1), scores, 0.0)


def chrf(sums: np.ndarray) -> np.ndarray:
    """Returns chrF++ from sums of `Statistics.chrf` (..., 24), computed as sacreBLEU does."""
    counts = sums.reshape(*sums.shape[:-1], -1, 3)
    hypothesis, reference, matches = (counts[..., i] for i in range(3))
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    precision = np.divide(matches, hypothesis, out=np.zeros_like(matches), where=counted)
    recall = np.divide(matches, reference, out=np.zeros_like(matches), where=counted)
    p, r = precision.sum(axis=-1) / orders, recall.sum(axis=-1) / orders
    # beta is 2: recall weighs twice as much
    return np.divide(500 * p * r, 4 * p + r, out=np.zeros_like(p), where=p + r > 0)


def tokens(line: str) -> list[str]:
    """Returns the words of a line after BLEU's tokenization (tokenizer 13a)."""
    return _tokenizer()(line.rstrip()).split()


def _check_lines(hypotheses: int, references: int) -> None:
    if hypotheses != references or not references:
        raise ValueError(f"{hypotheses} hypotheses for {references} references")


def _model_file(name: str) -> Path:
    return Path(SACREBLEU_DIR, "models", Path(tokenizer_spm.SPM_MODELS[name]["url"]).name)


def _check_model(name: str) -> None:
    path = _model_file(name)
    if not path.is_file():
        raise ValueError(
            f"Metrics.spbleu is {name!r}, but its SentencePiece model is not at {path}: put the "
            f"file from {tokenizer_spm.SPM_MODELS[name]['url']} there (or set SACREBLEU to the "
            "folder that holds models/)"
        )


@functools.cache
def _tokenizer() -> Callable[[str], str]:
    return Tokenizer13a()
