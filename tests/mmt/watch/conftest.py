"""A made-up run that all tests of this folder share; nobody changes it. And a server of runs."""

import contextlib
import threading
import time

import pytest

from benchmarks.watch.made_up_run import MadeUpRun
from mmt.watch import open_runs

SIZE = MadeUpRun(
    languages=12, steps=4000, period=40, languages_period=40, validation_period=200, experts=4
)


@pytest.fixture(scope="session")
def made_up(tmp_path_factory):
    """The directory of a finished run of 12 languages and 4,000 steps."""
    directory = tmp_path_factory.mktemp("watch") / "made_up"
    SIZE.write(directory)
    return directory


@pytest.fixture(scope="session")
def watched():
    """A function that serves directories in a thread: `with watched(directory) as port`."""
    from mmt.system import http_server
    from mmt.watch import server

    @contextlib.contextmanager
    def watched(*directories):
        bound = http_server.bind("127.0.0.1", 0)
        running = server.server(open_runs(directories), poll=0.05)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
        thread.start()
        while not running.started:
            time.sleep(0.01)
        try:
            yield bound.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join(20)
            bound.close()
            assert not thread.is_alive()

    return watched
