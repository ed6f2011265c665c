"""Digests: every byte counts, and what is wrong has a name."""

import os

import pytest

from mmt.checkpoint import digests


@pytest.fixture
def noted(tmp_path):
    """A directory like a checkpoint's, with its note."""
    directory = tmp_path / "6"
    (directory / "params/d").mkdir(parents=True)
    (directory / "data").mkdir()
    (directory / "params/d/a").write_bytes(bytes(range(256)))
    (directory / "params/empty").write_bytes(b"")
    (directory / "data/metadata").write_bytes(b"{}")
    (directory / "beside").write_bytes(b"not a matter of the note")
    digests.write(directory)
    return directory


def test_intact_files_and_files_without_digest_are_not_damaged(noted, tmp_path):
    assert digests.has_digests(noted) and digests.verify(noted) == ""
    (noted / "beside").write_bytes(b"")
    assert digests.verify(noted) == ""
    assert not digests.has_digests(tmp_path) and digests.verify(tmp_path) == ""


def test_every_bit_counts(noted):
    for name in ("params/d/a", "data/metadata"):
        before = (noted / name).read_bytes()
        for place in range(0, len(before), 17):
            for bit in (0, 3, 7):
                changed = bytearray(before)
                changed[place] ^= 1 << bit
                (noted / name).write_bytes(changed)
                assert digests.verify(noted) == f"{name} has other bytes than were written"
        (noted / name).write_bytes(before)
    assert digests.verify(noted) == ""


def test_cut_and_missing_are_named_where_they_matter(noted):
    os.truncate(noted / "params/d/a", 100)
    assert digests.verify(noted) == "params/d/a has 100 bytes of 256"
    assert digests.verify(noted, "data/*") == ""
    (noted / "params/d/a").unlink()
    assert digests.verify(noted, "params/*") == "params/d/a is missing"
    shares = [digests.verify(noted, part=(i, 2)) for i in range(2)]
    assert sorted(shares) == ["", "params/d/a is missing"]


@pytest.mark.parametrize("text", ["", "[]", '{"files": [1]}', '{"files": {"a": 1}}', "\x00"])
def test_a_broken_digests_file_is_damage(noted, text):
    (noted / digests.FILE).write_text(text)
    assert digests.verify(noted) == "digests.json cannot be read"


def test_a_damaged_checkpoint_set_aside_overwrites_no_other(noted):
    assert digests.set_aside(noted).name == "6.damaged"
    noted.mkdir()
    assert digests.set_aside(noted).name == "6.damaged1"
    assert digests.verify(noted.with_name("6.damaged")) == ""
