"""The rules of a schedule, on made-up losses; and what is refused."""

import pytest

from mmt.data.schedule.rules import END, ENTER, LOWER, WAIT, Decision, Schedule, Validation

KNOWN = ["deu_Latn", "fra_Latn", "swh_Latn"]


def run(schedule, losses, *, training=None, epochs=9.0, decided=()):
    """The decisions on a language whose losses these are, a validation every 100 steps."""
    history, made = [], list(decided)
    for number, loss in enumerate(losses, 1):
        seen = {"deu_Latn": training(number)} if training else {}
        found = {} if loss is None else {"deu_Latn": loss}
        history.append(Validation(100 * number, 1000 * number, found, seen))
        decision = schedule.decide("deu_Latn", made, history, epochs)
        made += [decision] if decision else []
    return [(each.step, each.rule, each.factor) for each in made[len(decided) :]]


WORSE = [3.0, 2.0, *(2.1 + number / 20 for number in range(10))]


def schedule(**options):
    return Schedule(**({"late_epochs": None} | options))


def test_a_language_that_overfits_is_lowered_again_and_ends():
    assert run(schedule(), WORSE) == [(500, LOWER, 0.5), (800, END, 0.1)]
    without_end = run(schedule(end_after=None), WORSE)
    assert without_end == [(500, LOWER, 0.5), (800, LOWER, 0.25), (1100, LOWER, 0.125)]
    assert run(schedule(end_after=None, floor=0.4), WORSE) == [(500, LOWER, 0.5), (800, LOWER, 0.4)]
    assert run(schedule(patience=1, end_after=None, lower=0.2), WORSE)[0] == (300, LOWER, 0.2)
    assert run(schedule(lower=1.0), WORSE) == [(800, END, 0.1)]
    assert run(schedule(lower=1.0, end_after=None), WORSE) == []


def test_only_a_repeated_language_ends():
    flat = [2.0] * 12
    assert run(schedule(), flat) == [(700, END, 0.1)]
    assert run(schedule(), flat, epochs=0.9) == []
    assert run(schedule(), [3 - number / 100 for number in range(12)]) == []


def test_a_language_does_not_overfit_while_its_training_loss_rises():
    options = schedule(end_after=None)
    assert run(options, WORSE, training=float) == []
    assert run(options, WORSE, training=lambda number: -number)[0] == (500, LOWER, 0.5)


def test_a_language_that_waits_is_left_alone_and_begins_anew_when_it_enters():
    wait = Decision(0, 0, "deu_Latn", WAIT, 0.0, "")
    enter = Decision(400, 4500, "deu_Latn", ENTER, 1.0, "")
    assert run(schedule(), WORSE, decided=[wait]) == []
    losses = [1.0] * 4 + WORSE  # what it had before it was trained does not count
    assert run(schedule(), losses, decided=[wait, enter])[0] == (900, LOWER, 0.5)


def test_a_missing_loss_decides_nothing():
    assert run(schedule(), [3.0, 2.0, 2.2, 2.3, None, 2.4])[0] == (600, LOWER, 0.5)
    assert run(schedule(), [None] * 9) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": 0}, "patience = 0; allowed: 1 or more"),
        ({"end_after": 0}, "end_after = 0; allowed: 1 or more, or None"),
        ({"floor": 0.0}, "floor.*0.0; allowed: 0 < x <= 1"),
        ({"lower": 1.5}, "lower.*1.5; allowed"),
        ({"late_epochs": -1.0}, "late_epochs"),
        ({"late_epochs": 4.0}, "late_epochs is 4, which needs steps"),
        ({"steps": 0}, "steps = 0; allowed: 1 or more"),
    ],
)
def test_values_out_of_range(options, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        schedule(**options)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"big": ["Germann"]}, r"groups\['big'\]: language 'Germann' is not among.*nearest"),
        ({"big": ["deu"], "all": ["deu_Latn"]}, "deu_Latn is in the group 'big' already"),
        ({"big": []}, "has no languages"),
        ({"deu_Latn": ["swh"]}, "is the code of a language"),
    ],
)
def test_groups_that_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        schedule(groups=groups).units(KNOWN, KNOWN)


def test_groups_take_their_languages():
    units = schedule(groups={"big": ["German", "fra"]}).units(KNOWN, ["deu_Latn", "swh_Latn"])
    assert units == {"big": ["deu_Latn"], "swh_Latn": ["swh_Latn"]}
