"""Every format: an unchanged file is written byte for byte, and translations come back as given."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmt import documents
from mmt.documents import Locales, MarkedText, Segment
from mmt.documents.archive import Archive
from mmt.documents.document import TextDocument
from tests.helpers.documents import EXAMPLES

LOCALES = Locales("deu_Latn", "eng_Latn")
SLOW = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
WORDS = st.lists(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8), max_size=6
).map(" ".join)


BILINGUAL = (".po", ".xlf", ".xliff", ".tmx", ".ts", ".xcstrings")


def read(name: str, content: bytes | None = None) -> documents.Document:
    return documents.read(name, EXAMPLES[name] if content is None else content, LOCALES)


def shown(name: str, segment: Segment) -> MarkedText | None:
    """The text at the place of a segment's translation."""
    return segment.target if name.endswith(BILINGUAL) else segment.source


def tag_names(name: str, document: documents.Document) -> list[str]:
    """The names of all tags in order: none is lost or broken; runs of Word's may be others."""
    if not name.endswith((".html", ".docx", ".odt", ".srt", ".vtt")):
        return []
    parts = document.parts.values() if isinstance(document, Archive) else [document]
    found = re.findall(r"</?[a-zA-Z][\w:]*", "".join(part.text for part in parts))
    return [tag for tag in found if not re.fullmatch(r"</?w:(r|t|rPr|lang|b|u|tab|proofErr)", tag)]


def marks(text: MarkedText) -> list[str]:
    """The inline markup of a text; emphasis in Markdown may vanish with its words."""
    return [tag.markup for tag in text.tags if tag.markup.strip("*_~")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_unchanged_file_is_written_byte_for_byte(name):
    document = read(name)
    assert document.segments
    assert document.write([None] * len(document.segments)) == EXAMPLES[name]
    same = [shown(name, segment) for segment in document.segments]
    assert document.write(same) == EXAMPLES[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_translations_are_read_again_and_all_else_is_as_before(name):
    before = read(name)

    @SLOW
    @given(st.lists(st.none() | WORDS, min_size=len(before.segments), max_size=99))
    def check(words):
        if name.endswith(".srt"):  # the format has no escapes
            words = [text and re.sub("[<>{}]|^-", "", text) for text in words]
        if name.endswith(".arb"):  # nor has ICU for braces, without an option
            words = [text and re.sub("[{}]", "", text) for text in words]
        given = [
            None if text is None else documents.by_position(segment.source, f"{text}a")
            for segment, text in zip(before.segments, words, strict=False)
        ]
        after = read(name, before.write(given))
        assert len(after.segments) == len(before.segments)
        expected = [
            translation or shown(name, segment)
            for segment, translation in zip(before.segments, given, strict=True)
        ]
        found = [shown(name, segment) for segment in after.segments]
        # An attribute comes before its sentence if its tag is now at the start of it. A space
        # between an image and the end of a text is no longer part of the text.
        assert sorted(text.text.strip() for text in found if text) == sorted(
            text.text.strip() for text in expected if text
        )
        if name.endswith((*BILINGUAL, ".md", ".ftl")):
            assert [text and marks(text) for text in found] == [
                text and marks(text) for text in expected
            ]
        assert tag_names(name, after) == tag_names(name, before)

    check()


@pytest.mark.parametrize(
    "name", [name for name in EXAMPLES if not name.endswith((".docx", ".odt"))]
)
def test_bytes_around_a_translation_stay_but_for_the_name_of_the_language(name):
    document = read(name)
    assert isinstance(document, TextDocument)

    def part(start: int, end: int) -> bytes:
        text = document.text[:end]
        for change in sorted(document.changes, reverse=True):
            if start <= change.start and change.end <= end:
                text = text[: change.start] + change.text + text[change.end :]
        return document.encoding.encode(text[start:])

    changed = {document.text[start:end] for start, end, _ in document.changes}
    assert changed == ({"de"} if name in ("a.html", "a.arb", "a.yml") else set())
    for number, slot in enumerate(document.slots):
        given = [None] * len(document.slots)
        given[number] = MarkedText("Ersatz")
        written = document.write(given)
        head = part(0, slot.start)
        tail = part(slot.end, len(document.text)).removeprefix(document.encoding.mark)
        assert written.startswith(head) and written.endswith(tail)
        assert b"E\0r\0s" in written or b"Ersatz" in written


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", b"%PDF-1.7", r"a\.pdf: \.pdf files cannot be translated: a PDF has the places"),
        ("a.txt", b"%PDF-1.7", r"a\.txt: \.pdf files cannot be translated"),
        ("a.doc", b"", r"a\.doc: .*convert it to \.docx"),
        ("a.htlm", b"", r"a\.htlm: unknown format '\.htlm'; nearest: \.htm; allowed: \.txt, "),
        ("a", b"", r"a: unknown format ''; allowed: "),
    ],
)
def test_other_formats_are_refused_with_a_reason(name, content, message):
    with pytest.raises(ValueError, match=message):
        documents.read(name, content)


def test_suffixes_are_listed():
    assert {".docx", ".html", ".po"} <= set(documents.supported_suffixes())
    assert {f".{name.rpartition('.')[2]}" for name in EXAMPLES} <= set(
        documents.supported_suffixes()
    )
