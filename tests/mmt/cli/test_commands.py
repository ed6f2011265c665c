"""Commands refuse flags that do not belong together, before they read anything."""

import pytest

from mmt.cli.main import main


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report", "expected RESULTS.jsonl … or --train FILE"),
        ("report --train study.gin --out x", "the study names all files"),
        ("data prepare", "expected CORPUS and --out DIR, or --gin_file FILE"),
        ("data prepare cldr", "expected --out DIR, or --explain"),
        ("import hf folder --out x --vocabulary v.model", "contains its vocabulary"),
    ],
)
def test_flags_that_do_not_belong_together_are_refused(line, message, capsys):
    assert main(line.split()) == 1
    assert message in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
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
