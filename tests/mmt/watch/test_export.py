"""The exported file: complete, safe, without another host; none of a damaged run."""

import json
import os
import re
import shutil

from mmt.cli.main import main
from mmt.watch import export, open_runs
from tests.mmt.watch.conftest import SIZE

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def test_one_file_with_all_data(made_up, tmp_path, capsys):
    file = tmp_path / "watch.html"
    assert main(["watch", str(made_up), "--export", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert "connect-src 'none'" in text and "unsafe" not in text
    content = json.loads(DATA.search(text)[1])
    (run,) = content["runs"]
    assert set(run["series"]) == set(run["overview"]["metrics"]) and run["totals"]["loss"]
    assert run["series"]["bleu"]["languages"] == SIZE.codes and len(run["samples"]) == 20


def test_text_of_a_run_is_no_markup(tmp_path):
    directory = tmp_path / "run"
    directory.mkdir()
    evil = "</script><script>alert(1)</script><!--\u2028"
    row = {"step": 1, "loss": 2.0, "samples": {"deu_Latn": [[evil, evil, evil]]}, "stopped": evil}
    (directory / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    export(open_runs([directory]), tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("<script") == 2 and "\u2028" not in text
    content = json.loads(DATA.search(text)[1])
    assert content["runs"][0]["samples"][0]["samples"]["deu_Latn"] == [[evil, evil, evil]]


def test_a_damaged_run_writes_nothing(made_up, tmp_path, capsys):
    directory = shutil.copytree(made_up, tmp_path / "run")
    with (directory / "metrics.jsonl").open("a") as file:
        file.write("{broken\n")
    file = tmp_path / "watch.html"
    assert main(["watch", str(made_up), str(directory), "--export", str(file)]) == 1
    assert "metrics.jsonl:142: no JSON" in capsys.readouterr().err and not file.exists()


def test_a_name_that_is_no_text(tmp_path):
    """A directory's name may have any bytes."""
    directory = tmp_path / os.fsdecode(b"run\xff")
    directory.mkdir()
    (directory / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    export(open_runs([directory]), tmp_path / "x.html")
    content = json.loads(DATA.search((tmp_path / "x.html").read_text(encoding="utf-8"))[1])
    assert content["runs"][0]["overview"]["name"] == "run?"
