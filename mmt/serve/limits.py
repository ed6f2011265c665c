"""`Limits` of requests; `ApiKeys`: who may send requests, and how often."""

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mmt import checked
from mmt.serve.errors import Refusal

_LINE = re.compile(r"([0-9a-f]{64})(?:\s+(\d{1,9}))?(?:\s+([^\W\d].*))?")


@dataclass(frozen=True)
class Limits:
    """Limits of the server. Gin binds them: `--gin.Limits.characters=5000`.

    Attributes:
        characters: characters of all texts of a request.
        texts: texts of a request.
        body_bytes: bytes of a request's body; `/translate_file` has `file_bytes` instead.
        file_bytes: bytes of an uploaded file.
        held_bytes: bytes of all bodies in memory; and of all translated files, of which the oldest
            make room for new ones.
        queue_tokens: source tokens that wait for translation; a request that does not fit is
            refused with 503.
        queue_seconds: estimated seconds that a request may wait for others; it is refused with 503
            if they are more.
        max_wait: seconds that a sentence waits at most for others to fill its batch, while other
            batches run.
        cache_characters: characters of sentences and translations in the cache; 0 disables it.
        body_seconds: seconds in which a body must arrive.
        seconds: seconds in which a text must be translated.
        file_seconds: seconds in which a file must be translated, and for which it is kept.
    """

    characters: int = 100_000
    texts: int = 1000
    body_bytes: int = 1 << 20
    file_bytes: int = 10 << 20
    held_bytes: int = 128 << 20
    queue_tokens: int = 1 << 16
    queue_seconds: float = 4.0
    max_wait: float = 0.05
    cache_characters: int = 10_000_000
    body_seconds: float = 20.0
    seconds: float = 60.0
    file_seconds: float = 900.0

    def __post_init__(self) -> None:
        checked.check(self)
        for name, value in vars(self).items():
            may_be_zero = name in ("max_wait", "cache_characters")
            if value == float("inf") or value < 0 or (value == 0 and not may_be_zero):
                allowed = "0 or more" if may_be_zero else "above 0"
                raise ValueError(f"Limits.{name} = {value}; allowed: {allowed}")


class ApiKeys:
    """The keys of a file, with requests per minute.

    The file holds hashes, so reading it gives no access. Make a random key, for example with
    `openssl rand -hex 16`, and its hash with `printf %s KEY | sha256sum`.

    Rate limiting is a token bucket that holds the requests of one minute.

    clock: returns monotonic time in seconds.
    """

    def __init__(
        self, per_minute: dict[str, int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._spent: dict[str, tuple[float, float]] = {}  # hash -> (requests, at time)

    @classmethod
    def read(cls, file: Path) -> "ApiKeys":
        """Reads lines of `SHA256 [REQUESTS_PER_MINUTE] [NAME]`; `#` begins a comment.

        A key without a number, or with 0, has no limit.

        Raises:
            ValueError: a line has another form, or a key is given twice; or there is no key.
        """
        per_minute: dict[str, int] = {}
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            content = line.partition("#")[0].strip()
            if not content:
                continue
            match = _LINE.fullmatch(content)
            if not match:
                raise ValueError(
                    f"{file}:{number}: expected SHA256 [REQUESTS_PER_MINUTE] [NAME], with a hash "
                    f"of 64 hexadecimal digits, found {content.split()[0][:8]}…"
                )
            if match[1] in per_minute:
                raise ValueError(f"{file}:{number}: the key {match[1][:8]}… is given twice")
            per_minute[match[1]] = int(match[2] or 0)
        if not per_minute:
            raise ValueError(f"{file} has no key; a line is SHA256 [REQUESTS_PER_MINUTE] [NAME]")
        return cls(per_minute)

    def knows(self, key: str) -> bool:
        """Returns whether the key is one of the file."""
        return _hash(key) in self._per_minute

    def spend(self, key: str) -> None:
        """Counts a request. Raises Refusal if the key is unknown or has no requests left."""
        if not key:
            raise Refusal(403, "Invalid API key: this server needs one (api_key)")
        name = _hash(key)
        if name not in self._per_minute:
            raise Refusal(403, "Invalid API key")
        allowed = self._per_minute[name]
        if not allowed:
            return
        now = self._clock()
        spent, since = self._spent.get(name, (0.0, now))
        spent = max(0.0, spent - (now - since) * allowed / 60)
        if spent + 1 > allowed:
            wait = max(1, round((spent + 1 - allowed) * 60 / allowed))
            raise Refusal(
                429, f"Slowdown: {allowed} requests per minute with this key", retry_after=wait
            )
        self._spent[name] = spent + 1, now


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
