"""The routes of the server: LibreTranslate's API, and the page at `/`.

Each handler reads parameters, calls one function and answers.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mmt.serve import metrics, specification, translation, web_page
from mmt.serve.errors import Refusal
from mmt.serve.parameters import RequestParameters, read
from mmt.serve.responses import (
    INTERNAL_ERROR,
    NDJSON,
    Guard,
    LinesResponse,
    as_json,
    cancel_on_disconnect,
    refusal,
    stream_with_timeout,
    with_timeout,
)
from mmt.serve.service import Service
from mmt.translate.files import supported_suffixes

_MAX_INLINE = 2000  # characters; longer texts are split in a thread, not in the event loop
_PROGRESS_SECONDS = 0.3  # between two progress lines of a file
Answer = Response | LinesResponse


def application(service: Service) -> Guard:
    """Returns the ASGI application of a service."""
    handlers: list[tuple[str, str, Callable[..., Awaitable[Any]]]] = [
        ("/", "GET", _page), ("/translate", "POST", _translate), ("/detect", "POST", _detect),
        ("/languages", "GET POST", _languages), ("/translate_file", "POST", _translate_file),
        ("/download_file/{name}", "GET", _download_file), ("/suggest", "POST", _suggest),
        ("/frontend/settings", "GET", _settings), ("/health", "GET", _health),
        ("/metrics", "GET", _metrics), ("/spec", "GET", _specification),
    ]  # fmt: skip
    routes = [
        Route(path, _endpoint(service, handler), methods=methods.split())
        for path, methods, handler in handlers
    ]
    cors = Middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"], expose_headers=["Retry-After"],
        max_age=86_400,
    )  # fmt: skip
    starlette = Starlette(
        routes=routes,
        middleware=[cors],
        exception_handlers={
            Refusal: _refused,
            HTTPException: _http_error,
            Exception: _failed,
        },  # fmt: skip
    )
    return Guard(starlette, service.metrics)


def _endpoint(
    service: Service, handler: Callable[..., Awaitable[Any]]
) -> Callable[[Request], Awaitable[Any]]:
    async def endpoint(request: Request) -> Any:
        return await handler(service, request)

    return endpoint


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refusal(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: "Not found; GET /spec lists the paths", 405: "Method not allowed"}
    message = messages.get(error.status_code, str(error.detail))
    return as_json({"error": message}, error.status_code, dict(error.headers or {}))


async def _failed(request: Request, error: Exception) -> Response:
    return as_json({"error": INTERNAL_ERROR}, 500)


async def _page(service: Service, request: Request) -> Response:
    return web_page.response()


async def _translate(service: Service, request: Request) -> Answer:
    with contextlib.ExitStack() as stack:
        parameters = await _parameters(service, request, stack, service.limits.body_bytes)
        translation_request = translation.read(parameters, service.limits, service.decoding)
        prepare = functools.partial(translation.prepare, translation_request, service.models)
        size = sum(len(text) + 50 for text in translation_request.texts)
        prepared = await asyncio.to_thread(prepare) if size > _MAX_INLINE else prepare()
        work = stack.enter_context(service.work(translation.sentences(prepared)))
        seconds = service.limits.seconds
        if _wants_lines(request):
            lines = stream_with_timeout(
                translation.lines(translation_request, prepared, work), seconds
            )
            return LinesResponse(request, lines, stack.pop_all())
        answer = with_timeout(translation.answer(translation_request, prepared, work), seconds)
        return as_json(await cancel_on_disconnect(request, answer))


async def _parameters(
    service: Service, request: Request, stack: contextlib.ExitStack, max_bytes: int
) -> RequestParameters:
    """Returns the parameters of a request. Raises Refusal if its key does not allow it."""
    reservation = stack.enter_context(service.memory.reservation())
    parameters = await read(request, service.limits, reservation, max_bytes=max_bytes)
    service.admit(parameters.text("api_key", "") or _bearer(request))
    return parameters


def _bearer(request: Request) -> str:
    """Returns the key of the header `Authorization: Bearer KEY`, or ''."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def _wants_lines(request: Request) -> bool:
    return NDJSON in request.headers.get("accept", "")


async def _detect(service: Service, request: Request) -> Response:
    with contextlib.ExitStack() as stack:
        parameters = await _parameters(service, request, stack, service.limits.body_bytes)
        text = parameters.text("q")
        translation.check_size([text], service.limits)
        return as_json(translation.detections(text, service.models))


async def _languages(service: Service, request: Request) -> Response:
    return as_json(service.models.listed())


async def _translate_file(service: Service, request: Request) -> Answer:
    with contextlib.ExitStack() as stack:
        max_bytes = service.limits.file_bytes + service.limits.body_bytes  # with a glossary
        parameters = await _parameters(service, request, stack, max_bytes)
        job = translation.FileJob(parameters.file("file"), parameters, service)

        async def finished() -> dict[str, str]:
            content = await with_timeout(job.translated(), service.limits.file_seconds)
            name = service.translated_files.keep(job.file.name, job.target, content)
            return {"translatedFileUrl": f"{request.base_url}download_file/{name}"}

        if _wants_lines(request):
            return LinesResponse(request, _progress(job, finished()), stack.pop_all())
        return as_json(await cancel_on_disconnect(request, finished()))


async def _progress(job: translation.FileJob, finished: Any) -> AsyncIterator[dict[str, Any]]:
    """Yields the progress of a file, and its URL at the end."""
    task = asyncio.ensure_future(finished)
    try:
        while not (await asyncio.wait((task,), timeout=_PROGRESS_SECONDS))[0]:
            yield {"done": job.done, "total": job.total}
        yield task.result()
    finally:
        task.cancel()


async def _download_file(service: Service, request: Request) -> Response:
    file = service.translated_files.get(request.path_params["name"])
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}",
        "Content-Security-Policy": "sandbox", "Cache-Control": "no-store",
    }  # fmt: skip
    return Response(file.content, headers=headers, media_type="application/octet-stream")


async def _suggest(service: Service, request: Request) -> Response:
    raise Refusal(403, "Suggestions are disabled on this server")


async def _settings(service: Service, request: Request) -> Response:
    default = service.models.default()
    return as_json(
        {
            "apiKeys": service.keys is not None,
            "charLimit": service.limits.characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": service.keys is not None,
            "language": default,
            "suggestions": False,
            "supportedFilesFormat": list(supported_suffixes()),
            "alternatives": service.decoding.beam - 1,
            "identification": service.models.identifies,
            "glossary": service.models.take_glossary,
            "targets": service.models.listed_targets(),
        }
    )


async def _health(service: Service, request: Request) -> Response:
    if not service.scheduler.alive:
        raise Refusal(503, "the thread that translates has ended")
    return as_json({"status": "ok"})


async def _metrics(service: Service, request: Request) -> Response:
    if service.keys is not None and not service.keys.knows(_bearer(request)):
        raise Refusal(403, "Invalid API key: /metrics needs Authorization: Bearer KEY")
    return Response(service.metrics.text(), media_type=metrics.CONTENT_TYPE)


async def _specification(service: Service, request: Request) -> Response:
    return as_json(specification.specification())
