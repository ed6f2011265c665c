"""Tokens of XML: they cover the text, know their partners, and dangerous files are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from mmt.documents import tokens
from mmt.documents.document import DEPTH
from tests.helpers.documents import EXAMPLES

BOMB = b'<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]>\n<a>&y;</a>'


@pytest.mark.parametrize("name", ["a.xlf", "utf16.xlf", "b.xliff", "a.tmx", "a.ts"])
def test_tokens_cover_the_text_and_agree_with_lxml(name):
    markup = tokens.xml(name, EXAMPLES[name])
    assert "".join(markup.text[t.start : t.end] for t in markup.tokens) == markup.text
    starts = [token for token in markup.tokens if token.kind == "start"]
    parser = etree.XMLParser(load_dtd=False, no_network=True, resolve_entities=False)
    elements = list(etree.fromstring(EXAMPLES[name], parser).iter(etree.Element))
    assert [t.name for t in starts] == [etree.QName(e).localname for e in elements]
    for token in starts:
        assert markup.tokens[token.partner].name == token.name
        assert markup.tokens[markup.tokens[token.partner].partner] == token


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_comes_back_through_another_reader(text):
    read = etree.fromstring(f'<a b="{tokens.escape_attribute(text)}">{tokens.escape_xml(text)}</a>')
    expected = text.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
    assert (read.text or "") == expected and read.get("b") == expected
    assert tokens.unescape_xml(tokens.escape_xml(text)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, r"a\.xml:1: refused: it declares the entity x"),
        (b"<a>\n<b></a>", r"a\.xml:2: broken XML: mismatched tag"),
        (b"", r"a\.xml:1: broken XML: no element found"),
        (b'<!DOCTYPE a SYSTEM "x.dtd"><a>&b;</a>', r"a\.xml:1: refused: it names the entity b"),
        (b"<a>" * (DEPTH + 1), rf"a\.xml:1: refused: .*more than {DEPTH} deep"),
        (b'<?xml version="1.0" encoding="ebcdic-x"?><a/>', r"a\.xml: its encoding 'ebcdic-x'"),
    ],
    ids=["bomb", "tags", "empty", "entity", "depth", "encoding"],
)
def test_broken_and_dangerous_xml_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        tokens.xml("a.xml", content)
