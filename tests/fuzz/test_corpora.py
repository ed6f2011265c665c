"""Broken corpora: whatever lies in a folder, `load(...).validate()` ends, and what it raises names
the file.

The short profile runs with all tests and always the same; `make fuzz` runs the long one, which is
new every time.
"""

import bz2
import functools
import gzip
import io
import json
import lzma
import tempfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from babel.messages import catalog, mofile, pofile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmt.data import corpora

pyarrow = pytest.importorskip("pyarrow", reason="Parquet and data sets need the extra [formats]")

SENTENCES = [(f"Satz {n} äß\u2028 <b>&amp;</b>", f"sentence {n} \U0001f600") for n in range(30)]


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _tmx() -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{_xml(one)}<ph>x</ph></seg></tuv>'
        f'<tuv xml:lang="en"><seg>{_xml(other)}</seg></tuv></tu>\n'
        for one, other in SENTENCES
    )
    return f'<!DOCTYPE tmx SYSTEM "t.dtd">\n<tmx><body>{units}</body></tmx>'.encode()


def _xliff() -> bytes:
    units = "".join(
        f"<trans-unit><source>{_xml(one)}</source><target>{_xml(other)}</target></trans-unit>\n"
        for one, other in SENTENCES
    )
    return f'<xliff><file source-language="de"><body>{units}</body></file></xliff>'.encode()


def _gettext(write) -> bytes:
    made, file = catalog.Catalog("de"), io.BytesIO()
    for one, other in SENTENCES:
        made.add(other, one)
    made.add(("day", "days"), ("Tag", "Tage"))
    write(file, made)
    return file.getvalue()


def _table():
    import pyarrow as pa

    return pa.table({"source": [one for one, _ in SENTENCES], "target": [b for _, b in SENTENCES]})


def _parquet() -> bytes:
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(_table(), file, row_group_size=7)
    return file.getvalue()


def _arrow() -> bytes:
    file = io.BytesIO()
    with pyarrow.ipc.new_stream(file, _table().schema) as stream:
        stream.write_table(_table(), max_chunksize=7)
    return file.getvalue()


def _lines(line) -> bytes:
    return "".join(line(one, other) + "\n" for one, other in SENTENCES).encode()


def _zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.tsv", content)
    return file.getvalue()


CONTENT = {
    "a.tsv": _lines(lambda one, other: f"{one}\t{other}"),
    "a.en": _lines(lambda one, other: other),
    "a.jsonl": _lines(lambda one, other: json.dumps({"source": one, "target": other})),
    "b.jsonl": _lines(lambda one, other: json.dumps({"translation": {"de": one, "en": other}})),
    "a.tmx": _tmx(),
    "a.xlf": _xliff(),
    "a.po": _gettext(pofile.write_po),
    "a.mo": _gettext(mofile.write_mo),
    "a.parquet": _parquet(),
    "set/data.arrow": _arrow(),
    "set/state.json": b'{"_data_files": [{"filename": "data.arrow"}]}',
}
PACK = {
    "": bytes, ".gz": functools.partial(gzip.compress, mtime=0), ".bz2": bz2.compress,
    ".xz": lzma.compress, ".zst": zstandard.compress, ".zip": _zip,
}  # fmt: skip
TOML = b"""name = "broken"
target = "eng"
[train]
deu = [%s]
[test]
deu = { source = "a.tsv", target = "a.en", name = "t", sample = 3 }
"""
ENTRIES = [
    '"%s"', '{ pairs = "%s", name = "x" }', '{ pairs = "%s", columns = ["target", "source"] }',
    '{ pairs = "%s", sample = 7 }', '{ source = "%s", target = "a.en" }', '{ mtdata = "%s" }',
    '{ source = "%s", target = "a.tsv", join = "id" }', '{ pairs = "%s", columns = [2, 1] }',
]  # fmt: skip
NASTY = [
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n\n", b"\t\t\t", b"<", b"]]>", b"&#0;", b"{[",
    b'"', b"\\ud800", b"&x;", b"\x1f\x8b", b"PK\x05\x06", b"PAR1", b"<tu>", b"</tuv>",
    b"\xef\xbb\xbf", b"msgstr[9] ", b"*", b"../", b"9" * 5000, b"a" * 70_000, b"[" * 5000,
    b"\xff\xff\xff\x7f", b"\x00" * 64, b'<!DOCTYPE x [<!ENTITY x "x">]>',
]  # fmt: skip


@st.composite
def damage(draw, content: bytes) -> bytes:
    """Bytes with up to three faults: cut off, flipped, put in, taken out, doubled."""
    for _ in range(draw(st.integers(0, 3))):
        i = draw(st.integers(0, len(content)))
        size = draw(st.sampled_from([1, 2, 8, 100]))
        before, after = content[:i], content[i:]
        new = draw(st.one_of(st.sampled_from(NASTY), st.binary(max_size=9)))
        flipped = bytes(byte ^ 0x15 for byte in after[:1]) + after[1:]
        content = draw(st.sampled_from([
            before, after, before + new + after, before + new + after[size:], before + flipped,
            before + after[size:], before + before[-size:] + after,
        ]))  # fmt: skip
    return content


@st.composite
def broken(draw) -> dict[str, bytes]:
    """What is damaged in a corpus folder, name -> bytes; it is packed before or after that."""
    files = {}
    chosen = draw(st.sampled_from(sorted(CONTENT)))
    inside, suffix = draw(st.booleans()), draw(st.sampled_from(sorted(PACK)))
    if chosen.startswith("set"):
        suffix = ""
    content = draw(damage(CONTENT[chosen])) if inside or not suffix else CONTENT[chosen]
    content = PACK[suffix](content)
    files[chosen + suffix] = content if inside else draw(damage(content))
    name = "set" if chosen.startswith("set") else draw(
        st.sampled_from([chosen + suffix, chosen + suffix, chosen + suffix, "*", "a.*", ".", "set*",
                         f"{chosen}{suffix}/a.tsv"])
    )  # fmt: skip
    entry = draw(st.sampled_from(ENTRIES[:1] * 4 + ENTRIES)) % name
    files["corpus.toml"] = TOML % entry.encode()
    if draw(st.integers(0, 3)) == 0:
        files["corpus.toml"] = draw(damage(files["corpus.toml"]))
    return files


def check(files: dict[str, bytes]) -> None:
    """Only errors that name the file come; and where all is well, count agrees with pairs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "set").mkdir()
        for name, content in {**CONTENT, **files}.items():
            (root / name).write_bytes(content)
        try:
            corpus = corpora.load(root)
            corpus.validate()
            for split, by_language in corpus.files.items():
                for code in by_language:
                    found = list(corpus.pairs(code, split))
                    assert corpus.count(code, split) == len(found)
                    assert {pair.corpus for pair in found} <= {*corpus.entries(code, split)}
                    for pair in found:
                        for side in (pair.source, pair.target):
                            assert side.strip() and side.encode() and "\n" not in side
            corpus.hash()
        except ValueError as error:
            assert folder in str(error) or "mtdata" in str(error), error
        except OSError as error:
            assert error.filename, error


# An example that takes longer hangs, on any machine.
PROFILE = settings(deadline=30_000, suppress_health_check=list(HealthCheck), database=None)


@settings(PROFILE, max_examples=100, derandomize=True)
@given(broken())
def test_broken_corpora(files):
    check(files)


@pytest.mark.slow
@settings(PROFILE, max_examples=10_000)
@given(broken())
def test_many_broken_corpora(files):
    check(files)
