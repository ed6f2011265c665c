"""ICU messages: the branches of plural and select."""

import pytest

from mmt.documents.catalogues import icu


def test_nested_branches_are_leaves():
    message = "{g, select, male{{n, plural, =0{no one} other{# men}}} other{{n} people}}"
    found = [(form, message[start:end]) for form, start, end in icu.leaves(message)]
    assert found == [
        ("male.=0", "no one"), ("male.other", "# men"), ("other", "{n} people"),
    ]  # fmt: skip


def test_a_message_may_have_line_breaks_as_json_writes_them():
    message = r"{n, plural,\n\tone {a file}\r\n  other {# files}\n}\n"
    found = [(form, message[start:end]) for form, start, end in icu.leaves(message)]
    assert found == [("one", "a file"), ("other", "# files")]


@pytest.mark.parametrize(
    "message",
    ["", "{name}", "Hi {n, plural, one{a} other{b}}", "{n, plural, one{a", "{n, plural,}"],
)
def test_other_texts_have_no_branches(message):
    assert icu.branches(message) == [] and list(icu.leaves(message)) == []
