"""Runs the page's server on this machine's own address, until SIGTERM or Ctrl-C."""

import sys
from collections.abc import Sequence

from mmt.system import http_server, termination
from mmt.system.http_server import HttpServer
from mmt.system.termination import Termination
from mmt.watch.application import POLL, application
from mmt.watch.watched_run import WatchedRun

HOST = "127.0.0.1"


def watch(runs: Sequence[WatchedRun], *, port: int = 6007) -> None:
    """Serves the page of some runs at `http://127.0.0.1:<port>`, which other machines cannot reach.

    port: 0 is any free one.

    Raises:
      OSError: the port cannot be used.
    """
    with termination.watched(patience=0.0) as stop, http_server.bind(HOST, port) as listening:
        stop.nothing_to_lose = lambda: False  # uvicorn ends it
        listening.listen()
        names = ", ".join(run.name for run in runs)
        address = http_server.url(HOST, listening)
        print(f"mmt watch: {address} shows {names}; Ctrl-C ends it", file=sys.stderr, flush=True)
        server(runs, stop).run(sockets=[listening])


def server(
    runs: Sequence[WatchedRun], stop: Termination | None = None, *, poll: float = POLL
) -> HttpServer:
    """Returns the server, which does not run yet. poll: seconds between looks at the files."""
    app = application(runs, poll=poll, stopping=lambda: serving.should_exit)
    serving = HttpServer(app, stop, lifespan="on", timeout_graceful_shutdown=5)
    return serving
