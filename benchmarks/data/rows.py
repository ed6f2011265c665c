"""Measures how long an evaluation waits for a study's file of rows after each language.

    python -m benchmarks.data.rows [ROWS]

The file has made-up rows of output checks (`analysis.jsonl` of mix150 has 37,000 rows). A language
reads it and adds one row. The second line of the table forgets the parsed rows each time.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval.records import analysis, rows
from mmt import languages

LANGUAGES = 8


def made_up(count: int) -> Iterator[analysis.OutputChecks]:
    """Yields rows of many systems, 100 languages each."""
    codes = [language.code for language in languages.all_languages()][:100]
    for number in range(count):
        yield analysis.OutputChecks(
            system=f"system{number // len(codes)}", testset="test", source=codes[number % 100],
            target="eng_Latn", checkpoint="1000", decode="beam:4", hypotheses="0" * 12,
            copies=0.0, empty=0.0, short=0.1, long=0.0, looping=0.0, not_english=0.0,
            recited=None, sentences=100,
        )  # fmt: skip


def seconds(file: Path, *, forget: bool) -> tuple[float, float]:
    """Returns the seconds of the first language, and the mean of the others."""
    taken: list[float] = []
    for row in list(made_up(LANGUAGES)):
        if forget or not taken:
            rows._parsed.clear()
        began = time.perf_counter()
        analysis.read(file)
        analysis.add(file, [row])
        taken.append(time.perf_counter() - began)
    return taken[0], sum(taken[1:]) / len(taken[1:])


def main(count: int = 37_000) -> None:
    """Prints the table."""
    print(header(), file=sys.stderr)
    table = Table(title=f"{count:,} rows")
    for column in ("parsed rows", "first language, s", "each other language, s"):
        table.add_column(column, justify="left" if column == "parsed rows" else "right")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / analysis.FILE
        analysis.add(file, list(made_up(count)))
        for name, forget in (("remembered", False), ("forgotten", True)):
            table.add_row(name, *(f"{taken:.2f}" for taken in seconds(file, forget=forget)))
    Console().print(table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
