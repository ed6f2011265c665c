"""Servers of a model that gives every sentence back."""

import contextlib

import pytest

from tests.helpers import serving


@pytest.fixture(scope="session")
def echo(tmp_path_factory):
    """A translator from German, Swahili and Chinese into English."""
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    return serving.echo_translator(tmp_path_factory.mktemp("echo") / "vocabulary.model")


@pytest.fixture(scope="module")
def strict_port(echo):
    """The port of a server with low limits, for requests that it refuses."""
    with pytest.MonkeyPatch.context() as patch:
        serving.replace_model(patch)
        with serving.service(echo, characters=400, texts=20) as service:
            with serving.listening(service) as port:
                yield port


@pytest.fixture
def serve_echo(echo, monkeypatch):
    """A function that serves the echo: `with serve_echo(characters=9) as (port, service)`."""
    serving.replace_model(monkeypatch)
    monkeypatch.setattr(serving.Echo, "seconds", 0.0)
    monkeypatch.setattr(serving.Echo, "batches", [])
    monkeypatch.setattr(serving.Echo, "aligned", [])

    @contextlib.contextmanager
    def serve(*translators, **options):
        with serving.service(*(translators or (echo,)), **options) as service:
            with serving.listening(service) as port:
                yield port, service

    return serve
