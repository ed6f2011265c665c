"""What is wrong with an output, and what only looks so."""

import pytest

from eval.analyses import output_checks
from eval.analyses.train_overlap import TrainingTargets
from tests.helpers.translations import row

SOURCE = "Und er ging hinaus an das Meer und lehrte sie."
RIGHT = "And he went out to the sea and taught them there."
FLAGS = output_checks.Flags._fields


def flagged(output, *, source=SOURCE, reference=RIGHT, **options):
    flags = output_checks.flags(source, output, reference, **options)
    return {name for name in FLAGS if getattr(flags, name)}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (RIGHT, set()),
        ("He went forth to the shore, and he taught the people.", set()),
        (SOURCE, {"copy", "not_english"}),
        (SOURCE.upper().replace(".", " !"), {"copy"}),  # all in capitals: as names are
        ("", {"empty"}),
        (" ... ", {"empty"}),
        ("And he", {"short"}),
        (RIGHT + " And he said to them that they should go to the other side now.", {"long"}),
        ("And he went out to to to to the sea and taught them.", {"looping"}),
        ("He went to the sea, to the sea, to the sea and taught them.", {"looping"}),
        ("He went hahahahahahahahahahaha to the sea and taught them.", {"looping"}),
        ("Er ging weg und sagte ihnen nicht, was es ist.", {"not_english"}),
        ("And he went out and out to the sea and taught and taught them.", set()),
    ],
)
def test_what_is_wrong_with_an_output(output, expected):
    assert flagged(output) == expected


def test_a_long_line_that_repeats_itself_is_looping():
    psalm = (
        "Let heaven praise him, let the sea praise him, let the hills be glad before him, and let "
        "all that has breath sing to him a new song, for he has come to judge the whole earth."
    )
    around = ["the house of the king and the house of the land"] * 2 + ["of the house"] * 2
    assert flagged(" ".join(around), reference=psalm) == {"looping"}
    assert flagged(psalm, reference=psalm.replace("hills", "mountains")) == set()


@pytest.mark.parametrize(
    ("source", "reference", "output"),
    [
        ("Sven Olson, 1984", "Sven Ohlson, 1984", "Sven Olson, 1984"),  # names and numbers stay
        ("12 – 14", "12 to 14", "12 – 14"),
        ("Halleluja!", "Hallelujah!", "Halleluja!"),
        ("Ja.", "Yes, that is so.", "Yes."),  # short, but not by much
        ("Heilig, heilig, heilig, heilig!", "Holy, holy, holy, holy!", "Holy, holy, holy, holy!"),
        ("el hotel es bueno", "el hotel es bueno", "el hotel es bueno"),  # the reference has it too
    ],
)
def test_what_only_looks_wrong(source, reference, output):
    assert flagged(output, source=source, reference=reference) == set()


def test_a_copy_in_a_script_without_capitals_counts():
    assert "copy" in flagged("他去了海边", source="他去了海边。", reference="He went to the sea.")


def test_memorised_outputs_need_the_training_lines():
    training = TrainingTargets(["In the beginning was the Word.", RIGHT])
    assert output_checks.flags(SOURCE, RIGHT, RIGHT).memorised is None
    assert flagged("in the beginning was the word", training=training) == {"memorised"}
    assert flagged(RIGHT, training=training) == set()  # the right answer, whoever else has it
    assert flagged("In the beginning was a king.", training=training) == set()


def test_another_target_need_not_be_english():
    flags = output_checks.flags(RIGHT, SOURCE, SOURCE, target="deu_Latn")
    assert flags.not_english is None and not any(flags)


def test_shares_of_a_row():
    outputs = [RIGHT, RIGHT, SOURCE, ""]
    lines = [(SOURCE, output, RIGHT) for output in outputs]
    checks = output_checks.check(row(sentences=4), lines, "abc")
    assert (checks.copies, checks.empty, checks.not_english) == (0.25, 0.25, 0.25)
    assert (checks.short, checks.long, checks.looping, checks.recited) == (0, 0, 0, None)
    assert (checks.sentences, checks.hypotheses) == (4, "abc") and checks.key[1:] == row().key
    known = output_checks.check(row(sentences=4), lines, "abc", training=TrainingTargets([SOURCE]))
    assert known.recited == 0.25
    german = output_checks.check(row(sentences=4, target="deu_Latn"), lines, "abc")
    assert german.not_english is None
