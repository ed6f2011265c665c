"""BLEU and chrF++ by sacreBLEU, never without their signatures. Nothing else is computed here."""

import dataclasses
from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@dataclasses.dataclass(frozen=True)
class Scores:
    """Corpus scores from 0 to 100, and sacreBLEU's signatures that say how they were computed."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def score(
    hypotheses: Sequence[str], references: Sequence[str], *, effective_order: bool = False
) -> Scores:
    """Corpus BLEU (Papineni et al., 2002; tokenizer 13a) and chrF++ (Popović, 2017; word order 2).

    Both tokenize as for an English target. effective_order leaves out n-gram orders that no line
    is long enough for, which a handful of short lines needs; the signature tells. Scores are
    rounded to 4 digits after the point. Raises ValueError on unequal or no lines.

    >>> score(["the end of March 2021"], ["the end of March 2021"]).bleu
    100.0
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    bleu, chrf = BLEU(effective_order=effective_order), CHRF(word_order=2)
    bleu_score = bleu.corpus_score(hypotheses, [references]).score
    chrf_score = chrf.corpus_score(hypotheses, [references]).score
    return Scores(
        bleu=round(float(bleu_score), 4),
        bleu_signature=str(bleu.get_signature()),
        chrf=round(float(chrf_score), 4),
        chrf_signature=str(chrf.get_signature()),
    )
