"""The parameters of a request: JSON, a form or the query string, all read the same way."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from mmt import suggest
from mmt.serve.errors import Refusal
from mmt.serve.limits import Limits
from mmt.system import json_objects

_FIELDS = 50  # parameters of a form; the API has a dozen
_JSON, _URLENCODED, _MULTIPART = (
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
)  # fmt: skip


class UploadedFile(NamedTuple):
    """A file of a form: the name that the client gave, and its content."""

    name: str
    content: bytes


class MemoryBudget:
    """Limits the bytes that all requests keep in memory. Only the event loop may use it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self.used = max_bytes, 0

    @contextlib.contextmanager
    def reservation(self) -> Iterator["MemoryReservation"]:
        """Yields the reservation of one request, which is released at the end."""
        reservation = MemoryReservation(self)
        try:
            yield reservation
        finally:
            self.release(reservation.size)

    def reserve(self, size: int) -> None:
        """Counts more bytes. Raises Refusal if there is no room."""
        if self.used + size > self._max_bytes:
            raise Refusal(503, "the server is busy with large requests", retry_after=5)
        self.used += size

    def release(self, size: int) -> None:
        """Counts bytes that are no longer in memory."""
        self.used -= size


class MemoryReservation:
    """The bytes that one request keeps in memory."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget, self.size = budget, 0

    def reserve(self, size: int) -> None:
        """Counts more bytes. Raises Refusal if there is no room."""
        self._budget.reserve(size)
        self.size += size


class RequestParameters:
    """The parameters of one request, read by type. Errors name the parameter and its value."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a text. Raises Refusal if it is missing or empty and there is no default."""
        value = self._values.get(name)
        if value is None or value == "":
            if default is None:
                raise Refusal(400, f"Invalid request: missing {name} parameter")
            return default
        if not isinstance(value, str):
            raise Refusal(400, f"Invalid request: {name} must be text, not {_kind(value)}")
        return value

    def texts(self, name: str) -> str | list[str]:
        """Returns a text or a list of texts."""
        value = self._values.get(name)
        if isinstance(value, str):
            return value
        if value is None:
            raise Refusal(
                400,
                f"Invalid request: missing {name} parameter (in JSON with Content-Type: {_JSON}, "
                "a form, or the query string)",
            )
        if not isinstance(value, list):
            raise Refusal(
                400, f"Invalid request: {name} must be text or a list of texts, not {_kind(value)}"
            )
        for i, item in enumerate(value):
            if not isinstance(item, str):
                raise Refusal(400, f"Invalid request: {name}[{i}] must be text, not {_kind(item)}")
        if not value:
            raise Refusal(400, f"Invalid request: {name} is an empty list")
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Returns one of the allowed texts; the first is the default."""
        value = self.text(name, allowed[0])
        if value not in allowed:
            raise Refusal(
                400, f"{value[:40]} {name} is not supported; {suggest.choices(value, allowed)}"
            )
        return value

    def number(self, name: str, maximum: int) -> int:
        """Returns a whole number from 0, which is the default, to `maximum`."""
        value = self._values.get(name)
        if isinstance(value, str) and len(value) < 10 and value.isdecimal():
            value = int(value)
        if value is None or value == "":
            return 0
        if type(value) is not int or not 0 <= value <= maximum:
            is_number = type(value) in (int, float)
            received = str(value)[:20] if is_number or isinstance(value, str) else _kind(value)
            raise Refusal(
                400,
                f"Invalid request: {name} is {received}; "
                f"allowed: whole numbers from 0 to {maximum}",
            )
        return value

    def flag(self, name: str) -> bool:
        """Returns a truth value; the default is False."""
        value = self._values.get(name)
        flags = {"": False, "false": False, "0": False, "true": True, "1": True}
        spelling = "" if value is None else str(value).lower()
        if isinstance(value, (list, dict, UploadedFile)) or spelling not in flags:
            raise Refusal(400, f"Invalid request: {name} must be true or false")
        return flags[spelling]

    def file(self, name: str) -> UploadedFile:
        """Returns an uploaded file."""
        value = self._values.get(name)
        if not isinstance(value, UploadedFile):
            raise Refusal(400, f"Invalid request: missing {name} parameter ({_MULTIPART})")
        if not value.name:
            raise Refusal(400, f"Invalid request: the {name} has no name")
        return value


async def read(
    request: Request, limits: Limits, reservation: MemoryReservation, *, max_bytes: int
) -> RequestParameters:
    """Returns the parameters of the query string and of the body.

    Args:
        request: the request.
        limits: limits of the server.
        reservation: counts the bytes of the body.
        max_bytes: maximum bytes of the body.

    Raises:
        Refusal: the body is too large or too slow, is not what its type says, or gives a parameter
            twice.
    """
    body = await _body(request, limits, reservation, max_bytes)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    query = _pairs(request.scope["query_string"], "the query string")
    pairs: list[tuple[str, Any]]
    if kind == _JSON or kind.endswith("+json"):
        try:
            pairs = list(json_objects.parse(body).items())
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"Invalid request: the JSON of the body: {_first(error)}") from None
    elif kind == _MULTIPART:
        pairs = await _multipart(request, body)
    elif kind == _URLENCODED:
        pairs = list(_pairs(body, "the form"))
    else:
        pairs = []
    values: dict[str, Any] = {}
    for name, value in [*query, *pairs]:
        if name in values and values[name] != value:
            raise Refusal(400, f"Invalid request: {name[:40]!r} is given twice")
        values[name] = value
    return RequestParameters(values)


async def _body(
    request: Request, limits: Limits, reservation: MemoryReservation, max_bytes: int
) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:18]) > max_bytes:
        raise Refusal(413, _too_large(max_bytes))
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                reservation.reserve(len(chunk))
                chunks.append(chunk)
                if reservation.size > max_bytes:
                    raise Refusal(413, _too_large(max_bytes))
    except TimeoutError:
        raise Refusal(
            408, f"the request's body did not arrive within {limits.body_seconds:g} s"
        ) from None
    return b"".join(chunks)


def _too_large(max_bytes: int) -> str:
    return f"Invalid request: the body is too large; allowed: {max_bytes:,} bytes"


def _pairs(content: bytes, part: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            content.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except UnicodeDecodeError:
        raise Refusal(400, f"Invalid request: {part} is not UTF-8") from None
    except ValueError:
        raise Refusal(400, f"Invalid request: {part} has more than {_FIELDS} parameters") from None


async def _multipart(request: Request, body: bytes) -> list[tuple[str, Any]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(
        request.headers, stream(), max_files=1, max_fields=_FIELDS, max_part_size=len(body) + 1
    )
    parser.spool_max_size = len(body) + 1  # in memory, where the body is already
    try:
        form = await parser.parse()
    except (MultiPartException, UnicodeDecodeError, LookupError, ValueError, KeyError) as error:
        raise Refusal(
            400, f"Invalid request: the body is not {_MULTIPART}: {_first(error)}"
        ) from None
    pairs: list[tuple[str, Any]] = []
    for name, value in form.multi_items():
        if isinstance(value, str):
            pairs.append((name, value))
        else:
            pairs.append((name, UploadedFile(value.filename or "", await value.read())))
    await form.close()
    for name, value in pairs:
        if isinstance(value, str) and not _encodable(value):
            raise Refusal(400, f"Invalid request: {name[:40]!r} is not UTF-8")
    return pairs


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _first(error: Exception) -> str:
    return str(getattr(error, "message", error)).splitlines()[0][:200] if str(error) else "invalid"


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text",
             list: "a list", dict: "an object", UploadedFile: "a file"}  # fmt: skip
    return kinds.get(type(value), "nothing")
