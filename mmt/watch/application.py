"""The routes of the page's server: the page, the data of the runs, and events when they change."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from mmt.system.content_policy import HEADERS, content_policy
from mmt.watch.watched_run import WatchedRun
from mmt.watch.web_page import page

HOSTS = ["127.0.0.1", "localhost"]  # no others, against DNS rebinding
POLL = 2.0  # seconds between two reads of the files
_COLUMNS = (1, 4000)
_EVENTS = 0.5  # minimum seconds between two events
_KEEP_ALIVE = 15.0  # seconds


def application(
    runs: Sequence[WatchedRun],
    *,
    poll: float = POLL,
    stopping: Callable[[], bool] = lambda: False,
) -> Starlette:
    """Returns the ASGI application. A request names runs, languages and metrics, never a file.

    poll: seconds between two reads of the files.
    stopping: returns whether the server is stopping; streams of events then end.
    """
    routes = [
        Route("/", _page),
        Route("/api/runs", _overviews),
        Route("/api/series", _series),
        Route("/api/totals", _totals),
        Route("/api/samples", _samples),
        Route("/api/events", _events),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(runs, poll))
        yield
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching

    app = Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    app.state.runs, app.state.stopping = list(runs), stopping
    return app


async def _watch(runs: Sequence[WatchedRun], poll: float) -> None:
    while True:
        changed = [await asyncio.to_thread(run.read) for run in runs]
        if not any(changed):
            await asyncio.sleep(poll)


async def _events(request: Request) -> Response:
    """Streams an event when data have changed; the client then requests them."""
    state = request.app.state

    async def lines() -> AsyncIterator[str]:
        sent, seconds_silent = None, 0.0
        while not state.stopping():
            state_now = [[run.version, round(run.progress, 2)] for run in state.runs]
            if state_now != sent:
                yield f"data: {json.dumps(state_now)}\n\n"
                sent, seconds_silent = state_now, 0.0
            elif seconds_silent >= _KEEP_ALIVE:
                yield ": nothing new\n\n"
                seconds_silent = 0.0
            await asyncio.sleep(_EVENTS)
            seconds_silent += _EVENTS

    return StreamingResponse(
        lines(), media_type="text/event-stream", headers=HEADERS | {"Cache-Control": "no-store"}
    )


async def _page(request: Request) -> Response:
    text = page()
    policy = {"Content-Security-Policy": content_policy(text), "Cache-Control": "no-cache"}
    return HTMLResponse(text, headers=HEADERS | policy)


def _overviews(request: Request) -> Response:
    return _json([run.overview() for run in request.app.state.runs])


def _series(request: Request) -> Response:
    query = request.query_params
    try:
        return _json(
            _run(request).series(
                query.get("metric", ""), codes=_codes(request), bands=query.get("bands") == "1",
                **_window(request),
            )
        )  # fmt: skip
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def _totals(request: Request) -> Response:
    return _json(_run(request).totals(**_window(request)))


def _samples(request: Request) -> Response:
    return _json(_run(request).samples(_codes(request)))


def _codes(request: Request) -> list[str] | None:
    codes = request.query_params.get("languages")
    return codes.split(",") if codes else None


def _run(request: Request) -> WatchedRun:
    runs: list[WatchedRun] = request.app.state.runs
    return runs[_integer(request, "run", 0, len(runs) - 1, default=0)]


def _window(request: Request) -> dict[str, Any]:
    window: dict[str, Any] = {"columns": _integer(request, "columns", *_COLUMNS, default=400)}
    for name in ("first", "last"):
        if name in request.query_params:
            window[name] = _integer(request, name, 0, 1 << 53, default=0)
    return window


def _integer(request: Request, name: str, minimum: int, maximum: int, *, default: int) -> int:
    text = request.query_params.get(name, str(default))
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 17 else -1
    if not minimum <= number <= maximum:
        raise HTTPException(400, f"{name} is {text[:40]!r}; allowed: {minimum} to {maximum}")
    return number


def _json(content: Any, status: int = 200) -> Response:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    headers = HEADERS | {"Cache-Control": "no-store"}
    content_bytes = text.encode(errors="replace")  # a directory's name may be no text
    return Response(content_bytes, status, headers, media_type="application/json")


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code)
