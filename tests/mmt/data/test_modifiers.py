"""What each modifier does to a pair, that the tag stays, and that only seed and draw decide."""

import json
import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.data import cache, ledger, modifiers, pipeline, virtual_shards
from mmt.data import vocabulary as vocab
from mmt.data.cache import alignments
from mmt.data.mixing import Mixing
from mmt.data.modifiers import TextSides
from mmt.data.stages import Stage
from tests.helpers.streams import part, texts_of, write_text_cache

COUNTS = {"deu_Latn": 60, "swh_Latn": 20}
LENGTHS = {"inputs": 64, "targets": 64}
LONG = {"inputs": 200, "targets": 200}
ALL = dict.fromkeys(modifiers.KINDS, 0.1)

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


@given(
    st.builds(TextSides, TEXT, TEXT), st.integers(0, 2**64 - 1),
    st.sampled_from([*modifiers.KINDS]),
)  # fmt: skip
def test_any_text_can_be_modified(texts, seed, kind):
    made = modifiers.KINDS[kind](texts, random.Random(seed).random)
    assert made == modifiers.KINDS[kind](texts, random.Random(seed).random)
    if kind in ("typos", "merged"):
        assert made.target == texts.target
    if kind in ("noise", "tags"):
        size = len(texts.source)
        around = {(made.source[:i], made.source[i + size :]) for i in range(len(made.source))
                  if made.source[i : i + size] == texts.source}  # fmt: skip
        assert any(made.target == left + texts.target + right != texts.target
                   for left, right in around)  # fmt: skip
    if kind == "upper_case":
        assert made == (texts.source.upper(), texts.target.upper())
    if kind == "title_case":
        assert [side.lower().split() for side in made] == [
            [word[:1].title().lower() + word[1:].lower() for word in side.split()] for side in texts
        ] or not all(side.isascii() for side in texts)


def changed(kind, source, target, seed=0):
    return modifiers.KINDS[kind](TextSides(source, target), random.Random(seed).random)


def test_cases_and_marks():
    assert changed("title_case", "guten tag, ihr (alle)", "o'clock WHO") == (
        "Guten Tag, Ihr (alle)", "O'clock WHO",
    )  # fmt: skip
    for source in ("wirklich?!", "wirklich …", "sach. ।"):
        assert changed("no_punctuation", source, "(really).") == (source.split()[0].strip("?!."),
                                                                  "(really)")  # fmt: skip


def test_copied_is_the_translation_twice():
    assert changed("copied", "guten Tag", "good day") == ("good day", "good day")


def test_numbers_are_the_same_on_both_sides():
    several = {changed("numbers", "1 von 350 am 12. 7. 2021, 95", "of 350 1: 2021-7-12; 95", seed)
               for seed in range(50)}  # fmt: skip
    assert len(several) > 40
    for source, target in several:
        first, second = (re.findall(r"\d+", side) for side in (source, target))
        assert sorted(first) == sorted(second)
        assert [len(number) for number in first] == [1, 3, 2, 1, 4, 2]
        assert first[0] == "1" and first[2] == "12" and first[3] == "7"
        assert first[1].endswith("50") and first[4].endswith("21") and first[5].endswith("5")
        assert not any(number.startswith("0") for number in first)
    assert changed("numbers", "350", "three hundred fifty") == ("350", "three hundred fifty")
    arabic, same = changed("numbers", "٣٥٠", "٣٥٠")
    assert arabic == same != "٣٥٠" and "٠" <= arabic[0] <= "٩"


def test_typos_are_few_and_of_letters():
    source = "die quick braune Füchsin springt über 12 faule Hunde"
    made = {changed("typos", source, "x", seed).source for seed in range(200)}
    assert len(made) > 150
    for text in made:
        assert abs(len(text) - len(source)) <= 3
        assert Counter(text)["1"] == Counter(text)["2"] == 1
        assert set(text) <= set(source)


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    return write_text_cache(tmp_path_factory.mktemp("data"), COUNTS)


@pytest.fixture(scope="module")
def vocabulary(cached):
    return vocab.Vocabulary.load(cached[0] / "vocabulary.model")


def stream(cached, modifier, **options):
    options = {"feature_lengths": LENGTHS, "batch_size": 8, "virtual_shards": 4} | options
    return pipeline.train_batches(cached[0], stages=[Stage(modifiers=modifier)], **options)


def shown(cached, vocabulary, modifier, count=40, **options):
    batches = stream(cached, modifier, packing=False, **options)
    examples = [example for _ in range(count) for example in texts_of(next(batches), vocabulary)]
    batches.close()
    return examples


@pytest.mark.parametrize("kind", modifiers.KINDS)
def test_modifiers_apply_at_their_rate_and_keep_the_tag(cached, vocabulary, kind):
    plain = shown(cached, vocabulary, None)
    made = shown(cached, vocabulary, {kind: {"Swahili": 0.5}})
    assert all(source.startswith("<2eng> ") for _, source, _ in made)
    for before, after in zip(plain, made, strict=True):
        assert before[0] == after[0]
        assert before == after or before[0] == 1
    swahili = [(before, after) for before, after in zip(plain, made, strict=True) if before[0] == 1]
    rate = np.mean([before != after for before, after in swahili])
    assert rate == pytest.approx(0.5, abs=4 * 0.5 / len(swahili) ** 0.5)
    if kind == "merged":
        _, pairs = cached
        for (_, source, target), (_, joined, both) in swahili:
            if source != joined:
                appended = joined.removeprefix(f"{source} "), both.removeprefix(f"{target} ")
                assert appended in pairs["swh_Latn"]


def test_examples_that_would_not_fit_are_unchanged(cached, vocabulary):
    short = {"inputs": 28, "targets": 28}
    with pytest.warns(UserWarning, match="do not fit"):
        plain = shown(cached, vocabulary, None, feature_lengths=short)
        made = shown(cached, vocabulary, {"merged": 1.0}, feature_lengths=short)
        draws = stream(cached, {"merged": 1.0}, feature_lengths=short).order
    changes = draws.changes(np.arange(len(plain)))
    assert len(changes) == len(plain)
    unchanged = [before == after for before, after in zip(plain, made, strict=True)]
    assert 0 < sum(unchanged) < len(unchanged)
    assert sum(not change.fits for change in changes) == sum(unchanged)


def test_only_seed_and_draw_decide(cached):
    """Other virtual shards, batch sizes, processes, restarts; another seed is another text."""
    batches = stream(cached, ALL)
    draws = batches.order
    together = draws.examples(range(300))
    assert any(example.changed for example in together)
    fresh = stream(cached, ALL).order
    assert [fresh.examples([i])[0] for i in range(0, 300, 7)] == together[::7]
    other = stream(cached, ALL, seed=1).order
    assert other.examples(range(300)) != together
    for _ in range(5):
        next(batches)
    state = json.loads(json.dumps(batches.get_state()))
    expected = [next(batches) for _ in range(10)]
    halves = [stream(cached, ALL, batch_size=16) for _ in range(2)]
    for process, half in enumerate(halves):
        half.share(part(process, 2))
        half.set_state(state)
    of_halves = [[next(half) for _ in range(5)] for half in halves]
    rows = [Counter(row.tobytes() for batch in taken for row in batch["encoder_input_tokens"])
            for taken in (expected, of_halves[0] + of_halves[1])]  # fmt: skip
    assert rows[0] == rows[1]
    with pytest.raises(ValueError, match="state has stages"):
        stream(cached, ALL | {"typos": 0.3}).set_state(state)


def test_a_stage_in_steps_foresees_what_modifiers_do_to_lengths(cached):
    """Sentences twice as long, half as many per row: about 60 steps, as without modifiers."""
    merged = Stage({"steps": 60}, Mixing(languages=["deu"]), {"merged": 1.0})
    batches = pipeline.train_batches(
        cached[0], stages=[merged, Stage(mixing=Mixing(languages=["swh"]))],
        feature_lengths=LONG, batch_size=16, virtual_shards=8,
    )  # fmt: skip
    swahili = [bool((next(batches)["decoder_language_ids"] == 1).any()) for _ in range(80)]
    batches.close()
    assert abs(swahili.index(True) - 60) <= 8  # by what rows are open


def test_the_ledger_counts_modified_tokens(cached, tmp_path):
    batches = stream(cached, ALL, feature_lengths={"inputs": 40, "targets": 64})
    tokens = Counter()
    for step in range(20):
        batch = next(batches)
        for side in ("encoder", "decoder"):
            tokens[side] += int((batch[f"{side}_segment_ids"] > 0).sum())
        if step in (3, 7, 19):
            consumed = batches.ledger()
            former, state = consumed.read(tmp_path), batches.get_state()
            counted = [consumed.count(former, state, process, 3) for process in range(3)]
            consumed.write(tmp_path, former, state, counted, step)
            rows = ledger.load(tmp_path)["rows"]
            assert sum(row["source_tokens"] for row in rows) == tokens["encoder"]
            assert sum(row["target_tokens"] for row in rows) == tokens["decoder"]
    assert min(row["modified"] for row in rows) > 0
    assert sum(row["too_long"] for row in rows) > 0
    batches.close()


@pytest.mark.parametrize(
    ("modifier", "message"),
    [
        ({"uper_case": 0.1}, "no modifier 'uper_case'; nearest: upper_case; allowed: numbers, "),
        ([1], r"modifiers = \[1\]; allowed: {NAME: PROBABILITY, ...}, the names numbers, "),
        ({"typos": 1.1}, "'typos' has the probability 1.1; allowed: 0 ... 1"),
        ({"typos": {"Swahilli": 0.1}}, "'Swahilli' is not among .*nearest"),
        ({"typos": {"swh": -0.1}}, "probability -0.1"),
        ({"upper_case": "x"}, "'upper_case' has the probability 'x'; allowed: 0 ... 1"),
        ({"typos": True}, "'typos' has the probability True"),
        ({"typos": {"deu": 0.1, "German": 0.2}}, "'typos' names a language twice: {'deu': 0.1, 'G"),
    ],
)
def test_unknown_modifiers_are_errors(cached, modifier, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        stream(cached, modifier)


def test_sentences_are_joined_as_their_script_has_it():
    joined = modifiers._joined(TextSides("今日は。", "Hello."), TextSides("さようなら。", "Bye."))
    assert joined == ("今日は。さようなら。", "Hello. Bye.")
    joined = modifiers._joined(TextSides("Ja.", "Yes."), TextSides("Nein.", "No."))
    assert joined.source == "Ja. Nein."


def test_changed_examples_have_no_alignment(cached, vocabulary):
    opened = cache.open_cache(cached[0])
    for code in COUNTS:
        targets = opened.lengths(code, "train")[:, 1].sum()
        alignments.write(alignments.file(opened, code), np.full(targets, 2, np.uint16))
    batches = stream(cached, {"upper_case": 0.5}, packing=False, alignment=True)
    seen = Counter()
    for batch in (next(batches) for _ in range(10)):
        examples = texts_of(batch, vocabulary)
        aligned = zip(batch["decoder_alignment"], batch["decoder_target_tokens"], strict=True)
        for (_, _, target), (positions, tokens) in zip(examples, aligned, strict=True):
            changed = target.isupper()
            expected = np.where((tokens > vocab.EOS) & (not changed), 1, -1)
            np.testing.assert_array_equal(positions, expected)
            seen[changed] += 1
    batches.close()
    assert min(seen.values()) > 20


def test_a_stage_has_its_own_modifiers(cached, vocabulary):
    planned = [Stage({"examples": 64}, Mixing(1.0), {"upper_case": 1.0}), Stage()]
    batches = pipeline.train_batches(
        cached[0], stages=planned, feature_lengths=LONG, batch_size=16, virtual_shards=8,
        packing=False,
    )
    steps = [texts_of(next(batches), vocabulary) for _ in range(8)]
    batches.close()
    for number, examples in enumerate(steps):
        assert all(target.isupper() == (number < 4) for _, _, target in examples)
    assert isinstance(batches.order, virtual_shards.SampleOrder)
