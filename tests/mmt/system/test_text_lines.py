"""Lines of plain and compressed files: what a line is, and which damage is detected."""

import gzip
import lzma
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from mmt.system import text_lines

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


@pytest.fixture(params=PACK)
def write(request, tmp_path):
    """A function that writes bytes into a file, packed in each way, and gives its path."""

    def made(content: bytes):
        path = tmp_path / f"text{request.param}"
        path.write_bytes(PACK[request.param](content))
        return path

    return made


def test_only_a_line_feed_ends_a_line(write):
    text = "a\u2028b\u0085c\x0bd\x0ce\rf\r\n\n g \n\tlast"
    path = write(text.encode())
    assert list(text_lines.read(path)) == ["a\u2028b\u0085c\x0bd\x0ce\rf", "", " g ", "\tlast"]
    assert text_lines.count(path) == 4


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\n\n", b"\n\na", b"a\r\n"])
def test_count_is_the_number_of_lines_read(write, content):
    path = write(content)
    assert text_lines.count(path) == len(list(text_lines.read(path)))


def test_large_files_with_long_lines_are_read_whole(write):
    expected = [f"{number} " + "ж" * (number % 7 * 40_000) for number in range(60)]
    path = write("\n".join(expected).encode())
    assert list(text_lines.read(path)) == expected
    assert text_lines.count(path) == 60


def test_a_byte_order_mark_is_removed(write):
    assert list(text_lines.read(write("\ufeffa\n\ufeffb".encode()))) == ["a", "\ufeffb"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"), min_size=1)))
def test_any_text_comes_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("any") / "text.zst"
    path.write_bytes(zstandard.compress("".join(text + "\n" for text in texts).encode()))
    assert list(text_lines.read(path)) == texts


def test_broken_utf8_is_named_with_file_and_line(write):
    path = write(b"fine\n\xd0\xb6 \xff\nfine\n")
    with pytest.raises(ValueError, match=r"text\S*:2: not UTF-8: .* 0xff at byte 4"):
        list(text_lines.read(path))
    with pytest.raises(ValueError, match=":1: not UTF-8"):
        list(text_lines.read(write("cut off: ж".encode()[:-1])))


@pytest.mark.parametrize("kind", [".gz", ".xz", ".zst"])
def test_a_damaged_archive_is_noticed(tmp_path, kind):
    whole = PACK[kind](b"".join(b"line %d\n" % number for number in range(5000)))
    path = tmp_path / f"text{kind}"
    for content in (whole[: len(whole) // 2], whole[:-1], b"no archive at all"):
        path.write_bytes(content)
        for reader in (text_lines.count, lambda path: list(text_lines.read(path))):
            with pytest.raises(ValueError, match=f"text{kind}: damaged"):
                reader(path)


@pytest.mark.parametrize("kind", [".gz", ".xz", ".zst"])
def test_archives_put_one_after_the_other_are_one_text(tmp_path, kind):
    path = tmp_path / f"text{kind}"
    path.write_bytes(PACK[kind](b"a\nb") + PACK[kind](b"c\nd\n"))
    assert list(text_lines.read(path)) == ["a", "bc", "d"]


def test_reading_streams(tmp_path):
    """The first lines come without the rest: damage further on is not yet noticed."""
    path = tmp_path / "text"
    path.write_bytes(b"first\n" * 200_000 + b"\xff\n")
    assert next(text_lines.read(path)) == "first"
