"""Ends processes with their parent. It is also the program that starts them, by its path.

    python with_parent.py PARENT COMMAND ...

It imports nothing of the project, so that it starts fast and with any `sys.path`.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PDEATHSIG = 1  # of prctl(2)
_IS_LINUX = sys.platform.startswith("linux")


def end_with(parent: int) -> None:
    """On Linux, sends this process SIGTERM when its parent with id `parent` dies.

    This stays so in a program that replaces this process (`exec`).
    """
    if not _IS_LINUX:
        return
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died already
        os.kill(os.getpid(), signal.SIGTERM)


def wrapped(command: Sequence[str]) -> list[str]:
    """Returns a command that runs `command` in the same process, and ends with this process.

    Where that is not possible, it is the command itself. A function that `subprocess` calls in the
    child would be unsafe, since this process has threads.
    """
    if not _IS_LINUX:
        return list(command)
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main() -> None:
    """Replaces this process by the command; ends with status 127 if that fails, as a shell does."""
    parent, *command = sys.argv[1:]
    end_with(int(parent))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"mmt launch: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
