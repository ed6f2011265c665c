"""JSONL, Parquet and saved Hugging Face data sets: keys, languages, faults with line or row."""

import json

import pytest

from mmt.data import corpora, readers
from mmt.data.readers import records as readers_records
from mmt.data.readers.files import Files

LANGUAGES = ("deu_Latn", "eng_Latn")
SIDES = [("eins", "one"), ("zwei\u2028!", "two"), ("drei", "three")]
TRANSLATIONS = [{"id": n, "translation": {"en": b, "de": a}} for n, (a, b) in enumerate(SIDES)]


def pairs(path, languages=LANGUAGES, **options):
    files = Files(path, languages=languages, **options)
    read = [sides[:3] for sides in readers.read(files)]
    assert readers.count(files) == len(read)
    return read


def numbered(sides):
    return [(number, *both) for number, both in enumerate(sides, 1)]


def jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def parquet(path, records, **options):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra [formats]")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.Table.from_pylist(records), path, **options)
    return path


def saved(folder, records, files=1):
    """What `datasets.Dataset.save_to_disk` writes: Arrow streams and a state.json."""
    pa = pytest.importorskip("pyarrow", reason="data sets need the extra [formats]")
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-{files:05}.arrow" for n in range(files)]
    table = pa.Table.from_pylist(records)
    size = -(-len(records) // files)
    for number, name in enumerate(names):
        with pa.ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table.slice(number * size, size), max_chunksize=2)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


WRITE = {"a.jsonl": jsonl, "a.json": jsonl, "a.ndjson": jsonl, "a.parquet": parquet, "set": saved}


@pytest.mark.parametrize("name", WRITE)
def test_records_are_read_by_their_default_keys_or_named_ones(tmp_path, name):
    path = WRITE[name](tmp_path / name, TRANSLATIONS)
    assert pairs(path) == numbered(SIDES)
    assert pairs(path, LANGUAGES[::-1]) == numbered((b, a) for a, b in SIDES)
    odd = ("translation.en", "translation.de")
    assert pairs(path, ("x", "y"), columns=odd) == numbered((b, a) for a, b in SIDES)
    flat = [{"source": a, "target": b, "x.y": a + "\n\t?"} for a, b in SIDES]
    path = WRITE[name](tmp_path / "flat" / name if name == "set" else tmp_path / f"b{path.suffix}",
                       flat)  # fmt: skip
    assert pairs(path) == numbered(SIDES)
    assert pairs(path, columns=("target", "x.y")) == numbered((b, f"{a} ?") for a, b in SIDES)
    assert len(pairs(path, sample=2)) == 2
    assert set(pairs(path, sample=1)) < set(pairs(path, sample=2)) < set(numbered(SIDES))


def test_many_row_groups_and_files_are_one_stream(tmp_path):
    records = [{"source": f"s{n}", "target": f"t{n}"} for n in range(10_000)]
    expected = [(n + 1, f"s{n}", f"t{n}") for n in range(10_000)]
    assert pairs(parquet(tmp_path / "a.parquet", records, row_group_size=999)) == expected
    assert pairs(saved(tmp_path / "set", records[:99], files=7)) == expected[:99]


def test_a_dataset_dict_has_the_split_of_its_table(tmp_path):
    saved(tmp_path / "books" / "train", TRANSLATIONS)
    saved(tmp_path / "books" / "test", TRANSLATIONS[:1])
    (tmp_path / "books" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    toml = '[train]\nde = "books"\n[test]\nde = { pairs = "books", name = "b" }\n'
    (tmp_path / "corpus.toml").write_text(toml)
    corpus = corpora.load(tmp_path)
    assert [corpus.count("de", split) for split in ("train", "test")] == [3, 1]
    assert corpus.entries("de", "train") == ("books/train",)
    assert {pair.corpus for pair in corpus.pairs("de", "test")} == {"b"}
    before = corpus.hash()
    arrow = tmp_path / "books/test/data-00000-of-00001.arrow"
    arrow.write_bytes(arrow.read_bytes().replace(b"eins", b"Eins"))
    assert corpora.load(tmp_path).hash() != before
    (tmp_path / "corpus.toml").write_text(toml.replace("[test]", "[validation]"))
    with pytest.raises(ValueError, match=r"toml:4: .*books has no split validation; .*test, train"):
        corpora.load(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a"', r"a\.jsonl:2: no JSON: "),
        ("[", r"a\.jsonl:2: no JSON: .*; expected an object on each line"),
        ("[" * 100_000, r"a\.jsonl:2: no JSON: "),
        ("9" * 5000, r"a\.jsonl:2: no JSON: "),
        ('["a", "b"]', r"a\.jsonl:2: .* is no JSON object"),
        ('{"source": "a", "target": "b", "source": "c"}', r"a\.jsonl:2: .*'source' is repeated"),
        ('{"source": "a", "target": "b\\u0000"}', r"a\.jsonl:2: the target side has a NUL"),
        ("", r"a\.jsonl:2: no JSON"),
        ('{"source": "a", "targt": "b"}', r":2: no key 'target'; available: source, targt"),
        ('{"source": "a", "target": null}', r"a\.jsonl:2: the target is None, no text"),
        ('{"source": "a", "target": ["b"]}', r"a\.jsonl:2: the target is \['b'\], no text"),
        ('{"source": "a", "target": " "}', r"a\.jsonl:2: the target side is empty"),
        ('{"source": "a", "target": "\\ud800"}', r"a\.jsonl:2: the target has half of a surrog"),
        ('{"translation": {"de": "a", "fr": "b"}}', r":2: no eng_Latn; available: de \(deu_Latn"),
        ('{"translation": "a"}', r"a\.jsonl:2: translation is 'a'; texts by language"),
    ],
)
def test_faults_of_jsonl_are_named_with_file_and_line(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"source": "a", "target": "b"}}\n{line}\n')
    with pytest.raises(ValueError, match=message):
        pairs(path)


def test_faults_of_tables_are_named(tmp_path):
    path = parquet(tmp_path / "a.parquet", [{"source": "a", "target": None}])
    with pytest.raises(ValueError, match=r"a\.parquet: row 1: the target is None, no text"):
        pairs(path)
    with pytest.raises(ValueError, match=r"a\.parquet: no column 'tgt'; available: source, target"):
        pairs(path, columns=("source", "tgt"))
    content = path.read_bytes()
    for broken in (content[:40], content[40:], b"", b"PAR1" + bytes(100) + b"PAR1"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"a\.parquet: damaged: "):
            pairs(path)
    path.rename(tmp_path / "a.parquet.gz")
    with pytest.raises(ValueError, match="Parquet is compressed inside and read in place"):
        pairs(tmp_path / "a.parquet.gz")


def test_whole_rows_of_a_table(tmp_path):
    rows = [{"id": n, "text": f"zwei\u2028{n}", "more": [n]} for n in range(5)]
    path = parquet(tmp_path / "a.parquet", rows, row_group_size=2)
    assert list(readers_records.table(path)) == rows
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"a\.parquet: damaged: "):
        list(readers_records.table(path))


def test_faults_of_data_sets_are_named(tmp_path):
    folder = saved(tmp_path / "set", TRANSLATIONS)
    state = (folder / "state.json").read_text()
    for text, message in [
        ("{", "state.json: no list of data files"),
        ('{"_data_files": 3}', "state.json: no list of data files"),
        (state.replace("data-0", "../data-0"), "is no file beside it"),
        (state.replace("data-0", "data-1"), "is no file beside it"),
        (state[:-1] + ', "_indices_data_files": [{"filename": "i"}]}', "flatten_indices"),
    ]:
        (folder / "state.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            pairs(folder)
    (folder / "state.json").write_text(state)
    arrow = next(folder.glob("*.arrow"))
    arrow.write_bytes(arrow.read_bytes()[:300])
    with pytest.raises(ValueError, match="set: damaged: "):
        pairs(folder)


def test_a_missing_library_is_named_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"a\.parquet: .*pip install 'mmt\[formats\]'"):
        pairs(tmp_path / "a.parquet")
