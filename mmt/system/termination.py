"""SIGTERM: a request to stop, also noticed while the main thread is in compiled code.

Python runs a signal's handler in the main thread between two of its instructions, so a compilation
of minutes delays it by minutes. A thread notices the signal at once. It ends the process if the
main thread does not answer and no work would be lost.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

STATUS = 128 + signal.SIGTERM
RETRY = 75  # exit status of a run that hung or lost a process: EX_TEMPFAIL, start it again
_DEFAULT_PATIENCE = 3.0  # seconds


class Termination:
    """A request to stop.

    Attributes:
        requested: set when SIGTERM is received.
        answered: set by the main thread when it handles the request.
        nothing_to_lose: called in another thread; True if the process may end without an answer.

    patience: seconds that the main thread has to answer.
    """

    def __init__(self, patience: float = _DEFAULT_PATIENCE) -> None:
        self._patience = patience
        self.requested = threading.Event()
        self.answered = threading.Event()
        self.nothing_to_lose: Callable[[], bool] = lambda: True

    def watch(self, signals: socket.socket) -> None:
        """Waits for SIGTERM, then for the answer; ends the process without an answer."""
        while number := signals.recv(1):
            if number[0] == signal.SIGTERM:
                self.requested.set()
                break
        else:
            return
        request_time = time.monotonic()
        while not self.answered.wait(0.1):
            if time.monotonic() - request_time > self._patience and self.nothing_to_lose():
                sys.stdout.flush()
                os.write(2, b"\nmmt: stopped by a signal; nothing is lost\n")
                os._exit(STATUS)


@contextlib.contextmanager
def watched(patience: float = _DEFAULT_PATIENCE) -> Iterator[Termination]:
    """Catches SIGTERM inside the `with` statement, if it is entered in the main thread."""
    termination = Termination(patience)
    if threading.current_thread() is not threading.main_thread():
        yield termination
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    handler = signal.signal(signal.SIGTERM, lambda *_: termination.requested.set())
    wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=termination.watch, args=(receiver,), daemon=True)
    thread.start()
    try:
        yield termination
    finally:
        termination.answered.set()
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGTERM, handler)
        sender.close()
        thread.join()
        receiver.close()
