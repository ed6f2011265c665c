"""What progress bars show, on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from mmt.system import progress


def screen(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def run(console: Console, *parts: str, **options) -> str:
    with progress.progress_bar(*parts, console=console, **options) as bar:
        task = bar.add_task("translating deu", total=12, text="loss 1.5")
        bar.update(task, completed=3)
    return shown(console)


def test_parts_come_in_their_order_after_the_description():
    parts = (progress.COUNT, progress.PERCENT, progress.ELAPSED, "left", progress.REMAINING)
    words = run(screen(terminal=False), *parts, "{task.fields[text]}").split()
    assert words[:2] == ["translating", "deu"]
    assert words[3:] == ["3/12", "25%", "0:00:00", "left", "-:--:--", "loss", "1.5"]


def test_both_times_have_their_word():
    words = run(screen(terminal=False), *progress.SENTENCES).split()
    assert words[3:] == ["3/12", "sentences", "0:00:00", "elapsed,", "-:--:--", "left"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_hidden_where_it_is_disabled(terminal):
    assert run(screen(terminal=terminal), progress.COUNT, disable=True) == ""
    assert "3/12" in run(screen(terminal=terminal), progress.COUNT)


def test_disable_none_hides_a_bar_where_there_is_no_terminal():
    assert run(screen(terminal=False), progress.COUNT, disable=None) == ""
    assert "3/12" in run(screen(terminal=True), progress.COUNT, disable=None)


def test_a_bar_goes_to_stderr(capsys):
    with progress.progress_bar(progress.COUNT) as bar:
        bar.add_task("reading", total=2)
    out, err = capsys.readouterr()
    assert not out and "reading" in err and "0/2" in err


@pytest.mark.parametrize("disable", [True, False])
def test_tracked_items_come_whatever_is_shown(disable):
    console = screen(terminal=False)
    items = list(progress.track([1, 2, 3], "compiling", console=console, disable=disable))
    assert items == [1, 2, 3]
    assert ("compiling" in shown(console) and "100%" in shown(console)) == (not disable)
