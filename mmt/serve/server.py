"""Runs the server: loads the models, listens, and ends when the accepted work is done."""

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mmt.decoding.bucketing import concurrent_searches
from mmt.serve import models
from mmt.serve.application import application
from mmt.serve.limits import ApiKeys, Limits
from mmt.serve.metrics import ServerMetrics
from mmt.serve.models import BatchKey, Models, ServedModel
from mmt.serve.scheduler import Scheduler, Sentence
from mmt.serve.service import Service
from mmt.system import garbage_collection, http_server, status, termination
from mmt.system.http_server import HttpServer
from mmt.system.termination import Termination
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
        with http_server.bind(host, port) as listening:
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
            address = http_server.url(host, listening)
            listening.listen(_BACKLOG)  # a client that reads the next line can connect
            print(f"mmt serve: {address} translates {all_models}", file=sys.stderr, flush=True)
            with garbage_collection.frozen(), garbage_collection.rare():
                _run(all_models, listening, decoding, limits, api_keys, stop)


def _run(
    all_models: Models, listening: socket.socket, decoding: Decoding, limits: Limits,
    keys: ApiKeys | None, stop: Termination,
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
        server(service, stop).run(sockets=[listening])


def server(service: Service, stop: Termination | None = None) -> HttpServer:
    """Returns the server, which does not run yet."""
    return HttpServer(
        application(service),
        stop,
        lifespan="off",
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=int(service.limits.file_seconds),
    )


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
