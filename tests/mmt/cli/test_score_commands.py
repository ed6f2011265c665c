"""`mmt score` gives translations the scores of `mmt translate`, and names bad lines."""

import io
import json
import sys
import types
from pathlib import Path

import pytest

from mmt.cli.main import main

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


def typed(command, flags, stdin, monkeypatch, capsys):
    """The status, stdout and stderr of a command."""
    stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    status = main([command, "--model", str(OLD / "toy"), *flags.split()])
    return status, *capsys.readouterr()


def test_scores_are_those_of_translate(monkeypatch, capsys):
    lines, pairs, expected = ["eins zwei", "drei vier null"], [], []
    flags = "--beam 3 --nbest 3 --weights float32 --from de"
    _, printed, _ = typed("translate", flags, "\n".join(lines), monkeypatch, capsys)
    for row in printed.splitlines():
        line, text, score = row.split(" ||| ")
        pairs.append(f"{lines[int(line)]}\t{text}\n")
        expected.append(float(score))
    status, out, _ = typed("score", "--from de", "".join(pairs), monkeypatch, capsys)
    close = [a == pytest.approx(float(b), abs=2e-4)
             for a, b in zip(expected, out.split(), strict=True)]  # fmt: skip
    assert status == 0 and sum(close) >= len(close) - 1  # one may encode otherwise

    flags = "--from de --alpha 0 --format jsonl --alignment"
    both = f"{pairs[0]}{'eins ' * 500}\tone\n"
    status, out, err = typed("score", flags, both, monkeypatch, capsys)
    first, too_long = map(json.loads, out.splitlines())
    assert first["score"] == pytest.approx(sum(first["token_scores"]), abs=1e-4)
    assert first["source"] == "eins zwei" and first["text"] == pairs[0].split("\t")[1].strip()
    assert [target for _, target in first["alignment"]] == list(range(len(first["text"].split())))
    assert too_long["score"] is None and "1 of 2 pairs are too long" in err and "line 2" in err

    status, out, err = typed("score", "--alignment", "eins\tone\neins one\n", monkeypatch, capsys)
    assert status == 1 and "line 2: 1 columns; expected 2, source<TAB>translation" in err
    status, _, err = typed("score", "--from auto", "eins\tone\n", monkeypatch, capsys)
    assert status == 1 and "name it, or omit --from" in err
    status, _, err = typed("score", "--from dutsch", "eins\tone\n", monkeypatch, capsys)
    assert status == 1 and "dutsch" in err


def test_another_engine_is_refused(monkeypatch, capsys):
    flags = "--gin.Translator.load.engine=ctranslate2"
    status, out, err = typed("score", flags, "eins\tone\n", monkeypatch, capsys)
    assert (status, out) == (1, "") and "scores need the engine jax" in err
