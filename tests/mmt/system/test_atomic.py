"""Files are complete or absent: interrupted work is kept, old work is removed."""

import multiprocessing
import os
from pathlib import Path

import pytest

from mmt.system import atomic, text_lines


def test_interrupted_work_is_resumed_and_old_work_removed(tmp_path):
    out = tmp_path / "out[1]"
    with pytest.raises(KeyboardInterrupt), atomic.working(out, "a") as work:
        (work / "done").touch()
        raise KeyboardInterrupt
    with pytest.raises(OSError), atomic.working(out, "a") as work:
        assert (work / "done").exists()
        raise OSError("the disk is full")
    with pytest.raises(ValueError, match="a fault"), atomic.working(out, "b") as work:
        assert not (work / "done").exists()
        raise ValueError("a fault")
    assert os.listdir(tmp_path) == []
    with atomic.working(out, "c") as work:
        work.joinpath("all").mkdir()
        work.joinpath("all").rename(out)
    assert os.listdir(tmp_path) == ["out[1]"]


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    for out in ("/proc/out", tmp_path / "file/out"):
        with pytest.raises(OSError, match=f"^cannot write {out}: [^.]*$"):
            with atomic.working(Path(out), "a"):
                raise AssertionError


def _refused(out, key, result):
    try:
        with atomic.working(out, key):
            result.put("had it")
    except ValueError as error:
        result.put(str(error))


@pytest.mark.parametrize("key", ["a", "b"])
def test_two_processes_do_not_make_the_same(tmp_path, key):
    context = multiprocessing.get_context("fork")
    result = context.Queue()
    with atomic.working(tmp_path / "out", "a") as work:
        other = context.Process(target=_refused, args=(tmp_path / "out", key, result))
        other.start()
        message = result.get(timeout=30)
        other.join()
        assert ("another process is making" in message) == (key == "a")
        assert work.exists()


def test_lines_and_json_are_read_as_written(tmp_path):
    text = ["eins", "", "\u2028 zwei"] * 1000 + ["drei"]
    with atomic.packed(tmp_path / "a/b.zst") as write:
        for line in text:
            write(line)
    assert list(text_lines.read(tmp_path / "a/b.zst")) == text
    atomic.write_json(tmp_path / "c/d.json", {"a": ["ü"]})
    assert atomic.read_json(tmp_path / "c/d.json") == {"a": ["ü"]}
    assert os.listdir(tmp_path / "c") == ["d.json"]


def test_writing_a_file_touches_no_other(tmp_path):
    (tmp_path / "a.half").write_text("of somebody else")
    unwritable = tmp_path / "a.json"
    unwritable.mkdir()
    atomic.write_bytes(tmp_path / "a.html", b"page")
    with pytest.raises(OSError, match="a.json"):
        atomic.write_bytes(unwritable, b"{}")
    with pytest.raises(OSError, match=r"cannot write \.: "):
        atomic.write_bytes(Path(), b"{}")
    with pytest.raises(OSError, match="cannot write .*a.html/b: .*a.html is no folder"):
        atomic.write_bytes(tmp_path / "a.html/b", b"{}")
    assert sorted(os.listdir(tmp_path)) == ["a.half", "a.html", "a.json"]
    assert (tmp_path / "a.half").read_text() == "of somebody else"
