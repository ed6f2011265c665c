"""A real server process, asked by the clients that people use."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from mmt.cli.main import main
from tests.helpers import terminal
from tests.helpers.serving import raw, request, translate
from tests.mmt.translate.test_risk import CALIBRATION

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "benchmarks/mix150/model"
LINE = "Jag behöver en ny bil."


@contextlib.contextmanager
def process(*flags, model=MODEL):
    """A server of a model, the published one by default; yields its port and the process."""
    command = [sys.executable, "-m", "mmt.cli", "serve", "--port", "0", "--model", str(model)]
    started = subprocess.Popen(
        [*command, *flags], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        said = ""
        for line in started.stderr:
            said += line
            if address := re.search(r"http://127\.0\.0\.1:(\d+) translates", line):
                break
        else:
            raise AssertionError(said)
        yield int(address[1]), started
    finally:
        started.kill()
        started.communicate()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    with process() as (port, _):
        yield f"http://127.0.0.1:{port}/", port


@pytest.fixture(scope="module")
def expected(server):
    """The translation of LINE."""
    translation = translate(server[1], LINE, source="sv").json["translatedText"]
    assert translation == "I need a new car."
    return translation


@pytest.mark.slow
def test_it_translates_as_the_command_line_does(server, expected, mmt_command):
    flags = "--from", "sv", "--risk", "--format", "jsonl"
    done = mmt_command("translate", "--model", MODEL, *flags, stdin=f"{LINE}\n".encode())
    line = json.loads(done.stdout)
    assert line["hypotheses"][0]["text"] == expected
    assert line["risk"]["signals"]["off_target"] > 0  # the identifier has its say
    (found,) = translate(server[1], LINE, source="sv", risk=True).json["risk"]
    assert found["flags"] == line["risk"]["flags"]
    assert found["confidence"] == pytest.approx(line["risk"]["confidence"], abs=2e-3)


def test_risk_is_that_of_the_command_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    run = shutil.copytree(ROOT / "tests/data/old_run/toy", tmp_path / "toy")
    CALIBRATION.save(run)
    lines = ["eins zwei drei", "moja 12 mbili", "ꔀꔁꔂ ꔃꔄ ꔅꔆꔇ", "un un un un un deux trois", "vier"]
    stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO("\n".join(lines).encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    flags = "--beam 1 --weights float32 --risk --format jsonl".split()
    assert main(["translate", "--model", str(run), *flags]) == 0
    expected = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert any(line["risk"]["flags"] for line in expected)
    with process("--beam", "1", "--gin.Translator.load.weights=float32", model=run) as (port, _):
        answer = translate(port, lines, risk=True).json
        assert request(port, "GET", "/languages").json[0]["risk"] == ["en"]
    assert answer["translatedText"] == [line["hypotheses"][0]["text"] for line in expected]
    for line, found, other in zip(lines, answer["risk"], expected, strict=True):
        assert found[0]["confidence"] == pytest.approx(other["risk"]["confidence"], abs=2e-4)
        assert found == [
            {"start": 0, "end": len(line), "confidence": found[0]["confidence"],
             "flags": other["risk"]["flags"]}
        ]  # fmt: skip


def test_tags_go_to_the_words_that_the_model_attends_to(server, expected):
    page = "<p>Jag <i>behöver</i> en ny <b>bil</b>.</p>"
    answer = translate(server[1], page, source="sv", format="html").json["translatedText"]
    assert answer == "<p>I <i>need</i> a new <b>car</b>.</p>"
    assert re.sub("<.*?>", "", answer) == expected


def test_libretranslatepy(server, expected):
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="extra [clients]")
    client = libretranslatepy.LibreTranslateAPI(server[0])
    assert client.translate(LINE, "sv", "en") == expected
    assert {"de", "sv", "zh"} <= {row["code"] for row in client.languages()}


def test_translate(server, expected):
    client = pytest.importorskip("translate", reason="extra [clients]")
    translator = client.Translator(
        provider="libre", from_lang="sv", to_lang="en", base_url=server[0], secret_access_key=None
    )
    assert translator.translate(LINE) == expected


def test_deep_translator(server):
    deep = pytest.importorskip("deep_translator", reason="extra [clients]")
    line = "Wir brauchen mehr Zeit."  # it knows few languages
    client = deep.LibreTranslator(source="de", target="en", api_key="none", custom_url=server[0])
    assert client.translate(line) == translate(server[1], line).json["translatedText"] != line
    assert len(client.translate_batch([line, "Danke"])) == 2
    client = deep.LibreTranslator(source="en", target="de", api_key="none", custom_url=server[0])
    with pytest.raises(deep.exceptions.ServerException):
        client.translate(LINE)


def test_weblate(server, expected):
    """Weblate asks for the languages, then for lists of texts with an empty key."""
    languages = request(server[1], "GET", "/languages").json
    assert ("sv", "en") in [(row["code"], target) for row in languages for target in row["targets"]]
    body = {"api_key": "", "q": [LINE, "Tack"], "source": "sv", "target": "en"}
    texts = request(server[1], "POST", "/translate", body).json["translatedText"]
    assert texts[0] == expected and len(texts) == 2


def test_a_broken_request_line_is_answered_and_harms_nobody(server, expected):
    assert raw(server[1], b"\x16\x03\x01\x00\xff nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert translate(server[1], LINE, source="sv").json["translatedText"] == expected


def test_sigterm_finishes_what_was_accepted():
    with process() as (port, started):
        texts, answers = [f"{LINE} {i}" for i in range(499)], []
        asking = threading.Thread(target=lambda: answers.append(translate(port, texts)))
        idle = socket.create_connection(("127.0.0.1", port))
        asking.start()
        time.sleep(0.5)
        assert asking.is_alive()
        started.send_signal(signal.SIGTERM)
        asking.join(60)
        assert answers[0].status == 200 and len(answers[0].json["translatedText"]) == 499
        assert started.wait(20) == 0
        idle.close()
        said = started.stderr.read()
        assert "Traceback" not in said and LINE not in said
    with pytest.raises(ConnectionRefusedError):
        request(port, "GET", "/health")


def test_it_names_its_phases_on_a_terminal_and_then_its_address():
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    model = str(ROOT / "tests/data/old_run/toy")
    command = [sys.executable, "-m", "mmt.cli", "serve", "--port", "0", "--model", model]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    screen = terminal.run(command, cwd=ROOT, environment=environment, until=" translates ")
    assert screen.status == 0, screen.text
    phases = ("starting", "loading libraries", "loading the model", "compiling")
    places = [screen.text.find(name) for name in (*phases, "mmt serve: http://127.0.0.1:")]
    assert -1 not in places and places == sorted(places), screen.text
    after = screen.text[places[-1] :]
    assert not any(name in after for name in phases)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "nowhere"], "nowhere is no model directory"),
        (["--model", "RUN", "--keys", "FILE"], "FILE has no key"),
        (["--model", "RUN", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1:5000"),
        (["--model", "RUN", "--gin.Limits.character=5"], "nearest: Limits.characters"),
    ],
)
def test_a_server_that_cannot_start_says_why(flags, words, tmp_path, mmt_command):
    (tmp_path / "keys").write_text("# none\n")
    names = {"RUN": str(MODEL), "FILE": str(tmp_path / "keys")}
    done = mmt_command("serve", *(names.get(flag, flag) for flag in flags))
    said = done.stderr.decode()
    assert done.returncode == 1 and "Traceback" not in said
    assert words.replace("FILE", names["FILE"]) in said
