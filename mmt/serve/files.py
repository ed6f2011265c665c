"""Files: the threads that read and write them, and the store of translated ones."""

import asyncio
import functools
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from mmt.documents import MarkedText
from mmt.serve.errors import Refusal
from mmt.serve.parameters import UploadedFile
from mmt.translate.files import Detect, translate_file

TranslateLater = Callable[[list[MarkedText]], Coroutine[Any, Any, list[MarkedText]]]

_NAME = 80  # characters of a result's name
_THREADS = 4  # files that are translated at once


def _suffix(name: str) -> str:
    return _plain(PurePosixPath(name.replace("\\", "/")).suffix.lower()[:20])


def _stem(name: str) -> str:
    return _plain(PurePosixPath(name.replace("\\", "/")).stem[:_NAME])


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_. " else "_" for c in name)


class FileThreads:
    """Threads that read and write files, while the event loop translates their texts."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "mmt-file")
        self._busy = 0

    async def translate(
        self,
        file: UploadedFile,
        translate: TranslateLater,
        languages: tuple[str, str],
        detect: Detect | None = None,
    ) -> bytes:
        """Returns the translated file. If it is cancelled, `translate` is cancelled too.

        `languages` are the names of source and target; '' is an unknown source, for `detect`.

        Raises:
            Refusal: all threads are busy, or the file cannot be translated.
        """
        if self._busy >= _THREADS:
            raise Refusal(503, f"Slowdown: {_THREADS} files are being translated", retry_after=30)
        loop = asyncio.get_running_loop()
        waiting: list[Future[list[MarkedText]]] = []
        cancelled = False

        def translate_now(texts: list[MarkedText]) -> list[MarkedText]:
            if cancelled:
                raise ValueError("cancelled")
            waiting.append(asyncio.run_coroutine_threadsafe(translate(texts), loop))
            return waiting[-1].result()

        self._busy += 1
        source, target = languages
        translated = functools.partial(
            translate_file, f"{_stem(file.name)}{_suffix(file.name)}", file.content, translate_now,
            source=source or None, target=target, detect=detect,
        )  # fmt: skip
        work = loop.run_in_executor(self._threads, translated)
        work.add_done_callback(self._finished)
        try:
            return await asyncio.shield(work)
        except ValueError as error:
            raise Refusal(400, str(error).splitlines()[0]) from None
        except asyncio.CancelledError:
            cancelled = True
            for future in waiting:
                future.cancel()
            raise

    def _finished(self, work: asyncio.Future[bytes]) -> None:
        self._busy -= 1
        if not work.cancelled():
            work.exception()  # an error of a cancelled request has no reader


class TranslatedFile(NamedTuple):
    """A translated file: its name for the client, its content, and the time when it expires."""

    name: str
    content: bytes
    expires: float


class TranslatedFiles:
    """Translated files in memory, under names that cannot be guessed.

    Args:
        max_bytes: bytes of all files; the oldest are dropped to make room for new ones.
        seconds: how long a file is kept.
        clock: returns monotonic time in seconds.
    """

    def __init__(
        self, max_bytes: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes, self._seconds, self._clock = max_bytes, seconds, clock
        self._files: OrderedDict[str, TranslatedFile] = OrderedDict()
        self.size = 0  # bytes

    def keep(self, name: str, target: str, content: bytes) -> str:
        """Stores a translated file; returns the token to fetch it with."""
        self._drop_old(len(content))
        token = secrets.token_urlsafe(18) + _suffix(name)
        expires = self._clock() + self._seconds
        self.size += len(content)
        self._files[token] = TranslatedFile(
            f"{_stem(name)}.{target}{_suffix(name)}", content, expires
        )
        return token

    def get(self, token: str) -> TranslatedFile:
        """Returns the file of a token. Raises Refusal if there is none, or it has expired."""
        self._drop_old()
        if token not in self._files:
            raise Refusal(404, "there is no such file, or it is no longer kept")
        return self._files[token]

    def _drop_old(self, room: int = 0) -> None:
        """Drops expired files, and the oldest ones until there is room for `room` bytes."""
        now = self._clock()
        while self._files:
            oldest = next(iter(self._files.values()))
            if oldest.expires > now and self.size + room <= self._max_bytes:
                return
            self._files.popitem(last=False)
            self.size -= len(oldest.content)
