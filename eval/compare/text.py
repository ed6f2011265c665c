"""The comparison as text: tables that fit a terminal, and plain lines in a file or pipe."""

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.compare.chapters import TextTable, chapters
from eval.compare.comparison import RunComparison

_UNLIMITED = 100_000  # columns: nothing is wrapped where no terminal is


def write(comparison: RunComparison, stream: TextIO) -> None:
    """Writes the comparison to a stream, with colours only on a terminal."""
    width = None if stream.isatty() else _UNLIMITED
    console = Console(file=stream, width=width, highlight=False)
    with console.capture() as capture:
        _print(comparison, console)
    lines = capture.get().splitlines()
    stream.writelines(f"{line.rstrip()}\n" for line in lines)


def _print(comparison: RunComparison, console: Console) -> None:
    for chapter in chapters(comparison):
        console.print(Text(f"\n{chapter.title}", style="bold"))
        for sentence in chapter.sentences:
            console.print(Text(sentence))
        for table in chapter.tables:
            if table.title:
                console.print(Text(f"\n{table.title}", style="italic"))
            console.print(_drawn(table))
        for note in chapter.notes:
            console.print(Text(f"note: {note}", style="yellow"))


def _drawn(table: TextTable) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, column in enumerate(table.columns):
        side = "left" if i < table.left else "right"
        drawn.add_column(Text(column), justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
