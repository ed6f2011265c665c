"""A command on a pseudo-terminal, with the time of everything that it shows."""

import os
import pty
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Screen(NamedTuple):
    """What a command showed: its status, (seconds since its start, text) of each write, its end."""

    status: int
    writes: list[tuple[float, str]]
    seconds: float

    @property
    def text(self) -> str:
        """All that was shown, without control sequences."""
        return _CONTROL.sub("", "".join(text for _, text in self.writes))

    def silences(self, least: float) -> list[tuple[float, float, str]]:
        """(begin, seconds, what was shown before) of every time without a letter shown."""
        spoken = [(0.0, "")]
        for at, text in self.writes:
            if re.search("[a-z]", plain := _CONTROL.sub("", text)):
                spoken.append((at, plain))
        ends = [at for at, _ in spoken[1:]] + [self.seconds]
        pairs = zip(spoken, ends, strict=True)
        return [(at, end - at, text) for (at, text), end in pairs if end - at > least]


def run(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], until: str = ""
) -> Screen:
    """Runs a command whose stderr is a terminal of 100 columns; its stdout goes nowhere.

    until: a text after which the command gets SIGTERM; '' lets it run to its end.
    """
    ours, theirs = pty.openpty()
    begin, writes = time.monotonic(), []
    with subprocess.Popen(
        command, cwd=cwd, env={**environment, "COLUMNS": "100", "TERM": "xterm"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            while chunk := os.read(ours, 1 << 16):
                writes.append((time.monotonic() - begin, chunk.decode(errors="replace")))
                if until and until in "".join(text for _, text in writes):
                    process.terminate()
                    until = ""
        except OSError:  # the terminal's other end is closed
            pass
    os.close(ours)
    return Screen(process.returncode, writes, time.monotonic() - begin)
