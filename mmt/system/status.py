"""Shows on stderr what a command is doing, until its own progress bar is shown.

On a terminal the line has a clock and vanishes with its phase. Elsewhere a phase that lasts is
announced, see `mmt.system.phases`. Nothing is printed outside `shown`.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from mmt.system import phases, progress


class StatusLine:
    """The line of the current phase, hidden while a progress bar is shown."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text, self._hidden = "", False
        self._bar: Any = None
        self.phases = phases.Phases(self._announce, self._set_text)

    def hide(self) -> None:
        self._hidden = True
        self._draw()

    def show(self) -> None:
        self._hidden = False
        self._draw()

    def close(self) -> None:
        """Ends the phase and its thread."""
        self.phases.close()

    def _set_text(self, text: str) -> None:
        self._text = text
        self._draw()

    def _draw(self) -> None:
        if not self._console.is_terminal:
            return
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._text and not self._hidden:
            self._bar = progress.status_bar(self._console, self._text)
            self._bar.start()

    def _announce(self, text: str) -> None:
        if not self._console.is_terminal:
            with contextlib.suppress(OSError):  # a full disk may lie behind stderr
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)


_line: StatusLine | None = None


@contextlib.contextmanager
def shown(kind: str, console: Console | None = None) -> Iterator[None]:
    """Shows phases inside, `kind` first. console: of stderr if None."""
    global _line
    with contextlib.ExitStack() as stack:
        if console is None:
            try:  # a copy of stderr: while TensorFlow is loaded, nothing may write to the original
                file = stack.enter_context(os.fdopen(os.dup(2), "w", encoding="utf-8"))
            except OSError:  # stderr is closed
                yield
                return
            console = Console(file=file)
        _line = line = StatusLine(console)
        progress.background = line
        try:
            begin(kind)
            yield
        finally:
            _line = progress.background = None
            line.close()


def begin(kind: str) -> None:
    """Ends the current phase and begins another one."""
    if _line:
        _line.phases.begin(kind)


def end() -> None:
    """Ends the current phase: from here on the command shows its progress itself."""
    if _line:
        _line.phases.end()


def seconds() -> dict[str, float]:
    """Returns the seconds of the finished phases by kind, in their order; {} if none are shown."""
    return (
        {kind: sum(durations) for kind, durations in _line.phases.seconds.items()} if _line else {}
    )


def off() -> None:
    """Shows no more phases: another process of the run does, or a server has started."""
    global _line
    if _line:
        _line.close()
        _line = progress.background = None


@contextlib.contextmanager
def phase(kind: str) -> Iterator[None]:
    """Shows a phase inside, then the current one again."""
    outer = _line.phases.kind if _line else ""
    begin(kind)
    yield
    if outer:
        begin(outer)
