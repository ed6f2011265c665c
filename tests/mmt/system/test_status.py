"""The status line: a phase on a terminal and elsewhere, and what hides it."""

import io
import time

import pytest
from rich.console import Console

from mmt.system import phases, progress, status


def screen(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)


def text(console: Console) -> str:
    return console.file.getvalue()


def test_a_terminal_shows_every_phase_however_short():
    console = screen(terminal=True)
    with status.shown("starting", console):
        status.begin("reading the corpus")
        with status.phase("training a vocabulary"):
            pass
        status.begin("compiling")
        status.end()
        before = text(console)
        status.begin("saving [1]")
    names = ("starting", "reading the corpus", "training a vocabulary", "compiling", "saving [1]")
    places = [text(console).find(name) for name in names]
    assert -1 not in places and places == sorted(places)
    assert before.rfind("reading the corpus") > before.find("training a vocabulary")  # it goes on


def test_elsewhere_only_a_phase_that_lasts_is_named(monkeypatch):
    monkeypatch.setattr(phases, "QUIET", 0.5)
    console = screen(terminal=False)
    with status.shown("starting", console):
        status.begin("loading libraries")
        time.sleep(1.0)
        status.begin("reading the corpus")
    assert text(console).splitlines() == ["loading libraries (1 s in this phase)"]


def test_a_long_phase_is_one_line_of_a_log(monkeypatch):
    monkeypatch.setattr(phases, "QUIET", 0.1)
    console = screen(terminal=False)
    name = "reading " + "a/long/folder " * 10
    with status.shown(name, console):
        time.sleep(0.6)
    (line,) = text(console).splitlines()
    assert line.startswith(name)


@pytest.mark.parametrize("disable", [True, False])
def test_a_progress_bar_hides_the_line(disable):
    console, other = screen(terminal=True), screen(terminal=True)
    with status.shown("building the cache", console):
        with progress.progress_bar(progress.COUNT, console=other, disable=disable):
            before = text(console)
            status.begin("training")
            assert (text(console) == before) == (not disable)
        assert "training" in text(console)


def test_nothing_is_shown_outside_and_after_off():
    status.begin("training")
    with status.phase("saving"):
        status.end()
    console = screen(terminal=True)
    with status.shown("starting", console):
        status.off()
        before = text(console)
        status.begin("training")
    assert text(console) == before and "training" not in before


def test_the_line_ends_with_an_error():
    console = screen(terminal=True)
    with pytest.raises(ValueError, match="no corpus"), status.shown("starting", console):
        raise ValueError("no corpus")
    before = text(console)
    status.begin("training")
    assert text(console) == before and before.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")
