"""Commands as typed: flags that do not belong together, and what a run gets after training."""

import functools
import io
import json
import re
import shutil
import sys
import types
from pathlib import Path

import pytest

from mmt.cli import translate_commands
from mmt.cli.main import main
from mmt.run import Run
from tests.helpers.tiny_translator import RandomTranslator

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report", "expected RESULTS.jsonl … or --train FILE"),
        ("report --train study.gin --out x", "the study names all files"),
        ("data prepare", "expected CORPUS and --out DIR, or --gin_file FILE"),
        ("data prepare cldr", "expected --out DIR, or --explain"),
    ],
)
def test_flags_that_do_not_belong_together_are_refused(line, message, capsys):
    assert main(line.split()) == 1
    assert message in capsys.readouterr().err


def test_a_server_takes_no_lines_as_a_whole(monkeypatch, capsys):
    serve, served = pytest.importorskip("mmt.serve", reason="needs the extra [serve]"), []
    monkeypatch.setattr(serve, "serve", lambda *_, decoding, **__: served.append(decoding))
    line = ["serve", "--model", str(OLD / "toy"), "--beam", "1"]
    assert main([*line, "--gin.Decoding.split=long"]) == 1
    assert "a server translates each sentence by itself" in capsys.readouterr().err
    assert main([*line, "--gin.Decoding.split=sentences"]) == 0 and len(served) == 1


def typed(line, stdin, monkeypatch, capsys):
    """The status, stdout and stderr of a command."""
    stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    status = main(line.split())
    return status, *capsys.readouterr()


def test_a_run_gets_an_identifier_and_a_calibration(tmp_path, monkeypatch, capsys):
    run = shutil.copytree(OLD / "toy", tmp_path / "toy")
    auto = f"translate --model {run} --from auto --risk --retry --beam 1"
    status, _, err = typed(f"translate --model {run} --from auto", "eins", monkeypatch, capsys)
    assert status == 1 and "no language identifier" in err
    small = "--gin.IdentifierConfig.buckets=4096 --gin.IdentifierConfig.epochs=8"
    identify = f"data identify --model {run} --corpus {OLD / 'numbers'} {small}"
    status, out, _ = typed(identify, "", monkeypatch, capsys)
    assert status == 0 and out.strip() == str(Run(run).identifier)
    status, _, err = typed(auto, "eins", monkeypatch, capsys)
    assert status == 1 and "mmt calibrate" in err
    calibrate = f"calibrate --model {run} --corpus {OLD / 'numbers'} --beam 1"
    status, out, _ = typed(calibrate, "", monkeypatch, capsys)
    assert status == 0 and out.startswith("confidence\tchrF\tlines\n")
    text = "drei zwei eins vier\n\nmoja mbili tatu nne\n"
    status, out, _ = typed(f"{auto} --format jsonl", text, monkeypatch, capsys)
    rows = list(map(json.loads, out.splitlines()))
    assert status == 0 and [row["source"] for row in rows] == text.split("\n")[:3]
    detected = [row["detected"]["language"] for row in rows]
    assert detected == ["deu_Latn", "und", "swh_Latn"]
    assert all(0 <= row["risk"]["confidence"] <= 1 for row in rows)
    status, out, _ = typed(auto, text, monkeypatch, capsys)
    assert [line.count("\t") for line in out.splitlines()] == [2, 2, 2]
    status, out, _ = typed(auto.replace("--risk", ""), text, monkeypatch, capsys)
    assert len(out.splitlines()) == 3 and "\t" not in out
    status, _, err = typed(f"{auto} --nbest 1 --beam 4", text, monkeypatch, capsys)
    assert status == 0
    status, _, err = typed(f"{auto} --nbest 2 --beam 4", text, monkeypatch, capsys)
    assert status == 1 and "omit --nbest" in err
    page, out = tmp_path / "de.yml", tmp_path / "en.yml"
    page.write_text(f"de:\n  a: {text.splitlines()[0]}\n")
    files = f"translate --model {run} --from auto --beam 1 --file {page} --out {out}"
    assert typed(files, "", monkeypatch, capsys)[0] == 0
    assert out.read_text().startswith("en:\n  a: ")


def test_a_file_is_translated_by_the_command(toy_run, tmp_path, mmt_command):
    page, out = tmp_path / "a.html", tmp_path / "out/b.html"
    page.write_text("<p>eins <b>zwei</b></p><p>12</p>")
    done = mmt_command(
        "translate", "--model", toy_run, "--from", "de", "--file", page, "--out", out, "--beam", "1"
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == f"{out}\n"
    assert out.read_text().startswith("<p>") and out.read_text().endswith("</p><p>12</p>")
    assert page.read_text() == "<p>eins <b>zwei</b></p><p>12</p>"


def test_a_missing_file_and_a_folder_as_output_are_refused_before_the_model_is_loaded(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(translate_commands, "_load_translator", lambda args: pytest.fail("loaded"))
    page = tmp_path / "page.html"
    page.write_text("<p>eins")
    command = ["translate", "--model", f"{OLD}/toy", "--file"]
    assert main([*command, f"{tmp_path}/pagee.html", "--out", f"{tmp_path}/b.html"]) == 1
    assert "pagee.html: no such file; nearest: page.html" in capsys.readouterr().err
    assert main([*command, f"{page}", "--out", f"{tmp_path}"]) == 1
    assert f"--out {tmp_path} is a folder" in capsys.readouterr().err


def test_a_file_is_translated_sentence_by_sentence_by_the_rules_of_its_language(
    tmp_path, monkeypatch
):
    page, out = tmp_path / "a.html", tmp_path / "b.html"
    page.write_text("<p>Am <b>2. März</b> drei.\nVier eins!")
    for binding, expected in (
        ([], ["Am 2. März drei.", "Vier eins!"]),
        (["--gin.Decoding.split='long'"], ["Am 2. März drei. Vier eins!"]),
    ):
        translator = RandomTranslator(0)
        loaded = functools.partial(lambda args, translator: translator, translator=translator)
        monkeypatch.setattr(translate_commands, "_load_translator", loaded)
        flags = f"--model {OLD}/toy --from de --file {page} --out {out}".split()
        assert main(["translate", *flags, *binding]) == 0
        assert translator.seen == [expected]
        assert [source for source, _ in translator.aligned[0]] == expected[:1]
        assert re.findall("<.*?>", out.read_text()) == ["<p>", "<b>", "</b>"]


def test_a_file_names_the_languages_of_the_flags_or_the_model(tmp_path, monkeypatch, capsys):
    """The model of the old run translates into English only."""
    monkeypatch.setattr(translate_commands, "_load_translator", lambda args: RandomTranslator(0))
    page, out = tmp_path / "a.html", tmp_path / "b.html"
    page.write_text("<html lang=de-DE><p>Vier eins!")
    for flags, expected in (
        ("--from de", "en-US"), ("", "en-US"), ("--from fr", "de-DE"), ("--to en-GB", "en-GB"),
        ("--from de --to de", "de-DE"),
    ):  # fmt: skip
        command = f"translate --model {OLD}/toy {flags} --file {page} --out {out}"
        assert main(command.split()) == 0, capsys.readouterr().err
        assert out.read_text().startswith(f"<html lang={expected}><p>")


def test_a_file_gets_the_terms_of_a_glossary(toy_run, tmp_path, capsys):
    page, out, terms = (tmp_path / name for name in ("a.html", "b.html", "terms.tsv"))
    page.write_text("<p>eins <b>zwei</b>. Drei zwei! Eins.</p>")
    terms.write_text("zwei\tMaja\tde\n")
    flags = f"--model {toy_run} --from de --file {page} --glossary {terms} --beam 2".split()
    assert main(["translate", *flags, "--out", str(out)]) == 0, capsys.readouterr().err
    text = re.sub("<.*?>", "", out.read_text())
    assert len(re.findall(r"\bMaja\b", text)) == 2
    terms.write_text("zwei\n")
    assert main(["translate", *flags, "--out", str(out)]) == 1
    assert "terms.tsv, line 1: 'zwei'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--file a.html --out b --risk", "--risk, --retry and --rerank are for lines, not"),
        ("--file a.html", "--file FILE needs --out FILE"),
        ("--file a.html --out a.html", "--out is the file itself"),
        ("--file a.html --out b --nbest 2", "not --corpus, --nbest or --format"),
        ("--file a.pdf --out b", "a.pdf: .pdf files cannot be translated"),
        ("--file none.html --out b", "none.html"),
        ("--file a.html --out b --from xyzzy", "unknown language 'xyzzy'"),
        ("--overwrite", "--overwrite belongs to --file"),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(
    flags, message, toy_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.html").write_text("<p>eins")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    assert main(["translate", "--model", str(toy_run), *flags.split()]) == 1
    assert message in capsys.readouterr().err
    assert (tmp_path / "a.html").read_text() == "<p>eins" and not (tmp_path / "b").exists()
