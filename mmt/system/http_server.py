"""An HTTP server in this process, until SIGTERM or Ctrl-C."""

import socket
from typing import Any

import uvicorn

from mmt.system.termination import Termination

_LAST_PORT = 65535
_UNREAD_SECONDS = 60  # after which Linux breaks a connection whose client reads nothing


class HttpServer(uvicorn.Server):
    """A server of an ASGI application. SIGTERM ends it also before `uvicorn` handles signals.

    settings: of `uvicorn.Config`. Requests are not logged, since a query may hold text.
    """

    def __init__(self, app: Any, stop: Termination | None = None, **settings: Any) -> None:
        config = uvicorn.Config(
            app, http="h11", loop="asyncio", ws="none", log_level="warning", access_log=False,
            server_header=False, **settings,
        )  # fmt: skip
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        """Returns whether the server ends; called every 0.1 s."""
        requested = self._stop is not None and self._stop.requested.is_set()
        return requested or await super().on_tick(counter)


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket with the address, which does not listen yet. port: 0 is any free one.

    Raises OSError, which names the address.
    """
    try:
        if not 0 <= port <= _LAST_PORT:  # getaddrinfo takes the remainder by 65,536
            raise OverflowError(f"allowed ports: 0 to {_LAST_PORT}")
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                milliseconds = _UNREAD_SECONDS * 1000
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen on {_in_url(host)}:{port}: {reason}") from error
    return bound


def url(host: str, bound: socket.socket) -> str:
    """Returns the URL of a socket that is bound to an address of `host`."""
    return f"http://{_in_url(host)}:{bound.getsockname()[1]}"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
