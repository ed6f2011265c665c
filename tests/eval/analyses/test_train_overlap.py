"""Training lines: what of a test set they give away, and how scores go along with it."""

import pytest
import sacrebleu

from eval.analyses.train_overlap import EDGES, TrainingTargets, measure
from tests.helpers.translations import judged, texts

LINES = ["In the beginning was the Word,", "and the Word was with God", "Amen."]


def test_lines_are_known_without_case_and_punctuation():
    training = TrainingTargets(LINES)
    assert "in the beginning, was the WORD" in training and "Amen" in training
    assert "in the beginning" not in training and "was the word" not in training


@pytest.mark.parametrize(
    ("line", "share"),
    [
        (LINES[0], 1.0),
        ("in the beginning was", 1.0),
        ("in the beginning was a king", 1 / 3),
        ("word and the word was with", 2 / 3),  # no 4-gram goes over the end of a line
        ("at last there was a king", 0.0),
        ("the word was", None),
    ],
)
def test_overlap_is_the_share_of_known_4_grams(line, share):
    assert TrainingTargets(iter(LINES)).overlap(line) == pytest.approx(share)


def test_bins_hold_all_lines_with_sacrebleu_s_scores():
    hypotheses, references = texts(1, 0.2)
    seen = references[:15] + [line + " king" * 9 for line in references[15:30]]
    training = TrainingTargets(
        [*seen, *("and " + " ".join(line.split()[:6]) for line in references[30:])]
    )
    row = measure(judged("ours", hypotheses, references), references, training)
    assert [(bin_.low, bin_.high) for bin_ in row.bins] == list(zip(EDGES, EDGES[1:], strict=False))
    shares = [training.overlap(line) for line in references]
    assert sum(bin_.sentences for bin_ in row.bins) == sum(share is not None for share in shares)
    for place, bin_ in enumerate(row.bins):
        inside = [
            index
            for index, share in enumerate(shares)
            if share is not None and min(int(share * 5 + 1e-9), 4) == place
        ]
        assert bin_.sentences == len(inside)
        if inside:
            part = [[side[i] for i in inside] for side in (hypotheses, references)]
            expected = sacrebleu.corpus_bleu(part[0], [part[1]]).score
            assert bin_.bleu == pytest.approx(expected, abs=1e-3)
    assert sum(bin_.sentences > 0 for bin_ in row.bins) >= 3


def test_a_bin_without_lines_has_no_score():
    hypotheses, references = texts(1, 0.2)
    row = measure(judged("ours", hypotheses, references), references, TrainingTargets([]))
    assert [bin_.bleu is None for bin_ in row.bins] == [False, True, True, True, True]
