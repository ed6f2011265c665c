"""Stages equal one sampler after another; and they end."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt import distributed
from mmt.data import pipeline
from mmt.data.curriculum import CurriculumSampler
from mmt.data.mixing import Mixing
from mmt.data.mixture_sampler import MixtureSampler
from mmt.data.stages import Stage, planned_stages
from tests.helpers.streams import LENGTHS, examples_of, part, write_cache

COUNTS = {"deu_Latn": 400, "fra_Latn": 90, "swh_Latn": 25, "yor_Latn": 11}
CODES = list(COUNTS)
LARGE = Mixing(languages=["deu", "French"])


def drawn(sampler, count):
    languages, appearances, which = sampler.at(np.arange(count))
    return languages.tolist(), appearances.tolist(), which.tolist()


def test_modifiers_of_languages_without_examples_are_left_out():
    stage = Stage(modifiers={"typos": {"Swahili": 0.1, "deu": 0.2, "xx": 0.1}, "noise": 0.3})
    left = stage.with_examples({"deu_Latn": 400}, ["deu_Latn", "swh_Latn"])
    assert left.modifiers == {"typos": {"deu": 0.2, "xx": 0.1}, "noise": 0.3}  # no language: error
    assert Stage().with_examples({"deu_Latn": 400}, CODES) == Stage()


MIXTURES = st.builds(
    Mixing,
    temperature=st.floats(1, 20),
    languages=st.sets(st.sampled_from(CODES), min_size=1).map(sorted),
)


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.tuples(MIXTURES, st.integers(1, 900)), max_size=4), MIXTURES, st.integers(0, 3000)
)
def test_each_stage_continues_the_epochs_of_the_stage_before(past, last, draw):
    ends = np.cumsum([length for _, length in past]).tolist()
    made = [Stage({"examples": end}, mixture) for (mixture, _), end in zip(past, ends, strict=True)]
    sampler = CurriculumSampler([*made, Stage(mixing=last)], COUNTS)
    assert sampler.ends == ends
    came = dict.fromkeys(CODES, 0)
    expected = []
    for number, (mixture, length) in enumerate([*past, (last, max(3000 - sum(ends), 0))]):
        rates = {code: share for code, share in mixture.rates(COUNTS).items() if share}
        drawn_components = MixtureSampler(list(rates.values())).at(np.arange(length))[0]
        order = [list(rates)[i] for i in drawn_components]
        for code in order:
            expected.append((CODES.index(code), came[code], number))
            came[code] += 1
    count = len(expected)
    assert list(zip(*drawn(sampler, count), strict=True)) == expected
    before = [sum(example[0] == i for example in expected[:draw]) for i in range(len(CODES))]
    if draw <= count:
        assert sampler.before(draw).tolist() == before
        np.testing.assert_allclose(sampler.expected(draw), before, atol=len(ends) * 2 + 2)
    for place in range(0, count, 97):
        assert sampler.when(*expected[place][:2]) == place


def test_a_single_stage_equals_no_stages():
    shares = Mixing(3.0).rates(COUNTS)
    plain = MixtureSampler(list(shares.values())).at(np.arange(5000))
    ours = CurriculumSampler([Stage(mixing=Mixing(3.0))], COUNTS).at(np.arange(5000))
    for batch, staged in zip(plain, ours[:2], strict=True):
        np.testing.assert_array_equal(batch, staged)


def test_until_epochs_is_the_draw_that_completes_them():
    bounds = {"German": 0.5, "fra": 2}
    sampler = CurriculumSampler([Stage(bounds, LARGE), Stage()], COUNTS)
    (end,) = sampler.ends
    languages, appearances, _ = drawn(sampler, end)
    epochs = [languages.count(0) / 400, languages.count(1) / 90]
    assert epochs[0] >= 0.5 and epochs[1] >= 2.0
    last = languages[-1], appearances[-1]
    assert last in ((0, 199), (1, 179))  # the very draw
    later = CurriculumSampler([Stage(bounds, LARGE), Stage({"yor": 3}), Stage()], COUNTS)
    languages, appearances, _ = drawn(later, later.ends[1])
    assert (languages[-1], appearances[-1]) == (3, 32)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("until", "message"),
    [
        (None, "never ends, until = None; all but the last need `until`"),
        ({"swh": 2}, "never ends: .* its mixture has no swh_Latn; it draws deu_Latn, fra_Latn"),
        ({"examples": 10}, r"begins after 1,000 examples and ends, .*, after 10"),
        ({"deu": 0.01}, "begins after 1,000 examples"),
        ({"steps": 1}, "begins after 1,000 examples"),
        ({"step": 9}, "nearest: 'steps'; or, as a language, language 'step' is not among"),
        ({"validation_los": 9}, "nearest: 'validation_loss'; or"),
        ({"deu": 9, "German": 10}, "'deu' and 'German' are deu_Latn"),
        ({"Swahilli": 1}, "nearest: "),
        ({}, "until = {}; allowed: one of {'steps': N}"),
        ("steps", "until = 'steps'; allowed: one of {'steps': N}"),
        ({5: 5}, "until = {5: 5}; allowed: one of"),
        ([("steps", 3)], r"until = \[.*\]; allowed: one of"),
        (5, "until = 5; allowed: one of"),
        ({"steps": "x"}, "until = {'steps': 'x'}; allowed: one of"),
        ({"steps": True}, "until = {'steps': True}; allowed: one of"),
        ({"deu": float("inf")}, "allowed"),
        ({"steps": 0}, "allowed"),
        ({"steps": 5.5}, "allowed"),
        ({"steps": 5, "deu": 1}, "allowed"),
        ({"validation_loss": 1.5}, "allowed"),
        ({"validation_loss/zul": 2}, "'zul' is not among"),
        ({"deu": -1.0}, "allowed"),
    ],
)
def test_a_stage_that_does_not_end_is_an_error(until, message, far, as_users_have_it):
    first = [Stage({"validation_loss": 2} if far else {"examples": 1000}, LARGE)]
    if far and "begins" in message:
        return  # nobody can know it
    with pytest.raises(ValueError, match=f"stage 2 of 3.*{message}"):
        CurriculumSampler([*first, Stage(until, LARGE), Stage()], COUNTS)


def test_the_last_stage_has_no_end():
    with pytest.raises(ValueError, match="stage 2 of 2 has an end"):
        CurriculumSampler([Stage({"steps": 3}), Stage({"steps": 5})], COUNTS)
    with pytest.raises(ValueError, match="stages is empty"):
        CurriculumSampler([], COUNTS)


@pytest.mark.parametrize("wrong", [[3], 3, Stage(), "ab"])
def test_anything_but_a_list_of_stages_is_an_error(wrong, as_users_have_it):
    with pytest.raises(ValueError, match=r"stages = .*; allowed: a list of Stage, such as \["):
        planned_stages(wrong, None)
    assert planned_stages(None, LARGE) == [Stage(mixing=LARGE)]
    assert planned_stages([Stage()], LARGE) == [Stage(mixing=LARGE)]


def test_what_a_loss_ends_is_known_when_it_ends():
    three = [Stage({"validation_loss": 2}, LARGE), Stage({"examples": 500}), Stage(mixing=LARGE)]
    sampler = CurriculumSampler(three, COUNTS)
    assert sampler.ends == [None, None]
    assert sampler.loss_watched_stage() is three[0]
    early, late = sampler.ended(300), sampler.ended(700)
    assert early.ends == [300, 500] and late.ends == [700, 700]  # the second came too late
    assert early.loss_watched_stage() is None
    assert set(drawn(early, 300)[0]) == {0, 1}
    assert set(drawn(late, 800)[0]) == {0, 1}
    assert sampler.resumed(early.ends).ends == early.ends


def test_fewest_examples():
    assert Mixing(at_least=90).rates(COUNTS).keys() == {"deu_Latn", "fra_Latn"}
    with pytest.raises(ValueError, match="the mixture is empty"):
        Mixing(at_least=401).rates(COUNTS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("data"), COUNTS)


def stream(directory, planned, **options):
    options = {"feature_lengths": LENGTHS, "batch_size": 16, "virtual_shards": 8} | options
    return pipeline.train_batches(directory, stages=planned, **options)


def languages_of(batches, steps):
    return [{language for language, _ in examples_of(next(batches))} for _ in range(steps)]


@pytest.mark.parametrize("packing", [True, False])
def test_a_stage_ends_after_its_steps(directory, packing):
    """Exact without packing; with it, early or late by what rows are open and by their variance."""
    batches = stream(directory, [Stage({"steps": 60}, LARGE), Stage()], packing=packing)
    small = [bool(languages & {2, 3}) for languages in languages_of(batches, 80)]
    batches.close()
    assert abs(small.index(True) - 60) <= (8 if packing else 0)
    other = stream(directory, [Stage({"steps": 60}, LARGE), Stage()], packing=packing)
    state = json.loads(json.dumps(other.get_state()))
    moved = stream(
        directory, [Stage({"steps": 60}, LARGE), Stage()], packing=packing, batch_size=32
    )
    moved.set_state(state)  # the boundary stays where it was
    small = [bool(languages & {2, 3}) for languages in languages_of(moved, 45)]
    assert abs(small.index(True) - 30) <= (4 if packing else 0)
    for batches_of in (other, moved):
        batches_of.close()


def test_a_state_knows_its_stages(directory):
    plain = stream(directory, None)
    single = stream(directory, [Stage()])
    assert single.get_state() == plain.get_state()  # and as it was before there were stages
    assert "stages" not in plain.get_state()
    two = stream(directory, [Stage({"examples": 100}), Stage()])
    for ours, theirs in ((single, two), (two, single)):
        with pytest.raises(ValueError, match="state has stages "):
            ours.set_state(theirs.get_state())
    later = stream(directory, [Stage({"examples": 90}), Stage()])
    with pytest.raises(ValueError, match=r"stages\[0\]\.until\.examples 100, this run has 90: "):
        later.set_state(two.get_state())
    fewer = stream(directory, [Stage({"examples": 100}, LARGE), Stage()])
    with pytest.raises(ValueError, match=r"stages\[0\]\.languages .*\['\w+', '\w+'\], .* has \[\]"):
        fewer.set_state(two.get_state())
    for made in (plain, single, two, later, fewer):
        made.close()


def test_a_stage_of_short_lines_resumes_exactly(directory):
    planned = [Stage({"examples": 400}, max_targets=8), Stage()]
    whole, resumed = stream(directory, planned), stream(directory, planned)
    expected = [examples_of(next(whole)) for _ in range(6)]
    for _ in range(2):
        next(resumed)
    state = json.loads(json.dumps(resumed.get_state()))
    resumed.close()
    again = stream(directory, planned)
    again.set_state(state)
    assert [examples_of(next(again)) for _ in range(4)] == expected[2:]
    other = stream(directory, [Stage({"examples": 400}, max_targets=9), Stage()])
    with pytest.raises(ValueError, match=r"stages\[0\]\.max_targets 8, this run has 9"):
        other.set_state(state)
    for made in (whole, again, other):
        made.close()


@pytest.mark.parametrize(
    "processes", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 4))]
)
def test_a_stage_ends_by_its_loss(directory, processes):
    """It ends at a draw that no virtual shard has used yet, on however many processes."""
    planned = [Stage({"validation_loss/yor": 2}, LARGE), Stage()]
    parts = [stream(directory, planned) for _ in range(processes)]
    assert all(shard.waits_for_losses for shard in parts)
    for process, shard in enumerate(parts):
        shard.share(part(process, processes))
    taken = []

    def step(count=1):
        for _ in range(count):
            batches = [next(shard) for shard in parts]
            taken.append({k: np.concatenate([shard[k] for shard in batches]) for k in batches[0]})

    def validated(loss):
        draw = max(shard.next_draw() for shard in parts)
        losses = {"deu_Latn": 9.0 - len(taken), "yor_Latn": loss}
        answers = [shard.validated(losses, draw, step=len(taken)) for shard in parts]
        assert all(answer == answers[0] for answer in answers)
        return draw if answers[0] else None

    for loss in (3.0, 2.0, 2.5):
        step(5)
        assert validated(loss) is None
    saved = distributed.merged([shard.get_state() for shard in parts])
    for _ in range(2):  # also when it goes on from the checkpoint, and is told again
        step(5)
        draw = validated(2.1)
        ended = distributed.merged([shard.get_state() for shard in parts])
        assert ended["stages"] == {"ends": [draw], "losses": []}
        step(30)
        assert validated(9.0) is None
        shown = [{number for number, _ in examples_of(batch)} for batch in taken]
        assert all(languages <= {0, 1} for languages in shown[:20])
        assert any(languages & {2, 3} for languages in shown[20:24])
        alone = stream(directory, planned)

        alone.set_state(ended)
        for batch in taken[20:]:
            np.testing.assert_array_equal(next(alone)["encoder_input_tokens"],
                                          batch["encoder_input_tokens"])  # fmt: skip
        alone.close()
        del taken[15:]
        for shard in parts:
            shard.set_state(saved)
    with pytest.raises(ValueError, match="'yor' is not among"):
        parts[0].validated({"deu_Latn": 1.0}, 10**6, step=99)
    for shard in parts:
        shard.close()


def test_a_state_knows_the_rate_of_rehearsal():
    counts, new = {"deu_Latn": 30, "kat_Geor": 9}, {"new_languages": ["kat"]}
    settings = [
        CurriculumSampler([Stage(mixing=Mixing(**options))], counts).settings()
        for options in ({}, new, new | {"rehearsal": 0.2})
    ]
    assert "rehearsal" not in settings[0]
    assert [each["rehearsal"] for each in settings[1:]] == [0.5, 0.2]
