"""Made-up texts with tags, and what must hold of every translation of them."""

from hypothesis import settings
from hypothesis import strategies as st

from mmt.translate import markup
from tests.helpers.tiny_translator import WORDS

WORD = st.sampled_from([*WORDS, "三月", ",", "&", "<", "3"])
TEXT = st.lists(WORD, max_size=4).map(" ".join)
EMPTY = st.sampled_from(["<br/>", "<x id='1'/>", '<img src="a>b">', "</u>", "<br>"])


def element(inner):
    names = st.sampled_from(["b", "g id='2'", 'a href="x?y=1&amp;z"'])
    return st.tuples(names, inner).map(lambda e: f"<{e[0]}>{e[1]}</{e[0].split()[0]}>")


ESCAPED = TEXT.map(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))
MARKUP = st.recursive(
    ESCAPED,
    lambda inner: st.lists(element(inner) | inner | EMPTY, max_size=4).map(
        lambda parts: "".join(map("".join, parts))
    ),
    max_leaves=8,
)

SLOW_AT_FIRST = settings(deadline=None)  # the first sentence loads the rules of its language


def nesting(tags):
    """The elements, each with its markup and the elements in it, in an order of their own."""
    stack = [[]]
    for tag in tags:
        if tag.kind == "start":
            stack.append([])
        elif tag.kind == "end":
            inner = stack.pop()
            stack[-1].append((tag.markup, sorted(inner, key=repr)))
        else:
            stack[-1].append((tag.markup, []))
    assert len(stack) == 1
    return sorted(stack[0], key=repr)


def check_tags(before, after):
    """No tag is lost or badly nested, in the tags and as written."""
    assert nesting(after.tags) == nesting(before.tags)
    positions = [tag.position for tag in after.tags]
    assert positions == sorted(positions)
    assert all(0 <= place <= len(after.text) for place in positions)
    assert nesting(markup.parse(markup.write(after)).tags) == nesting(before.tags)


SENTENCE = st.sampled_from(
    ["Eins zwei. ", "Drei! ", "Vier ", "fünf", " ", "\n", "\t", "三月。", "...", "Elf &amp; 3? "]
)
SEVERAL = st.recursive(
    st.lists(SENTENCE, max_size=4).map("".join),
    lambda inner: st.lists(element(inner) | inner | EMPTY, max_size=5).map("".join),
    max_leaves=10,
)
