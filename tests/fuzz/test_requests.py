"""A broken request gets an error of the API that shows nothing of the inside, and the next client
is served. The search is replaced by the identity.
"""

import contextlib
import http.client
import json
import re
import socket
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import strategies as st

from tests.fuzz.strategies import NASTY, damage, fuzzed
from tests.helpers import serving

PATHS = ("/translate", "/detect", "/translate_file", "/languages", "/suggest", "/spec", "/health",
         "/frontend/settings", "/metrics", "/", "/download_file/x", "/download_file/..%2f..",
         "/../../etc/passwd", "/%00", "/translate/", "/docs")  # fmt: skip
TYPES = (
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "multipart/form-data", "application/json; charset=utf-16", "text/plain", "", "multipart/mixed",
    "multipart/form-data; boundary=x; charset=utf-7", "application/problem+json",
)  # fmt: skip
LANGUAGES = st.sampled_from(["de", "en", "auto", "xx", "", "German", "zh", "de\x00", "Ho", "../de"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.just("a\ud800"), st.just("\x00"), st.just("a. " * 2000),
    st.sampled_from(["1", "-1", "9" * 99]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda some: (
        st.lists(some, max_size=4) | st.dictionaries(st.text(max_size=3), some, max_size=3)
    ),
    max_leaves=8,
)
NAMES = ("q", "source", "target", "format", "alternatives", "api_key", "glossary", "risk", "file")
PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(NAMES, VALUES),
        "q": st.one_of(st.text(max_size=50), st.lists(st.text(max_size=9), max_size=5), VALUES),
        "source": st.one_of(LANGUAGES, LANGUAGES, VALUES),
        "target": st.one_of(st.just("en"), LANGUAGES, VALUES),
        "format": st.one_of(st.sampled_from(["text", "html", "pdf"]), VALUES),
    },
)
MULTIPART = serving.multipart("a.txt", b"ein Satz", source="de", target="en")[0]
GOOD = [
    b'{"q": "ein Satz", "source": "de", "target": "en"}', b"q=ein+Satz&source=de&target=en",
    MULTIPART, MULTIPART.replace(b"a.txt", b"a.html"), MULTIPART.replace(b"a.txt", b"../a.docx"),
    b'{"q": [' + b"[" * 20_000, b"[" * 100_000, b'{"q": "' + b"a" * 10_000_000 + b'"}',
]  # fmt: skip
BODIES = st.one_of(
    PARAMETERS.map(lambda values: json.dumps(values).encode()),
    PARAMETERS.map(
        lambda values: "&".join(
            f"{name}={quote_from_bytes(str(value).encode(errors='surrogatepass'))}"
            for name, value in values.items()
        ).encode()
    ),
    st.sampled_from(GOOD).flatmap(damage),
    st.sampled_from(NASTY),
    st.binary(max_size=50),
)
HEADERS = st.fixed_dictionaries(
    {"Content-Type": st.sampled_from(TYPES)},
    optional={
        "Accept": st.sampled_from(["application/x-ndjson", "*/*"]),
        "Authorization": st.sampled_from(["Bearer", "Bearer a b", "Basic x", " "]),
        "Origin": st.just("null"),
        "Content-Length": st.sampled_from(["0", "7", "99999999999", "-1", "x", "1, 2"]),
        "Transfer-Encoding": st.sampled_from(["chunked", "gzip", "chunked, chunked"]),
        "Expect": st.just("100-continue"),
    },
)
REQUESTS = st.tuples(
    st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "OPTIONS", "HEAD", "TRACE"]),
    st.sampled_from(PATHS[:1] * 6 + PATHS), HEADERS, BODIES,
)  # fmt: skip
PLACES = "|".join(map(re.escape, (str(Path.home()), tempfile.gettempdir(), sys.prefix)))
INSIDE = re.compile(rf'Traceback|File "|site-packages|{PLACES}|\.py\b|mmt\.serve'.encode())
STATUSES = {200, 307, 400, 403, 404, 405, 408, 411, 413, 415, 429, 431, 501, 503}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    file = tmp_path_factory.mktemp("requests") / "vocabulary.model"
    with pytest.MonkeyPatch.context() as patch:
        serving.replace_model(patch)
        translator = serving.echo_translator(file)
        with serving.service(translator, body_seconds=0.3, max_wait=0.0) as service:
            with serving.listening(service) as port:
                yield port
            assert service.scheduler.queued_tokens == 0 and service.scheduler.alive


@fuzzed(REQUESTS, short=150)
def test_a_broken_request_gets_an_error_that_shows_nothing(example, port, capfd):
    method, path, headers, body = example
    answer = sent(port, method, path, headers, body)
    if answer:  # else the server closed the connection, as it does in the middle of a body
        status, kind, content = answer
        assert status in STATUSES, content
        assert not INSIDE.search(content) or path in ("/", "/metrics") and status == 200
        if status >= 400 and kind == "application/json" and method != "HEAD":
            assert list(json.loads(content)) == ["error"]
            assert len(content) < 1000
    healthy = sent(port, "GET", "/health", {}, b"")
    assert healthy and healthy[0] == 200
    logged = capfd.readouterr().err
    assert "mmt serve:" not in logged and "Traceback" not in logged, logged


def sent(port, method, path, headers, body):
    """The status, type and body of the answer; None if there is no whole one."""
    length = {} if {"Content-Length", "Transfer-Encoding"} & headers.keys() else {
        "Content-Length": str(len(body))
    }  # fmt: skip
    head = "".join(f"{name}: {value}\r\n" for name, value in (headers | length).items())
    start = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{head}\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        with contextlib.suppress(ConnectionError):  # the server may have answered already
            connection.sendall(start + body)
        try:
            answer = http.client.HTTPResponse(connection, method=method)
            answer.begin()
            kind = (answer.getheader("Content-Type") or "").partition(";")[0]
            return answer.status, kind, answer.read()
        except (ConnectionError, http.client.HTTPException):
            return None
