"""Packed files: what is read from them, and the tricks and bombs that are refused."""

import bz2
import gzip
import lzma
import stat
import zipfile

import pytest
import zstandard

from mmt.data import corpora
from mmt.system import compression

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def zipped(path, members, **attributes):
    """A zip of members {name: bytes}."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, content)
    return path


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_text_is_read_also_within_a_zip(tmp_path, suffix):
    text = "".join(f"Zeile {number}\n" for number in range(40_000)).encode()
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(PACK[suffix](text))
    zipped(tmp_path / "b.zip", {path.name: path.read_bytes()})
    for here in (path, tmp_path / "b.zip", tmp_path / "b.zip" / path.name):
        assert b"".join(compression.chunks(here)) == compression.whole(here) == text
        assert compression.name(here) == "a.tsv" and compression.exists(here)
    assert compression.file(tmp_path / "b.zip" / path.name) == tmp_path / "b.zip"


def test_members_of_a_zip_are_files_of_a_corpus(tmp_path):
    zipped(tmp_path / "moses.zip", {
        "README": b"no", "sub/": b"", "sub/x.de": b"eins\nzwei\n", "sub/x.en": b"one\ntwo\n",
    })  # fmt: skip
    text = '[train]\nde = { source = "moses.zip/sub/x.de", target = "moses.zip/sub/x.en" }'
    (tmp_path / "corpus.toml").write_text(text)
    corpus = corpora.load(tmp_path)
    assert [pair.target for pair in corpus.pairs("de", "train")] == ["one", "two"]
    assert corpus.entries("de", "train") == ("moses.zip/sub/x.de",)
    before = corpus.hash()
    (tmp_path / "corpus.toml").write_text(text.replace("sub/x.de", "README", 1))
    assert corpora.load(tmp_path).hash() != before
    (tmp_path / "corpus.toml").write_text(text.replace("x.de", "x.du", 1))
    with pytest.raises(ValueError, match=r"toml:2: no file .*moses\.zip/sub/x\.du; nearest: x\.de"):
        corpora.load(tmp_path)
    (tmp_path / "corpus.toml").write_text('[train]\nde = "moses.zip"')
    with pytest.raises(ValueError, match=r"3 members; name one, as moses\.zip/README; it has: .*x"):
        corpora.load(tmp_path).validate()


@pytest.mark.parametrize("name", ["../out.tsv", "/etc/out.tsv", "a/../../b.tsv", "C:\\x", "..\\x"])
def test_members_outside_of_a_zip_are_refused(tmp_path, name):
    path = zipped(tmp_path / "bad.zip", {"a.tsv": b"a\tb\n", name: b"a\tb\n"})
    for here in (path, path / "a.tsv"):
        with pytest.raises(ValueError, match=r"bad\.zip: refused: its member .* lies outside"):
            list(compression.chunks(here))


def test_a_zip_in_a_zip_is_refused(tmp_path):
    inner = zipped(tmp_path / "in.zip", {"a.tsv": b"a\tb\n"})
    path = zipped(tmp_path / "out.zip", {"in.zip": inner.read_bytes()})
    for here in (path, path / "in.zip"):
        with pytest.raises(ValueError, match=r"out\.zip: its member 'in\.zip' is a zip; unpack"):
            compression.name(here)


def test_links_and_secrets_in_a_zip_are_refused(tmp_path):
    path = zipped(tmp_path / "l.zip", {"a": b"/etc/passwd"}, external_attr=stat.S_IFLNK << 16)
    with pytest.raises(ValueError, match=r"l\.zip: refused: its member 'a' is a symbolic link"):
        list(compression.chunks(path))
    content = bytearray(zipped(tmp_path / "s.zip", {"a": b"text"}).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    (tmp_path / "s.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"s\.zip: its member 'a' is encrypted"):
        list(compression.chunks(tmp_path / "s.zip"))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst", ".zip"])
def test_bombs_are_refused(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(compression, "FREE", 1 << 20)
    zeros = bytes(5 << 20)
    path = tmp_path / f"bomb.tsv{suffix}"
    if suffix == ".zip":
        zipped(path, {"a.tsv": zeros})
    else:
        path.write_bytes(PACK[suffix](zeros))
    with pytest.raises(ValueError, match=r"expands to more than 200 times its \d+ bytes"):
        for _ in compression.chunks(path):
            pass
    harmless = tmp_path / f"text{suffix or '.tsv'}"
    harmless.write_bytes(path.read_bytes() if suffix == ".zip" else PACK[suffix](zeros[: 1 << 20]))
    monkeypatch.setattr(compression, "FREE", 5 << 20)
    assert sum(map(len, compression.chunks(harmless))) in (1 << 20, 5 << 20)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst", ".zip"])
def test_damaged_archives_are_named(tmp_path, suffix):
    text = "".join(f"Zeile {number}\n" for number in range(9000)).encode()
    path = tmp_path / f"a.tsv{suffix}"
    if suffix == ".zip":
        zipped(path, {"a.tsv": text})
    else:
        path.write_bytes(PACK[suffix](text))
    whole = path.read_bytes()
    junk = () if suffix == ".zip" else (whole + b"junk", bytes(64))
    for content in (whole[: len(whole) // 2], whole[:-1], b"no archive", *junk, b""):
        path.write_bytes(content)
        if content or suffix == ".zip":  # of the others nothing is an empty text
            with pytest.raises(ValueError, match=rf"a\.tsv{suffix}: damaged"):
                list(compression.chunks(path))
    if suffix != ".zip":
        path.write_bytes(whole + bytes(8) + whole)
        assert compression.whole(path) == text + text
    path.unlink()
    with pytest.raises(OSError, match=rf"a\.tsv{suffix}"):
        list(compression.chunks(path))


def test_a_file_read_into_memory_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "WHOLE", 1 << 20)
    (tmp_path / "a.po").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ValueError, match=r"a\.po: larger than 1 MiB"):
        compression.whole(tmp_path / "a.po")
