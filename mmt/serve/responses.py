"""Answers: JSON, streams of JSON lines, time limits, and the headers and counts of all answers."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmt.serve.errors import Refusal, error_location
from mmt.serve.metrics import ServerMetrics
from mmt.system.content_policy import HEADERS

NDJSON = "application/x-ndjson"
INTERNAL_ERROR = "Internal error"  # its reason may hold a client's text
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_SEND_SECONDS = 60  # in which a client must read a part of its answer
_CLIENT_CLOSED = 499  # nginx's status for a client that has closed the connection


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns an answer in JSON, which must not be stored by the client."""
    headers = {"Cache-Control": "no-store"} | (headers or {})
    return Response(_encode(content), status, headers, media_type="application/json")


def refusal(error: Refusal) -> Response:
    """Returns the answer of a refused request."""
    after = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return as_json({"error": error.message}, error.status, after)


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of `work`; cancels it when the client closes the connection.

    The body of the request must have been read.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    task = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((task, disconnected), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, disconnected):
            each.cancel()
        await asyncio.gather(task, disconnected, return_exceptions=True)


async def with_timeout(work: Awaitable[Any], seconds: float) -> Any:
    """Returns the result of `work`. Raises Refusal if it takes more than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise Refusal(
            503, "Slowdown: the translation took too long; send less text", retry_after=30
        ) from None


async def stream_with_timeout(lines: AsyncIterator[Any], seconds: float) -> AsyncIterator[Any]:
    """Yields the objects. Raises Refusal if one of them is not ready `seconds` after the start."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    with contextlib.suppress(StopAsyncIteration):
        while True:
            yield await with_timeout(anext(lines), max(0.0, end - loop.time()))


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class LinesResponse:
    """Streams objects as lines of JSON, each when it is ready.

    An error is sent as the last line, because the status has been sent already.

    Args:
        request: the request.
        lines: the objects.
        stack: context managers to leave when the answer ends.
    """

    def __init__(
        self, request: Request, lines: AsyncIterator[Any], stack: contextlib.ExitStack
    ) -> None:
        self._request, self._lines, self._stack = request, lines, stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request (ASGI)."""
        with self._stack:
            await cancel_on_disconnect(self._request, self._send(send))

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", NDJSON.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async for line in self._lines:
                await self._send_line(send, line)
        except Refusal as error:
            await self._send_line(send, {"error": error.message})
        except ClientDisconnect:
            raise
        except Exception:  # it is logged by `Guard`
            await self._send_line(send, {"error": INTERNAL_ERROR})
            await send({"type": "http.response.body", "body": b""})
            raise
        await send({"type": "http.response.body", "body": b""})

    @staticmethod
    async def _send_line(send: Send, line: Any) -> None:
        body = _encode(line) + b"\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _encode(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


class Guard:
    """ASGI middleware that adds headers, counts requests, and logs errors."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.monotonic(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await send(message)
            except Exception as error:  # the connection is broken or not read, see uvicorn
                raise ClientDisconnect from error

        try:
            await self._app(scope, receive, guarded)
        except ClientDisconnect:
            status = _CLIENT_CLOSED
        except Exception as error:  # it was answered, see `mmt.serve.application`
            print(f"mmt serve: {error_location(error)}", file=sys.stderr, flush=True)
        finally:
            route: Any = scope.get("route")
            path = getattr(route, "path", "other")
            self._metrics.count_request(path, status or _CLIENT_CLOSED, time.monotonic() - begin)
