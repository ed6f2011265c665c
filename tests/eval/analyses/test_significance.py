"""Intervals and paired tests: what sacreBLEU's command prints."""

import dataclasses
import json
import subprocess
import sys
from math import comb

import numpy as np
import pytest

from eval.analyses import significance
from tests.helpers.translations import SENTENCES, judged, texts

SYSTEMS = (("theirs", 1, 0.3), ("ours", 2, 0.28))  # name, seed, noise


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two systems, and a function that asks the sacrebleu command about both."""
    folder = tmp_path_factory.mktemp("sacrebleu")
    systems = []
    for name, seed, noise in SYSTEMS:
        hypotheses, references = texts(seed, noise)
        (folder / name).write_text("\n".join(hypotheses) + "\n")
        (folder / "references").write_text("\n".join(references) + "\n")
        systems.append(judged(name, hypotheses, references))

    def command(*options):
        done = subprocess.run(
            [sys.executable, "-m", "sacrebleu", "references", "-w", "6", *options],
            cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    return (*systems, command)


def width(low, high):
    return pytest.approx((high - low) / 2, abs=1e-4)


def test_intervals_are_those_of_the_command(pair):
    theirs, ours, command = pair
    by_metric = {
        score["name"]: score
        for score in command(
            "-i", "ours", "--confidence", "-m", "bleu", "chrf", "--chrf-word-order", "2"
        )
    }
    row = significance.interval(ours)
    bleu, chrf = by_metric["BLEU"], by_metric["chrF2++"]
    assert bleu["confidence_var"] == width(row.bleu_low, row.bleu_high)
    assert chrf["confidence_var"] == width(row.chrf_low, row.chrf_high)
    assert bleu["confidence_mean"] == pytest.approx(ours.bleus.mean(), abs=1e-4)
    assert row.bleu_low < ours.row.bleu < row.bleu_high
    assert (row.resamples, row.seed, row.hypotheses) == (1000, 12345, "hash of ours")
    assert row.key[1:] == ours.row.key


def test_paired_bootstrap_is_that_of_the_command(pair):
    theirs, ours, command = pair
    baseline, system = command("-i", "theirs", "ours", "--paired-bs")
    row = significance.paired(ours, theirs)
    assert system["BLEU"]["p_value"] == pytest.approx(row.p_bootstrap, abs=1e-12)
    assert 0.002 < row.p_bootstrap < 0.98  # else many a wrong test would agree
    assert row.delta == pytest.approx(system["BLEU"]["score"] - baseline["BLEU"]["score"], abs=1e-4)
    assert row.chrf_delta == pytest.approx(ours.row.chrf - theirs.row.chrf, abs=1e-4)
    for hypotheses, name in ((theirs, baseline), (ours, system)):
        interval = significance.interval(hypotheses)
        assert name["BLEU"]["ci"] == width(interval.bleu_low, interval.bleu_high)


def test_approximate_randomisation_is_that_of_the_command(pair):
    theirs, ours, command = pair
    _, system = command("-i", "theirs", "ours", "--paired-ar")
    row = significance.paired(ours, theirs)
    assert system["BLEU"]["p_value"] == pytest.approx(row.p_randomization, abs=1e-12)


def test_the_interval_of_a_difference_is_that_of_a_loop(pair):
    """Every resample scored by sacreBLEU from its sentences themselves."""
    import sacrebleu

    theirs, ours, _ = pair
    row = significance.paired(ours, theirs)
    drawn = np.random.default_rng(12345).choice(SENTENCES, (1000, SENTENCES))[:40]
    lines = [texts(*SYSTEMS[1][1:]), texts(*SYSTEMS[0][1:])]
    for index, places in enumerate(drawn):
        mine, other = (
            sacrebleu.corpus_bleu([hyp[i] for i in places], [[ref[i] for i in places]]).score
            for hyp, ref in lines
        )
        assert mine - other == pytest.approx(ours.bleus[index] - theirs.bleus[index], abs=1e-9)
    differences = sorted(ours.bleus - theirs.bleus)
    assert row.delta_low == pytest.approx(differences[25], abs=1e-4)
    assert row.delta_high == pytest.approx(differences[974], abs=1e-4)


def test_the_other_direction_is_the_mirror_image(pair):
    theirs, ours, _ = pair
    forward, backward = significance.paired(ours, theirs), significance.paired(theirs, ours)
    mirrored = significance.mirrored(forward, ours.row, theirs.row)
    assert dataclasses.asdict(mirrored) == pytest.approx(dataclasses.asdict(backward))
    assert mirrored.key == backward.key != forward.key


def test_a_system_is_no_better_than_itself(pair):
    _, ours, _ = pair
    row = significance.paired(ours, ours)
    assert (row.delta, row.delta_low, row.delta_high) == (0, 0, 0)
    assert (row.p_bootstrap, row.p_randomization) == (1, 1)


def test_a_clear_difference_is_significant():
    good, references = texts(1, 0.05)
    bad, _ = texts(1, 0.6)
    row = significance.paired(judged("good", good, references), judged("bad", bad, references))
    assert row.p_bootstrap < 0.01 > row.p_randomization and row.delta_low > 0
    back = significance.paired(judged("bad", bad, references), judged("good", good, references))
    assert back.delta_high < 0


@pytest.mark.parametrize("different", [1, 2, 4])
def test_a_few_better_sentences_are_not_significant(different):
    """Of the swaps of k sentences, all better, two give the difference or its opposite."""
    hypotheses, references = texts(1, 0.3)
    chosen = [i for i in range(SENTENCES) if hypotheses[i] != references[i]][:different]
    better = [references[i] if i in chosen else line for i, line in enumerate(hypotheses)]
    row = significance.paired(
        judged("better", better, references), judged("base", hypotheses, references)
    )
    assert row.delta > 0
    assert row.p_randomization == pytest.approx(2 / 2**different, abs=0.02)


def test_one_line_is_not_significant():
    lines = ["the king went to sea today"]
    row = significance.paired(judged("a", lines, lines), judged("b", ["the king"], lines))
    assert row.delta > 50 and row.p_randomization == 1


def test_one_sentence_and_empty_outputs():
    row = significance.interval(judged("one", ["a king"], ["a king went to sea"]))
    assert row.bleu_low == row.bleu_high
    empty = significance.interval(judged("empty", [""] * 3, ["a b c d e"] * 3))
    assert (empty.bleu_low, empty.bleu_high, empty.chrf_high) == (0, 0, 0)


def test_other_sentences_cannot_be_compared(pair):
    theirs, ours, _ = pair
    row = dataclasses.replace(theirs.row, sentences=59)
    with pytest.raises(ValueError, match="ours has sentences 60, theirs has 59"):
        significance.paired(ours, dataclasses.replace(theirs, row=row))


@pytest.mark.parametrize(("first", "other"), [(0, 0), (0, 5), (3, 9), (6, 6), (12, 1)])
def test_mcnemar_is_the_binomial_test(first, other):
    total, fewest = first + other, min(first, other)
    tail = sum(comb(total, k) for k in range(fewest + 1)) / 2**total
    assert significance.mcnemar(first, other) == pytest.approx(min(1.0, 2 * tail))
