"""Formats tables of text with aligned columns."""

from collections.abc import Iterator, Sequence


def aligned(rows: Sequence[Sequence[str]], *, left: int | None = None) -> Iterator[str]:
    """Yields a line per row, with columns of equal width, two spaces apart.

    left: the number of columns that are aligned left, such as texts; the others, such as numbers,
        are aligned right. None: all are aligned left.

    >>> list(aligned([("name", "pairs"), ("deu", "12")], left=1))
    ['name  pairs', 'deu      12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = len(widths) if left is None else left
    pads = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    for row in rows:
        cells = (pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True))
        yield "  ".join(cells).rstrip()
