"""`Refusal`: an error that a client gets as `{"error": message}`; and what a log says of others."""

import traceback
from pathlib import Path


class Refusal(Exception):
    """Ends a request with a status and a message for the client.

    retry_after: seconds after which the same request may succeed; None if it never will.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def place_of(error: BaseException) -> str:
    """Returns the type of an error and its place in the code, without its message.

    A message may hold a client's text, which no log may hold.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
