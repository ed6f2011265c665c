"""Runs the page's server on this machine's own address, until SIGTERM or Ctrl-C."""

import socket
import sys
from collections.abc import Sequence

import uvicorn

from mmt.system import termination
from mmt.watch.application import POLL, application
from mmt.watch.watched_run import WatchedRun

HOST = "127.0.0.1"


def watch(runs: Sequence[WatchedRun], *, port: int = 6007) -> None:
    """Serves the page of some runs at `http://127.0.0.1:<port>`, which other machines cannot reach.

    port: 0 is any free one.

    Raises:
      OSError: the port cannot be used.
    """
    with termination.watched(patience=0.0) as stop, _bound(port) as listening:
        stop.nothing_to_lose = lambda: False  # uvicorn ends it
        listening.listen()
        names = ", ".join(run.name for run in runs)
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        print(f"mmt watch: {address} shows {names}; Ctrl-C ends it", file=sys.stderr, flush=True)
        server(runs).run(sockets=[listening])


def server(runs: Sequence[WatchedRun], *, poll: float = POLL) -> uvicorn.Server:
    """Returns the server, which does not run yet. poll: seconds between looks at the files."""
    app = application(runs, poll=poll, stopping=lambda: serving.should_exit)
    serving = uvicorn.Server(
        uvicorn.Config(
            app, http="h11", loop="asyncio", ws="none", lifespan="on", log_level="warning",
            access_log=False, server_header=False, timeout_graceful_shutdown=5,
        )
    )  # fmt: skip
    return serving


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen on {HOST}:{port}: {reason}") from error
    return bound
