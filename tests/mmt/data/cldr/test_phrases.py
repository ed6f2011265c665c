"""The kinds of phrases: all that are promised, in all lengths, and evenly mixed."""

import collections
import random
import re

from mmt.data.cldr.phrases import TRAIN_WEIGHTS, WEIGHTS, Drawer, schedule
from mmt.data.cldr.speaker import Speaker


def test_all_kinds_in_all_lengths() -> None:
    """The draws behind every language's pairs, as English says them."""
    drawer, rng = Drawer(Speaker("en_US")), random.Random(0)
    text = {kind: [drawer.draw(kind, rng).english for _ in range(1200)] for kind in WEIGHTS}
    forms = {
        "date": (
            r"^\w+day, \w+ \d+, \d{4}$",
            r"^[A-Z]\w{4,} \d+, \d{4}$",
            r"^[A-Z]\w\w \d+, \d{4}$",
        )
        + (r"^\d+/\d+/\d\d$", r"^\w+day, \w+ \d+$", r"^[A-Z]\w+ \d+$", r"^[A-Z]\w+ \d{4}$"),
        "time": (r"^\d+:\d\d [AP]M$", r"^\d+:\d\d:\d\d [AP]M$", r" UTC$", r" \w+ Time$"),
        "date_and_time": (r"^\w+day, .* \d+:\d\d [AP]M$", r"^\d+/\d+/\d\d, \d+:\d\d [AP]M$"),
        "interval": (
            r"^\w+day, \w+ \d+ – \w+day, \w+ \d+$",
            r"^\w+ \d+ – \d+$",
            r"^\w+ \d+ – \w+ \d+$",
        )
        + (r"^\w+ – \w+ \d{4}$", r"^\d+:\d\d – \d+:\d\d PM$", r"^\d{4} – \d{4}$"),
        "relative": (r"^in \d+ hours$", r"^\d+ days ago$", r"^in 1 \w+$", r"^1 year ago$"),
        "unit": (r"^\d+ hours$", r"^\d+\.\d \w+$", r"^\d,\d{3} \w+$", r"kilometers per hour$"),
        "duration": (r"^\d+ hours?, \d+ minutes?$", r"^\d+ hours?, \d+ minutes?, \d+ seconds?$"),
        "money": (r"^\d+ US dollars$", r"^\d+\.\d\d euros$", r"^[€$]\d+\.\d\d$", r"^\d,\d{3} "),
        "percent": (r"^\d+%$", r"^\d+\.\d%$", r"% and ", r"%, \d.*%, and "),
        "list": (r"^\w+day, \w+day, and \w+day$", r"^\w+ and \w+$", r"^\w+, \w+, or \w+$"),
        "name": (r"^Germany$", r"^Spanish$", r"^Cyrillic$", r"^Euro$", r"^\w+ \(\w+\)$"),
    }
    for kind, patterns in forms.items():
        for pattern in patterns:
            assert any(re.search(pattern, english) for english in text[kind]), (kind, pattern)


def test_a_fair_mix_in_any_stretch() -> None:
    for weights in (WEIGHTS, TRAIN_WEIGHTS):
        kinds = schedule(weights)
        drawn = [next(kinds) for _ in range(3 * sum(weights.values()))]
        assert collections.Counter(drawn) == {kind: 3 * n for kind, n in weights.items()}
        first = collections.Counter(drawn[: sum(weights.values())])
        assert all(abs(first[kind] - n) <= 1 for kind, n in weights.items())
