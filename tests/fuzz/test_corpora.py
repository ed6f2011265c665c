"""Broken corpora: `load(...).validate()` ends with any folder, and its errors name the file."""

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
from hypothesis import strategies as st

from mmt.data import corpora
from tests.fuzz.strategies import damage, fuzzed

pyarrow = pytest.importorskip("pyarrow", reason="Parquet and data sets need the extra [formats]")

SENTENCES = [(f"Satz {n} äß\u2028 <b>&amp;</b>", f"sentence {n} \U0001f600") for n in range(30)]


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _tmx() -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{_xml(source)}<ph>x</ph></seg></tuv>'
        f'<tuv xml:lang="en"><seg>{_xml(target)}</seg></tuv></tu>\n'
        for source, target in SENTENCES
    )
    return f'<!DOCTYPE tmx SYSTEM "t.dtd">\n<tmx><body>{units}</body></tmx>'.encode()


def _xliff() -> bytes:
    units = "".join(
        f"<trans-unit><source>{_xml(source)}</source><target>{_xml(target)}</target></trans-unit>\n"
        for source, target in SENTENCES
    )
    return f'<xliff><file source-language="de"><body>{units}</body></file></xliff>'.encode()


def _gettext(write) -> bytes:
    made, file = catalog.Catalog("de"), io.BytesIO()
    for source, target in SENTENCES:
        made.add(target, source)
    made.add(("day", "days"), ("Tag", "Tage"))
    write(file, made)
    return file.getvalue()


def _table():
    import pyarrow as pa

    sources, targets = zip(*SENTENCES, strict=True)
    return pa.table({"source": sources, "target": targets})


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
    return "".join(line(source, target) + "\n" for source, target in SENTENCES).encode()


def _zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.tsv", content)
    return file.getvalue()


CONTENT = {
    "a.tsv": _lines(lambda source, target: f"{source}\t{target}"),
    "a.en": _lines(lambda source, target: target),
    "a.jsonl": _lines(lambda source, target: json.dumps({"source": source, "target": target})),
    "b.jsonl": _lines(lambda de, en: json.dumps({"translation": {"de": de, "en": en}})),
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
@st.composite
def broken(draw) -> dict[str, bytes]:
    """The files of a corpus folder that are damaged, name -> bytes; compressed before or
    afterwards.
    """
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
                    pairs = list(corpus.pairs(code, split))
                    assert corpus.count(code, split) == len(pairs)
                    assert {pair.corpus for pair in pairs} <= {*corpus.entries(code, split)}
                    for pair in pairs:
                        for side in (pair.source, pair.target):
                            assert side.strip() and side.encode() and "\n" not in side
            corpus.hash()
        except ValueError as error:
            assert folder in str(error) or "mtdata" in str(error), error
        except OSError as error:
            assert error.filename, error


@fuzzed(broken(), short=100)
def test_a_broken_corpus_is_read_or_named(example):
    check(example)
