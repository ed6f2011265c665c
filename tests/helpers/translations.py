"""Made-up translations, better and worse, and the rows of their scores."""

import dataclasses

import numpy as np

from eval import metrics
from eval.analyses.significance import Judged
from eval.records.results import Row

SENTENCES = 60
WORDS = "the a king went to sea and said unto him behold we shall see Paul , again .".split()


def texts(seed, noise):
    """Hypotheses, with that share of the words another, doubled or left out, and references."""
    rng = np.random.default_rng(3)
    references = [" ".join(rng.choice(WORDS, rng.integers(4, 16))) for _ in range(SENTENCES)]
    rng = np.random.default_rng(seed)
    hypotheses = [
        " ".join(
            str(rng.choice(WORDS)) * int(rng.integers(0, 3)) if rng.random() < noise else word
            for word in line.split()
        )
        for line in references
    ]
    return hypotheses, references


def row(hypotheses=("a",), references=("a",), **changes):
    """The row of a system's scores."""
    values = {
        "system": "tiny", "kind": "multilingual", "testset": "made-up", "source": "deu_Latn",
        "target": "eng_Latn", "sentences": len(references), "train_pairs": 9,
        "checkpoint": "tiny/1", "decode": "beam:4", "seconds": 1.0, "config": "abc",
    }  # fmt: skip
    scores = dataclasses.asdict(metrics.score(hypotheses, references))
    return Row(**(values | scores | changes))


def judged(name, hypotheses, references):
    """The same with the counts of its sentences."""
    scored = row(hypotheses, references, system=name, checkpoint=f"{name}/1")
    statistics = metrics.References(references).statistics(hypotheses)
    return Judged(statistics.bleu, statistics.chrf, scored, f"hash of {name}")
