"""Two systems: McNemar's exact test by language and by behaviour, corrected."""

from eval.analyses import significance
from eval.behave import difference
from eval.behave.suite import JudgedCase


def judged(language, behaviour, faults):
    return [
        JudgedCase(language, behaviour, str(number), "", "x" * fault)
        for number, fault in enumerate(faults)
    ]


def test_groups_are_counted_and_corrected_together():
    first = judged("deu_Latn", "links", [1] * 12) + judged("fra_Latn", "tiny", [0, 1, 0, 1])
    other = judged("deu_Latn", "links", [0] * 11 + [1]) + judged("fra_Latn", "tiny", [1, 0, 0])
    made = difference.compare(first, other)
    assert made.left_out == 1
    german, french = made.languages
    assert (german.cases, german.passed, german.only) == (12, (0, 11), (0, 11))
    assert (french.cases, french.passed, french.only) == (3, (2, 2), (1, 1))
    assert [group.q for group in made.languages] == significance.corrected([german.p, french.p])
    assert (german.verdict, french.verdict) == ("better", "tie")
    assert [group.name for group in made.behaviours] == ["links", "tiny"]
    assert difference.compare(other, first).languages[0].verdict == "worse"
