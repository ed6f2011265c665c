"""Announces the phases of a long command, so that it is never silent for long.

A thread announces a phase after a few seconds and again at intervals, since the main thread may be
in compiled code.
"""

import threading
import time
from collections.abc import Callable

QUIET = 2.5  # seconds until a phase is announced
REPEAT = 30.0  # seconds between two announcements of one phase


class Phases:
    """The current phase, its progress, and the time that each kind of phase has taken.

    announce: called with a line, in another thread, while a phase lasts.
    show: called with the text of the phase at every change; '' outside phases.
    """

    def __init__(self, announce: Callable[[str], None], show: Callable[[str], None]) -> None:
        self._announce, self._show = announce, show
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._kind = self._detail = ""
        self._since = self._next = 0.0
        self._thread: threading.Thread | None = None
        self.seconds: dict[str, list[float]] = {}  # of finished phases, by kind

    @property
    def kind(self) -> str:
        return self._kind

    def begin(self, kind: str) -> None:
        """Ends the current phase and begins another."""
        self.end()
        with self._lock:
            self._kind, self._detail, self._since = kind, "", time.monotonic()
            self._next = self._since + QUIET
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        self._show(kind)

    def progress(self, detail: str) -> None:
        """Sets the progress of the current phase."""
        self._detail = detail
        self._show(f"{self._kind}: {detail}")

    def end(self) -> None:
        """Ends the current phase."""
        with self._lock:
            kind, self._kind = self._kind, ""
        if kind:
            self.seconds.setdefault(kind, []).append(time.monotonic() - self._since)
            self._show("")

    def close(self) -> None:
        """Stops the thread."""
        self.end()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            with self._lock:
                now = time.monotonic()
                if not self._kind or now < self._next:
                    continue
                detail = f": {self._detail}" if self._detail else ""
                text = f"{self._kind}{detail} ({now - self._since:.0f} s in this phase)"
                self._next = now + REPEAT
            self._announce(text)
