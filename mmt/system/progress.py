"""Progress bars on stderr, all with the same layout.

Parts of a bar, after its description and the bar itself: COUNT ('3/12'), PERCENT, ELAPSED,
REMAINING and REMAINING_THEN_ELAPSED (times), and any other text, which may name a task's fields:
'{task.fields[text]}'.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

COUNT, PERCENT, ELAPSED, REMAINING = "count", "percent", "elapsed", "remaining"
REMAINING_THEN_ELAPSED = "remaining, then elapsed"
SENTENCES = (COUNT, "sentences", ELAPSED, "elapsed,", REMAINING, "left")
_COLUMNS: Mapping[str, Callable[[], ProgressColumn]] = {
    COUNT: MofNCompleteColumn,
    PERCENT: TaskProgressColumn,
    ELAPSED: TimeElapsedColumn,
    REMAINING: TimeRemainingColumn,
    REMAINING_THEN_ELAPSED: functools.partial(TimeRemainingColumn, elapsed_when_finished=True),
}

T = TypeVar("T")


class Background(Protocol):
    """A line that is hidden for as long as a progress bar is shown, see `mmt.system.status`."""

    def hide(self) -> None: ...
    def show(self) -> None: ...


background: Background | None = None


class _Bar(Progress):
    """A progress bar that hides the line in the background."""

    def start(self) -> None:
        if background and not self.disable:
            background.hide()
        super().start()

    def stop(self) -> None:
        super().stop()
        if background and not self.disable:
            background.show()


def progress_bar(
    *parts: str,
    console: Console | None = None,
    disable: bool | None = False,
    transient: bool = False,
) -> Progress:
    """Returns a progress bar with these parts, to be entered as a context or started.

    console: of stderr if None. disable: None hides the bar where the console is no terminal; a bar
    that is not hidden there is printed once, at its end. transient: whether it vanishes at its end.
    """
    console = console or Console(stderr=True)
    columns = [_COLUMNS[part]() if part in _COLUMNS else TextColumn(part) for part in parts]
    return _Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        console=console,
        disable=not console.is_terminal if disable is None else disable,
        transient=transient,
    )


def status_bar(console: Console, text: str) -> Progress:
    """Returns a bar without an end that shows a text and a clock; it vanishes when it is stopped.
    """
    description = TextColumn("{task.description}", markup=False)
    columns = description, BarColumn(bar_width=20), TimeElapsedColumn()
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
    bar.add_task(text, total=None)
    return bar


def track(
    items: Sequence[T],
    description: str,
    *,
    console: Console | None = None,
    disable: bool | None = False,
    transient: bool = False,
) -> Iterator[T]:
    """Yields `items` under a bar that shows how many are done; options as in `progress_bar`."""
    bar = progress_bar(
        PERCENT, REMAINING_THEN_ELAPSED, console=console, disable=disable, transient=transient
    )
    with bar:
        yield from bar.track(items, description=description)
