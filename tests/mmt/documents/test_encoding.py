"""Encodings: found, kept, and refused where text would be lost."""

import codecs

import pytest

from mmt.documents import encoding


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (b"", "utf-8"),
     (codecs.BOM_UTF32_BE, "utf-32-be")],
)  # fmt: skip
def test_the_byte_order_mark_says_the_encoding(mark, codec):
    content = mark + "Größe 語\r\n".encode(codec)
    text, found = encoding.decode("a.txt", content)
    assert text == "Größe 語\r\n" and found.codec == codec
    assert found.encode(text) == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\xff", r"a\.txt:2: not utf-8: invalid start byte 0xff"),
        (b"a\n\0", r"a\.txt:2: a NUL character; is it utf-8\?"),
        (codecs.BOM_UTF16_LE + b"a", r"a\.txt:1: not utf-16-le: truncated data"),
    ],
)
def test_faults_name_the_line(content, message):
    with pytest.raises(ValueError, match=message):
        encoding.decode("a.txt", content)


def test_the_first_encoding_that_fits_is_used():
    assert encoding.decode("a", b"\xe4", ("utf-8", "cp1252"))[1].codec == "cp1252"
    with pytest.raises(ValueError, match="its encoding 'nonsense' is unknown"):
        encoding.decode("a", b"a", ("nonsense",))


def test_too_many_bytes_are_refused(monkeypatch):
    monkeypatch.setattr(encoding, "LARGEST", 3)
    with pytest.raises(ValueError, match="a: 4 bytes"):
        encoding.decode("a", b"abcd")


def test_a_character_that_the_encoding_lacks_is_named():
    _, written = encoding.decode("a.po", b"\xe4", ("latin-1",))
    with pytest.raises(ValueError, match=r"^a\.po: its encoding, latin-1, has no '語'; convert"):
        written.encode("a語")
    assert encoding.Encoding("latin-1", b"", "xmlcharrefreplace").encode("語") == b"&#35486;"


def test_utf_8_with_few_wrong_bytes_is_refused_and_not_read_as_another_encoding():
    damaged = "Grüße für die Käuferin\n".encode() + b"Caf\xe9\n"
    with pytest.raises(ValueError, match=r"a\.vtt:2: not utf-8: invalid continuation byte 0xe9"):
        encoding.decode("a.vtt", damaged, ("utf-8", "cp1252"))
    text, found = encoding.decode("a.vtt", b"Caf\xe9 f\xfcr\n", ("utf-8", "cp1252"))
    assert (text, found.codec) == ("Café für\n", "cp1252")
