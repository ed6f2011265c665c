"""What all answers have in common."""

import time

import pytest

from mmt.serve import files
from mmt.serve.responses import NDJSON
from tests.helpers.serving import Echo, multipart, request, translate


def test_browsers_of_other_sites_may_ask(serve_echo):
    with serve_echo() as (port, _):
        allowed = request(
            port, "OPTIONS", "/translate", Origin="https://a.example",
            Access_Control_Request_Method="POST", Access_Control_Request_Headers="content-type",
        )  # fmt: skip
        assert allowed.status == 200
        assert allowed.headers["access-control-allow-origin"] == "*"
        answer = request(
            port, "POST", "/translate", {"q": "a", "source": "de", "target": "en"},
            Origin="https://a.example",
        )  # fmt: skip
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_fault_in_the_server_is_not_shown(serve_echo, monkeypatch, capfd):
    with serve_echo() as (port, service):
        monkeypatch.setattr(type(service.models), "listed", lambda _: 1 / 0)
        answer = request(port, "GET", "/languages")
        assert (answer.status, answer.json) == (500, {"error": "Internal error"})
    logged = capfd.readouterr().err
    assert "ZeroDivisionError at test_responses.py" in logged and "Traceback" not in logged


def test_a_fault_in_the_server_ends_a_stream_with_an_error(serve_echo, monkeypatch, capfd):
    with serve_echo() as (port, _):
        monkeypatch.setattr(files, "translate_file", lambda *_, **__: 1 / 0)
        body, kind = multipart("a.txt", b"ein", source="de", target="en")
        answer = request(port, "POST", "/translate_file", body, Accept=NDJSON, **kind)
        assert answer.lines[-1] == {"error": "Internal error"}
    logged = capfd.readouterr().err
    assert "ZeroDivisionError at test_responses.py" in logged and "Traceback" not in logged


def test_what_takes_too_long_is_ended(serve_echo):
    with serve_echo(seconds=1.0) as (port, service):
        Echo.seconds = 0.6
        slow = translate(port, [f"Satz {i}" for i in range(40)])
        assert slow.status == 503 and "too long" in slow.json["error"]
        stream = request(
            port, "POST", "/translate",
            {"q": [f"Wort {i}" for i in range(40)], "source": "de", "target": "en"}, Accept=NDJSON,
        )  # fmt: skip
        assert stream.status == 200 and "too long" in stream.lines[-1]["error"]
        time.sleep(0.7)
        assert service.scheduler.queued_tokens == 0


def test_a_client_that_leaves_frees_its_work(serve_echo):
    with serve_echo() as (port, service):
        Echo.seconds = 0.3
        with pytest.raises(TimeoutError):
            request(
                port, "POST", "/translate",
                {"q": [f"Satz {i}" for i in range(80)], "source": "de", "target": "en"},
                timeout=0.5,
            )  # fmt: skip
        end = time.monotonic() + 5
        while service.memory.used and time.monotonic() < end:
            time.sleep(0.05)
        assert service.scheduler.queued_tokens == 0
        assert sum(Echo.batches) < 40
        assert service.memory.used == 0
