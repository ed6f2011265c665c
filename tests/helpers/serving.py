"""A server in this process whose model gives every sentence back, and a plain HTTP client."""

import contextlib
import dataclasses
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from mmt.data import vocabulary
from mmt.data.cache.manifest import Manifest
from mmt.decoding.bucketing import BucketedBatches, DecodedSequence
from mmt.model.transformer import Config, Transformer
from mmt.serve import models, server
from mmt.serve.limits import Limits
from mmt.serve.metrics import ServerMetrics
from mmt.serve.models import Models, ServedModel
from mmt.serve.scheduler import Scheduler
from mmt.serve.service import Service
from mmt.system import http_server
from mmt.translate import Decoding, Translator, translator
from mmt.translate.alignment import Alignment

LANGUAGES = ("deu_Latn", "swh_Latn", "zho_Hans")


def replace_model(patch: pytest.MonkeyPatch) -> None:
    """Replaces the search by Echo, and the alignment by one of tokens in the same places."""
    patch.setattr(translator, "BucketedBatches", Echo)
    patch.setattr(translator.alignment, "align", _aligned)


def _aligned(model: Any, params: Any, pairs: Any, *_: Any, **options: Any) -> list[Alignment]:
    Echo.aligned.append(len(pairs))
    alignments = []
    for source, target in pairs:
        with_text = [i for i, (start, end) in enumerate(source.spans) if end > start]
        same = np.eye(len(source.spans), dtype=np.float32)[with_text]
        weights = np.resize(same, (len(target.spans), len(source.spans)))  # repeats the rows
        alignments.append(Alignment(tuple(source.spans), tuple(target.spans), weights))
    return alignments


class Echo(BucketedBatches):
    """Stands in for `BucketedBatches`: the i-th translation is i copies of the source."""

    seconds = 0.0  # of each batch
    batches: list[int] = []  # sentences of each batch
    aligned: list[int] = []  # pairs of each alignment

    def search(self, sources: Any) -> list[list[DecodedSequence]]:
        Echo.batches.append(len(sources))
        time.sleep(Echo.seconds)
        return [
            [
                DecodedSequence(tokens, [-float(i)] * len(tokens), -float(i))
                for i in range(self.decoding.nbest)
                for tokens in (list(source.tokens[1:-1]) * (i + 1),)
            ]
            for source in sources
        ]


def echo_translator(
    file: Path, *, target: str = "eng_Latn", sources: tuple[str, ...] = LANGUAGES, **options: Any
) -> Translator:
    """A translator without parameters; `BucketedBatches` must be replaced by Echo."""
    vocabulary.train(
        ["ein kleiner Satz", "日本 nein <b>"] * 9, file, size=300, tags=[f"<2{target[:3]}>"]
    )
    known = vocabulary.Vocabulary.load(file)
    counts = {"train": {code: 100 - i for i, code in enumerate(sources)}}
    sides = "source", "target"
    manifest = Manifest(
        "toy", target, sources, counts, "1", dict.fromkeys(sides, known.hash),
        dict.fromkeys(sides, known.size),
    )  # fmt: skip
    options = {"batch_size": 4, "max_source_length": 32} | options
    model = Transformer(Config(vocab_size=known.size))
    return Translator(model, None, dict.fromkeys(sides, known), manifest, **options)


@contextlib.contextmanager
def service(*translators: Translator, **options: Any) -> Iterator[Service]:
    """A service of translators; options are fields of Service, of Limits or of ServedModel."""
    names = ("calibration", "context_lines")
    facts = {name: options.pop(name) for name in names if name in options}
    fields = {field.name for field in dataclasses.fields(Service)}
    limits = Limits(**{name: options.pop(name) for name in {*options} - fields})
    scheduler = Scheduler(
        models.decode, lambda key: key.model.translator.batch_size,
        queue_tokens=limits.queue_tokens, queue_seconds=limits.queue_seconds,
        max_wait=limits.max_wait,
    )  # fmt: skip
    served = [ServedModel(f"model{i}", each, **facts) for i, each in enumerate(translators)]
    metrics = ServerMetrics(lambda: scheduler.queued_tokens)
    given = {"decoding": Decoding(), "limits": limits} | options
    with scheduler:
        yield Service(Models(served), scheduler, metrics, **given)


@contextlib.contextmanager
def listening(of: Service) -> Iterator[int]:
    """Serves on a port of this machine, in a thread."""
    bound = http_server.bind("127.0.0.1", 0)
    running = server.server(of)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield bound.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@dataclasses.dataclass
class Answer:
    """A response: status, headers, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return list(map(json.loads, self.body.splitlines()))


def request(
    port: int, method: str, path: str, body: Any = None, /, timeout: float = 60, **headers: str
) -> Answer:
    """Sends a request; a body that is not bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None and not isinstance(body, bytes):
        body, given = json.dumps(body).encode(), {"Content-Type": "application/json"} | given
    try:
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read())
    finally:
        connection.close()


def translate(port: int, q: Any, /, **parameters: Any) -> Answer:
    """Asks for a translation from German into English."""
    content = {"q": q, "source": "de", "target": "en"} | parameters
    return request(port, "POST", "/translate", content)


def form(**values: str) -> tuple[bytes, dict[str, str]]:
    """A form, and its header."""
    return urlencode(values).encode(), {"Content_Type": "application/x-www-form-urlencoded"}


def multipart(name: str, content: bytes, **values: str) -> tuple[bytes, dict[str, str]]:
    """A form with a file, and its header."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in values.items()
    ]
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join(parts) + head.encode() + content + b"\r\n--x--\r\n"
    return body, {"Content_Type": "multipart/form-data; boundary=x"}


def raw(port: int, content: bytes, timeout: float = 10) -> bytes:
    """Sends bytes, ends the sending side, and returns all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(content)
            while chunk := connection.recv(65536):
                received += chunk
        return received


def together(count: int, call: Callable[[int], Any]) -> list[Any]:
    """The results of `call(0)`, `call(1)`, ..., called at the same time."""
    results: list[Any] = [None] * count

    def one(i: int) -> None:
        results[i] = call(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
