"""Tables of text: column widths, alignment of texts and numbers, no trailing spaces."""

from mmt.system.text_table import aligned

ROWS = [("language", "pairs", "note"), ("deu", "12", "")]


def test_columns_are_aligned_left():
    assert list(aligned(ROWS)) == ["language  pairs  note", "deu       12"]


def test_columns_of_numbers_are_aligned_right():
    assert list(aligned(ROWS, left=1)) == ["language  pairs  note", "deu          12"]
