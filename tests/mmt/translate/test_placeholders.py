"""Placeholders: which there are, and that each survives whatever stands around it."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.translate import placeholders

KINDS = [
    "{name}", "{0}", "{}", "${x}", "%{count}", "{{user name}}", "{n, plural, one {x} other {y}}",
    "%s", "%d", "%1$s", "%.2f", "%(total)d", "%@", "%lld", "$1", "`ls -l`", "``a``",
    "www.cldr.org/x", "https://a.org/b?c=%20d#e", "ftp://a.org", "mailto:a@b.org",
    "x.y+z@sub.example.com", "%#@files@", "%2$#@files@", "%arg", "%%", "$t(files.one, {'a': 1})",
    "{n, plural, one{{n} x} other{{g, select, a{{x} y} other{z}}}}",
    "<b>", "</STRONG>", "<br/>", "<br />", '<a href="https://a.org/{x}">', "<0>", "</h2>", "<hr>",
]  # fmt: skip


def found(text):
    return [text[start:end] for start, end in placeholders.spans(text)]


AROUND = [("", ""), ("see ", " now"), ("«", "»"), ("文", "件"), ("(", ")."), ("", ", x")]
ORDINARY = [
    "100% de", "50%", "$15.00", "a { b", "x@y", "3 % d'eau", "5%c", "``", "a: b // c", "$100",
    "cp <Quelle> <Ziel>", "a < b > c", "<3", "<a",
]  # fmt: skip
HOSTILE = [
    "a" * 30_000, "`" * 30_000, "{" * 30_000, "%1" * 15_000, "a@" * 15_000, "<a " * 10_000,
    "$t(" * 10_000, "{a" * 15_000, "{" * 9 + "{a}" * 9_000, "{" * 15_000 + "}" * 15_000,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_whole(kind):
    for before, after in AROUND:
        assert found(before + kind + after) == [kind]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_has_none(text):
    assert found(text) == []


@given(st.lists(st.sampled_from(KINDS), max_size=4), st.data())
def test_rejoining_keeps_each_exactly_once(kinds, data):
    noise = st.text("ab {}%s$1`@.: /", max_size=12)
    text = kinds[0] if kinds else ""
    for kind in kinds[1:]:
        text += data.draw(noise) + kind
    around = placeholders.surroundings(text)
    translations = [data.draw(noise | st.sampled_from(KINDS)) for _ in around]
    rejoined = placeholders.rejoin(text, translations)
    assert placeholders.counts(rejoined) == placeholders.counts(text)


def test_white_space_at_joints():
    join = placeholders.rejoin
    assert join("Hallo {name}!", ["Hello", "!"]) == "Hello {name}!"
    assert join("请打开{name}文件", ["Please open", "file"]) == "Please open {name} file"
    assert join("#{n}-mal ({m})", ["#", "times (", ")"]) == "#{n} times ({m})"
    assert join("%s %s", ["", " ", ""]) == "%s %s"
    assert join("a %s b", ["c %s", "d"]) == "c %s d"  # one of the translation's own
    assert join("a {x} b", ["", ""]) == "{x}"


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:2])
def test_hostile_text_takes_linear_time(text):
    start = time.monotonic()
    list(placeholders.spans(text))
    assert time.monotonic() - start < 2


def test_placeholders_of_a_glossary_may_be_added():
    added = Counter(["www.x.org"])
    assert placeholders.agree("Hi {name}", "{name}: www.x.org", added)
    assert not placeholders.agree("Hi {name}", "{name}: www.x.org www.x.org", added)
    assert not placeholders.agree("Hi {name}", "www.x.org", added)
    joined = placeholders.rejoin("Auto {name}", ["www.x.org %s", ""], added)
    assert placeholders.counts(joined) == Counter(["www.x.org", "{name}"])
