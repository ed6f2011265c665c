"""`Refusal`: an error that is sent to the client; and the text by which a log describes others."""

import traceback
from pathlib import Path


class Refusal(Exception):
    """Ends a request with an HTTP status and `{"error": message}`.

    retry_after: seconds after which the same request may succeed; None if it never will.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def error_location(error: BaseException) -> str:
    """Returns the type of an error and its location in the code, without its message.

    A message may contain a client's text, which must not be logged.
    """
    frames = traceback.extract_tb(error.__traceback__)
    location = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{location}"
