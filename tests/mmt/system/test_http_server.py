"""The server: its addresses, its errors, and a signal that comes before it runs."""

import socket
import threading

import pytest

pytest.importorskip("uvicorn", reason="extra [serve]")

from mmt.system import http_server
from mmt.system.http_server import HttpServer
from mmt.system.termination import Termination


async def no_application(scope, receive, send):
    raise AssertionError("nobody asks")


def test_a_request_to_stop_that_came_earlier_ends_it():
    stop = Termination()
    stop.requested.set()
    with http_server.bind("127.0.0.1", 0) as bound:
        server = HttpServer(no_application, stop, lifespan="off")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="an option of Linux")
def test_a_client_that_reads_nothing_does_not_delay_the_end(monkeypatch):
    monkeypatch.setattr(http_server, "_UNREAD_SECONDS", 2)

    async def much(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(20_000_000)})
        stop.requested.set()

    stop = Termination()
    with http_server.bind("127.0.0.1", 0) as bound:
        bound.listen()
        server = HttpServer(much, stop, lifespan="off", timeout_graceful_shutdown=60)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        with socket.create_connection(bound.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("host", "prefix"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")]
)
def test_the_url_names_the_host_and_the_free_port(host, prefix):
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with http_server.bind(host, 0) as bound:
        assert http_server.url(host, bound) == f"{prefix}{bound.getsockname()[1]}"


def test_an_address_in_use_and_an_impossible_port():
    with http_server.bind("127.0.0.1", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address"):
            http_server.bind("127.0.0.1", port)
    with pytest.raises(OSError, match="cannot listen on 127.0.0.1:70000"):
        http_server.bind("127.0.0.1", 70000)
    with pytest.raises(OSError, match=r"cannot listen on nowhere\.invalid:0: "):
        http_server.bind("nowhere.invalid", 0)
