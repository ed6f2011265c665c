"""The text: plain in a pipe, and as wide as its tables."""

import io

from eval import compare
from eval.compare import text


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_pipe_gets_plain_lines(made_run):
    run = made_run("b", scores={"deu_Latn": 0.1})
    config = run / "config.gin"
    config.write_text(config.read_text() + f"LONG = '{'x' * 300}'\n")
    comparison = compare.compare([made_run("a", scores={"deu_Latn": 0.4}), run])
    piped = io.StringIO()
    text.write(comparison, piped)
    lines = piped.getvalue().splitlines()
    assert "\x1b" not in piped.getvalue() and not any(line.endswith(" ") for line in lines)
    assert f"LONG      –   '{'x' * 300}'" in lines  # one line, whole
    (row,) = [line.split() for line in lines if line.startswith("deu_Latn") and "▲" in line]
    assert row[1] == "60"


def test_a_terminal_gets_its_width(made_run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("TERM", "xterm")
    run = made_run("b")
    config = run / "config.gin"
    config.write_text(config.read_text() + f"LONG = '{'x' * 300}'\n")
    shown = Terminal()
    text.write(compare.compare([made_run("a"), run]), shown)
    lines = [line for line in shown.getvalue().splitlines() if "xxx" in line]
    assert sum(line.count("x") for line in lines) == 300 and max(map(len, lines)) <= 70
