"""Files of the local disk: complete or absent, and faults name the file."""

import pytest

from mmt.translate.bulk import Storage


def test_a_file_is_complete_or_absent(tmp_path):
    path, temporary = str(tmp_path / "new/a"), str(tmp_path / "new/b/a.tmp")

    def broken():
        yield b"half "
        assert not Storage().exists(path)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        Storage().write(path, broken(), temporary=temporary)
    assert Storage().names(str(tmp_path / "new")) == ["b"] and not Storage().exists(path)
    assert Storage().names(str(tmp_path / "new/b")) == []
    Storage().write(path, [b"whole", b"ness"], temporary=temporary)
    assert b"".join(Storage().read(path)) == b"wholeness"


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    path = str(tmp_path / "file/a")
    with pytest.raises(OSError, match="cannot write .*file/a: .*file is no folder"):
        Storage().write(path, [b"a"], temporary=str(tmp_path / "a.tmp"))


def test_removing_is_for_what_exists(tmp_path):
    storage = Storage()
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/c").touch()
    storage.remove_empty(str(tmp_path / "a"))
    assert (tmp_path / "a/c").exists()
    for path in ("a/c", "a/c", "a"):
        storage.remove(str(tmp_path / path))
    assert not (tmp_path / "a").exists()
