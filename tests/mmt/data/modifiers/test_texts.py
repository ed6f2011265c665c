"""What each modifier does to the texts of a pair."""

import random
import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mmt.data.modifiers import KINDS, TextSides
from mmt.data.modifiers.texts import joined

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


@given(
    st.builds(TextSides, TEXT, TEXT), st.integers(0, 2**64 - 1),
    st.sampled_from(sorted({*KINDS} - {"romanised"})),
)  # fmt: skip
def test_any_text_can_be_modified(texts, seed, kind):
    made = KINDS[kind](texts, random.Random(seed).random)
    assert made == KINDS[kind](texts, random.Random(seed).random)
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
    return KINDS[kind](TextSides(source, target), random.Random(seed).random)


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


def test_sentences_are_joined_as_their_script_has_it():
    both = joined(TextSides("今日は。", "Hello."), TextSides("さようなら。", "Bye."))
    assert both == ("今日は。さようなら。", "Hello. Bye.")
    assert joined(TextSides("Ja.", "Yes."), TextSides("Nein.", "No.")).source == "Ja. Nein."
