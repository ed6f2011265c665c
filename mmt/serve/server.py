"""Runs the server: loads the models, listens, and ends when the accepted work is done."""

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from mmt.decoding.bucketing import concurrent_searches
from mmt.serve import models
from mmt.serve.application import application
from mmt.serve.limits import ApiKeys, Limits
from mmt.serve.metrics import ServerMetrics
from mmt.serve.models import BatchKey, Models, ServedModel
from mmt.serve.responses import Guard
from mmt.serve.scheduler import Scheduler, Sentence
from mmt.serve.service import Service
from mmt.system import status, termination
from mmt.translate import Decoding, Translator

_BACKLOG = 2048  # connections that wait to be accepted
_HEADER_BYTES = 1 << 18  # some clients send texts in the query string


def serve(
    directories: Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 5000,
    keys: Path | None = None,
    decoding: Decoding,
    limits: Limits,
    load: Callable[..., Translator] = Translator.load,
) -> None:
    """Serves the models of run directories until SIGTERM or Ctrl-C, and finishes accepted work.

    Args:
        directories: run directories.
        host: address to listen on.
        port: port to listen on; 0 is any free one.
        keys: file of API keys; None allows everybody.
        decoding: options of every search.
        limits: limits of requests.
        load: loads the model of a directory.

    Raises:
        ValueError: a directory or the file of keys is not valid.
        OSError: the address cannot be used.
    """
    with termination.watched(patience=0.0) as stop:
        api_keys = ApiKeys.read(keys) if keys else None
        with _bind(host, port) as listening:
            status.begin("loading the model" if len(directories) == 1 else "loading the models")
            served = models.load(directories, load)
            all_models = Models(served)
            status.begin("compiling")
            for model in served:
                if model.calibration:
                    model.calibration.warn_unless_fitted_with(decoding)
                _compile(model, decoding)
            status.off()
            stop.nothing_to_lose = lambda: False  # the server finishes what was accepted
            address = f"http://{_url_host(host)}:{listening.getsockname()[1]}"
            listening.listen(_BACKLOG)  # a client that reads the next line can connect
            print(f"mmt serve: {address} translates {all_models}", file=sys.stderr, flush=True)
            _run(all_models, listening, decoding, limits, api_keys, stop)


class _Server(uvicorn.Server):
    """Ends on SIGTERM also if it came before uvicorn handles signals."""

    def __init__(self, config: uvicorn.Config, stop: termination.Termination) -> None:
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        """Returns whether the server ends; called every 0.1 s."""
        return self._stop.requested.is_set() or await super().on_tick(counter)


def _run(
    all_models: Models, listening: socket.socket, decoding: Decoding, limits: Limits,
    keys: ApiKeys | None, stop: termination.Termination,
) -> None:  # fmt: skip
    def observe(key: BatchKey, sentences: list[Sentence], seconds: float) -> None:
        tokens = sum(sentence.tokens for sentence in sentences)
        counters.count_batch(key.length, len(sentences), tokens, seconds)

    scheduler = Scheduler(
        models.decode,
        lambda key: key.model.translator.batch_size,
        queue_tokens=limits.queue_tokens,
        queue_seconds=limits.queue_seconds,
        max_wait=limits.max_wait,
        threads=concurrent_searches(),
        observe=observe,
    )
    counters = ServerMetrics(lambda: scheduler.queued_tokens)
    with scheduler:
        service = Service(all_models, scheduler, counters, decoding, limits, keys)
        config = _config(application(service), limits)
        _Server(config, stop).run(sockets=[listening])


def _config(app: Guard, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,  # a query string may hold text
        server_header=False,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=int(limits.file_seconds),
    )


def _bind(host: str, port: int) -> socket.socket:
    """Returns a socket with the address, which does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen on {_url_host(host)}:{port}: {reason}") from error
    return listening


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _compile(model: ServedModel, decoding: Decoding) -> None:
    """Translates a word, so that the first short request need not wait for compilation.

    With a calibration it does so with token scores too, which risks need.
    """
    translator = model.translator
    key: Any = {"source": model.sources[0]} if translator.routes_by_language else {}
    target = model.targets[0] if translator.tagged else None
    for token_scores in (False, True) if model.calibration else (False,):
        key["token_scores"] = token_scores
        for _ in translator.translate(["1"], target=target, decoding=decoding, **key):
            pass
