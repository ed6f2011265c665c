"""The passes: the number of processes changes nothing, and a killed run is resumed."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from mmt.data import corpora
from mmt.data.cleaning import passes, prepare, rulebook
from mmt.system import atomic
from tests.mmt.data.cleaning import files


def test_processes_change_nothing(few, tmp_path):
    for processes in (1, 2):
        prepare.prepare(few, tmp_path / str(processes), processes=processes)
    assert files(tmp_path / "1") == files(tmp_path / "2")


KILLED = """
import os, signal, sys
from pathlib import Path
from mmt.data import corpora
from mmt.data.cleaning import cleaned_folder, passes, prepare
where, name = sys.argv[3].split(".")
module = {"passes": passes, "cleaned_folder": cleaned_folder}[where]
real, calls = getattr(module, name), []
def dying(*given, **named):
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(given)
    return real(*given, **named)
setattr(module, name, dying)
prepare.prepare(corpora.load(sys.argv[1]), Path(sys.argv[2]), processes=1)
"""


@pytest.mark.parametrize(
    ("where", "times"),
    [
        ("cleaned_folder.write_entry", 7),
        pytest.param("passes.write_json", 16, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_is_resumed(few, tmp_path, where, times, monkeypatch):
    """SIGKILL while a file is written leaves no part of it; finished files are not cleaned again.
    """
    prepare.prepare(few, tmp_path / "whole", processes=1)
    arguments = [sys.executable, "-c", KILLED, str(few.root), str(tmp_path / "out"), where]
    done = subprocess.run([*arguments, str(times)], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    left = list(tmp_path.glob(".out.*.unfinished/part/*.json"))
    assert left
    work = []
    original = passes.Cleaner
    monkeypatch.setattr(passes, "Cleaner", lambda *given: work.append(given) or original(*given))
    prepare.prepare(few, tmp_path / "out", processes=1)
    assert len(work) < 6 + 6 + 2 * 6  # of train, of the others, of train once more
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not list(tmp_path.glob(".out.*"))


def test_rules_that_leave_nothing_are_an_error_and_write_nothing(few, tmp_path):
    book = rulebook.Rulebook({"": {"length": {"characters": (900, 901)}}}, {"": ""})
    with pytest.raises(ValueError, match=r"drop all pairs of the corpus dirty: length: short \d+"):
        prepare.prepare(few, tmp_path / "out", book=book, processes=1)
    assert os.listdir(tmp_path) == ["dirty"]


def test_a_language_without_remaining_pairs_is_left_out_and_named(few, tmp_path):
    levels = {"": {}, "language.deu_Latn": {"length": {"characters": (900, 901)}}}
    book = rulebook.Rulebook(levels, dict.fromkeys(levels, ""))
    with pytest.warns(UserWarning, match="drop all pairs of deu_Latn"):
        prepare.prepare(few, tmp_path / "out", book=book, processes=1)
    clean = corpora.load(tmp_path / "out")
    assert clean.languages == ("arb_Arab", "tha_Thai")


def test_a_full_disk_is_named_and_what_is_finished_is_kept(few, tmp_path, monkeypatch):
    original = atomic.zstandard.open

    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    def opened(path, mode):
        return Full() if "/train/tha" in str(path) else original(path, mode)

    monkeypatch.setattr(atomic.zstandard, "open", opened)
    with pytest.raises(OSError, match=r"cannot write .*tha_Thai.*: No space left"):
        prepare.prepare(few, tmp_path / "out", processes=1)
    assert not (tmp_path / "out").exists() and list(tmp_path.glob(".out.*/joined/*.json"))
    monkeypatch.undo()
    assert prepare.prepare(few, tmp_path / "out", processes=1).kept


def test_a_fault_of_the_text_ends_the_work_and_leaves_nothing(few, tmp_path):
    path = next((few.root / "train").glob("deu*.tsv"))
    path.write_bytes(path.read_bytes() + b"\xff\t\n")
    with pytest.raises(ValueError, match=rf"{path.name}:\d+: not UTF-8"):
        prepare.prepare(few, tmp_path / "out", processes=1)
    assert os.listdir(tmp_path) == ["dirty"]
