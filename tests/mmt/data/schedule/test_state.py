"""A run with a schedule: what it draws, and that resuming and other processes change nothing."""

import json
import math

import numpy as np
import pytest

from mmt import distributed
from mmt.data import ledger, pipeline
from mmt.data.curriculum import CurriculumSampler
from mmt.data.mixing import Mixing
from mmt.data.schedule import Schedule, ScheduleState
from mmt.data.stages import Stage
from tests.helpers.streams import LENGTHS, examples_of, part, write_cache

COUNTS = {"deu_Latn": 400, "fra_Latn": 90, "swh_Latn": 25, "yor_Latn": 11}
EVERY, VALIDATIONS = 4, 9
STEPS = EVERY * VALIDATIONS
ACTING = Schedule(steps=STEPS, patience=1, end_after=2, late_epochs=2.4)
LOSSES = {  # by validation
    "deu_Latn": [5 - number / 9 for number in range(VALIDATIONS)],
    "fra_Latn": [3.0, 2.0, *(2.1 + number / 9 for number in range(VALIDATIONS - 2))],
    "swh_Latn": [4 - number / 9 for number in range(VALIDATIONS)],
    "yor_Latn": [2.5] * VALIDATIONS,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS)


def stream(directory, **options):
    options = {
        "feature_lengths": LENGTHS, "batch_size": 16, "virtual_shards": 8, "schedule": ACTING,
        "mixing": Mixing(1.5),
    } | options  # fmt: skip
    return pipeline.train_batches(directory, **options)


class Played:
    """A run that is validated every EVERY steps, on as many processes as `journey` has per leg."""

    def __init__(self, directory, journey, **options):
        self.batches, self.decisions, self.state, step = [], [], None, 0
        for processes, validations in journey:
            parts = [stream(directory, **options) for _ in range(processes)]
            for process, local in enumerate(parts):
                local.share(part(process, processes))
                if self.state is not None:
                    local.set_state(self.state)
            for _ in range(validations):
                for _ in range(EVERY):
                    drawn = [next(local) for local in parts]
                    self.batches.append(
                        {name: np.concatenate([each[name] for each in drawn]) for name in drawn[0]}
                    )
                step += EVERY
                self.validate(parts, step)
            states = [local.get_state() for local in parts]
            self.state = json.loads(json.dumps(distributed.merged(states)))
            self.drawn = max(local.next_draw() for local in parts)
            self.sampler = parts[0].order.sampler
            for local in parts:
                local.close()

    def validate(self, parts, step):
        draw = max(local.next_draw() for local in parts)
        losses = {code: values[step // EVERY - 1] for code, values in LOSSES.items()}
        answers = [
            local.validated(losses, draw, training=dict.fromkeys(COUNTS, 1 / step), step=step)
            for local in parts
        ]
        assert all(answer == answers[0] for answer in answers)
        self.decisions += answers[0]

    def same(self, other):
        assert self.decisions == other.decisions and self.state == other.state
        for ours, theirs in zip(self.batches, other.batches, strict=True):
            for name in ours:
                np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.fixture(scope="module")
def whole(directory):
    return Played(directory, [(1, VALIDATIONS)])


def test_what_is_decided(whole):
    rules = [(each["rule"], each["name"]) for each in whole.decisions]
    assert ("wait", "yor_Latn") in rules[:2]
    french = [each for each in whole.decisions if each["name"] == "fra_Latn"]
    assert [(each["rule"], each["step"]) for each in french] == [("lower", 12), ("end", 16)]
    yoruba = [each for each in whole.decisions if each["name"] == "yor_Latn"]
    assert [each["rule"] for each in yoruba[:2]] == ["wait", "enter"]
    assert yoruba[0]["after"] == yoruba[1]["before"] == 0 < yoruba[1]["after"]
    assert "French: lower, mixing rate " in french[0]["text"]
    assert "overfits since step 8: validation loss 2.000 there, 2.100 now" in french[0]["text"]
    assert french[1]["after"] < french[0]["after"] < french[0]["before"]


def test_the_batches_have_the_rates_in_force(whole):
    changes = [0, *(draw for draw, _ in whole.sampler.changes if draw < whole.drawn)]
    for start, end in zip(changes, [*changes[1:], whole.drawn], strict=True):
        counts = whole.sampler.before(end) - whole.sampler.before(start)
        rates = np.array(list(whole.sampler.rates(start).values()))
        assert rates.sum() == pytest.approx(1)
        assert abs(counts - rates * (end - start)).max() <= 2
    seen = np.zeros(4)
    for batch in whole.batches:
        for language, _ in examples_of(batch):
            seen[language] += 1
    # those in open rows are drawn but not in a batch
    assert np.all(whole.sampler.before(whole.drawn) - seen <= 8 * pipeline.OPEN_ROWS * 8)
    shown = np.array([len(examples_of(batch)) for batch in whole.batches]).sum()
    assert shown == seen.sum() > 600


def test_late_languages_are_shown_as_often_as_planned(directory):
    """Nothing overfits: the forecast is exact but for the examples per row."""
    plain = stream(directory, schedule=Schedule(steps=STEPS, late_epochs=2.4))
    sampler = plain.order.sampler
    plain.close()
    total = sampler.draws_in(STEPS * 16)
    epochs = sampler.before(total) / list(COUNTS.values())
    assert len(sampler.changes) == 3  # all wait but two, then one after the other
    np.testing.assert_allclose(epochs[2:], 2.4, atol=1 / 11 + 0.01)
    assert epochs[0] < 2.4 and epochs[1] < 2.4


@pytest.mark.parametrize(
    "journey",
    [[(1, 2), (2, 1), (1, VALIDATIONS - 3)],
     pytest.param([(2, VALIDATIONS)], marks=pytest.mark.slow),
     pytest.param([(4, 3), (1, 1), (2, VALIDATIONS - 4)], marks=pytest.mark.slow)],
    ids=str,
)  # fmt: skip
def test_resuming_and_other_processes_change_nothing(whole, directory, journey):
    whole.same(Played(directory, journey))


def test_a_language_without_validation_keeps_its_rate(directory):
    half = Mixing(1.5, languages=["deu", "fra"])
    plain = stream(directory, mixing=half)
    scheduled = plain._scheduled
    del plain
    assert scheduled.warnings() == []
    silent = type(scheduled)(ACTING, scheduled.sampler, list(COUNTS), {"fra_Latn": 5})
    assert silent.warnings() == [
        "the schedule keeps the rates of 1 languages that have no validation set: deu_Latn"
    ]
    for step in range(4, 40, 4):
        silent.validated({"deu_Latn": 1.0 + step, "fra_Latn": 1.0 + step}, {}, 10 * step, step)
    planned = silent.sampler.planned_rates()
    assert silent.sampler.rates(10**6) == planned  # it is the only one that acts
    nobody = type(scheduled)(ACTING, scheduled.sampler, list(COUNTS), {})
    assert "no language has a validation set" in nobody.warnings()[1]


def test_a_bound_that_cannot_be_kept_is_warned_of(directory):
    batches = stream(directory, schedule=Schedule(steps=STEPS, late_epochs=1.0))
    (message,) = batches.warnings(STEPS)
    assert "late_epochs cannot be kept, so no language enters late" in message
    assert not batches.order.sampler.changes
    batches.close()


def test_a_schedule_begins_with_the_last_stage(directory):
    """Also where the end of the stage before is not known in advance."""
    stages = [Stage({"validation_loss/yor": 1}, Mixing(languages=["deu"])), Stage()]
    played = Played(directory, [(1, 4)], stages=stages)
    rules = [(each["rule"], each["step"]) for each in played.decisions]
    assert rules[0] == ("stage", 2 * EVERY) and ("lower", 4 * EVERY) in rules
    ended = played.state["stages"]["ends"][0]
    assert all(each["draw"] >= ended for each in played.state["schedule"]["decisions"])
    assert set(played.sampler.at(np.arange(ended))[2].tolist()) == {0}
    assert set(played.sampler.at(np.arange(ended, 10 * ended))[2].tolist()) == {1}
    again = Played(directory, [(1, 2), (1, 2)], stages=stages)
    again.same(played)


def test_a_stage_cannot_wait_for_a_loss_that_is_never_measured():
    """It is refused before training, not at the first validation."""
    stages = [Stage({"validation_loss/yor": 1}, Mixing()), Stage(mixing=Mixing())]
    sampler = CurriculumSampler(stages, COUNTS)
    with pytest.raises(ValueError, match="yor_Latn has no validation set, .*; nearest: deu_Latn"):
        ScheduleState(None, sampler, list(COUNTS), {"deu_Latn": 5})
    assert ScheduleState(None, sampler, list(COUNTS), {"yor_Latn": 5}).waits


def test_a_loss_that_is_no_number_is_not_the_best_of_a_stage():
    stages = [Stage({"validation_loss": 2}, Mixing()), Stage(mixing=Mixing())]
    state = ScheduleState(None, CurriculumSampler(stages, COUNTS), list(COUNTS), COUNTS)
    losses = iter([math.nan, 3.0, 2.0, 1.0, math.nan, math.nan])
    rules = [
        [row["rule"] for row in state.validated({"deu_Latn": loss}, {}, 100 * step, step)]
        for step, loss in enumerate(losses, 1)
    ]
    assert rules == [[], [], [], [], [], ["stage"]]


def waiting_state(patience):
    """A run that is validated in a stage which ends by its loss."""
    stages = [Stage({"validation_loss": patience}, Mixing()), Stage(mixing=Mixing())]
    return ScheduleState(None, CurriculumSampler(stages, COUNTS), list(COUNTS), COUNTS)


def test_a_stage_does_not_count_validations_that_a_rollback_repeats():
    state, draw = waiting_state(3), 0
    for step in [*range(1100, 2000, 100), *range(1100, 2500, 100)]:
        draw += 1000  # the data are not rewound
        assert not state.validated({"deu_Latn": 5 - step / 1000}, {}, draw, step)
    steps = [step for step, _ in json.loads(json.dumps(state.state()))["stages"]["losses"]]
    assert steps == [*range(1100, 2500, 100)]


def test_a_state_of_an_earlier_version_has_losses_without_steps():
    state = waiting_state(2)
    state.restore({"stages": {"ends": [], "losses": [3.0, 2.0, 2.5]}})
    assert state.validated({"deu_Latn": 2.1}, {}, 400, 400)
    again = waiting_state(2)
    again.restore({"stages": {"ends": [], "losses": [3.0, 2.0, 2.5]}})
    assert not again.validated({"deu_Latn": 1.9}, {}, 400, 400)
    resumed = waiting_state(2)
    resumed.restore(json.loads(json.dumps(again.state())))
    assert [bool(resumed.validated({"deu_Latn": 3.0}, {}, step, step)) for step in (500, 600)] == [
        False, True,
    ]  # fmt: skip


def test_another_schedule_is_refused(directory, whole):
    for schedule, message in (
        (Schedule(steps=STEPS, patience=1, end_after=2, late_epochs=2.4, lower=0.4),
         "schedule.lower 0.5, this run has 0.4"),
        (None, "schedule .*, this run has None"),
    ):  # fmt: skip
        other = stream(directory, schedule=schedule)
        with pytest.raises(ValueError, match=message):
            other.set_state(whole.state)
        other.close()
    longer = stream(directory, schedule=Schedule(
        steps=2 * STEPS, patience=1, end_after=2, late_epochs=2.4))  # fmt: skip
    longer.set_state(whole.state)  # TRAIN_STEPS may grow
    longer.close()


def test_the_ledger_is_counted_again_where_decisions_differ(directory, whole, tmp_path):
    batches = stream(directory)
    batches.set_state(whole.state)
    counting = batches.ledger()
    counts = counting.count(None, whole.state, 0, 1)
    counting.write(tmp_path, None, whole.state, [counts], STEPS)
    content = counting.read(tmp_path)
    seen = dict.fromkeys(COUNTS, 0)
    for batch in whole.batches:
        for language, _ in examples_of(batch):
            seen[list(COUNTS)[language]] += 1
    assert {row["language"]: row["examples"] for row in content["rows"]} == seen
    fresh = stream(directory)  # restarted from before the decisions
    assert fresh.ledger().read(tmp_path) is None
    assert ledger.load(tmp_path)["step"] == STEPS
    for made in (batches, fresh):
        made.close()
