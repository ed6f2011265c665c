"""Rules on a line and its translation."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.translate import line_checks


@pytest.mark.parametrize(
    ("source", "output", "share"),
    [
        ("2. März 2021", "March 2, 2021", 0),
        ("am 02.03.2021", "on 2/3/2021", 0),
        ("१२ दिन", "12 days", 0),
        ("3 Stunden", "4 hours", 1),
        ("3 Stunden", "hours", 1),
        ("drei", "3", 1),
        ("3 und 4", "3 and 5", 2 / 3),
        ("5 5", "5", 0.5),
        ("keine", "none", 0),
        ("1.000.000 von 10 000", "1,000,000 of 10\u202f000", 0),
        ("12,34,567 Rupien", "1234567 rupees", 0),
        ("1,5 bis 3,25", "1.5 to 3.25", 0),
        ("1, 200 und 300", "1200 and 300", 3 / 4),
        ("1.2.2021", "1, 2, 2021", 0),
    ],
)
def test_numbers_that_differ(source, output, share):
    assert line_checks.different_numbers(source, output) == pytest.approx(share)


@given(st.text(), st.text())
def test_the_share_of_numbers_is_symmetric_and_zero_for_equal_lines(left, right):
    share = line_checks.different_numbers(left, right)
    assert 0 <= share <= 1 and share == line_checks.different_numbers(right, left)
    assert line_checks.different_numbers(left, left) == 0


def test_copies_are_found_but_names_may_stay():
    assert line_checks.is_copy("Das ist es.", "das ist es!")
    assert not line_checks.is_copy("Das ist es.", "That is it.")
    for line in ("Sven Olson", "12:30", "", "..."):
        assert not line_checks.is_copy(line, line)


def test_a_line_of_many_words_takes_linear_time():
    words = tuple(map(str, range(100_000)))  # in quadratic time, minutes
    begin = time.process_time()
    assert not line_checks.loops("", words) and line_checks.loops("", words[:100] * 3)
    assert time.process_time() - begin < 30


@pytest.mark.parametrize("line", ["to to to to", "a b a b a b", "well hahahahahahahahaha"])
def test_loops(line):
    assert line_checks.loops(line, line_checks.normalised(line))
    assert not line_checks.loops("holy, holy, holy", ("holy", "holy", "holy"))
