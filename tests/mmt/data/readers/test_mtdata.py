"""Data that mtdata downloaded: its output folder, its cache by the index, recipes. No test
downloads. The layouts are those of mtdata 0.5 (its `Dataset`, `Cache` and `Index`).
"""

import gzip
import hashlib
import json
import zipfile

import pytest

from mmt.data import corpora


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A function that puts a file into mtdata's cache and into its index."""
    root = tmp_path / "mtdata"
    root.mkdir()
    monkeypatch.setenv("MTDATA", str(root))
    monkeypatch.delenv("MTDATA_RECIPES", raising=False)

    def put(did, content, filename, whole=True, **entry):
        url = f"https://data.example.org/{did}"
        key = hashlib.md5(url.encode()).hexdigest()
        path = root / "data.example.org" / key[:4] / key[4:] / filename
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        if whole:
            path.with_name(f"{filename}._valid").touch()
        entry = {"did": did, "url": url, "filename": filename, **entry}
        with open(root / "mtdata.index.0.5.1.jsonl", "a", encoding="utf-8") as index:
            index.write(json.dumps(entry) + "\n")
        return path

    return put


def german(tmp_path, text):
    (tmp_path / "corpus.toml").write_text(text)
    corpus = corpora.load(tmp_path)
    pairs = list(corpus.pairs("de", "train"))
    assert corpus.count("de", "train") == len(pairs)
    return [(pair.corpus, pair.line, pair.source, pair.target) for pair in pairs]


def test_data_sets_are_read_from_the_cache(tmp_path, cache):
    moses = tmp_path / "x.zip"
    with zipfile.ZipFile(moses, "w") as archive:
        for name, text in (("README", "-"), ("x.de-en.de", "zwei\n"), ("x.de-en.en", "two\n")):
            archive.writestr(f"R/{name}", text)
    cache("S-news-1-eng-deu", gzip.compress(b"one\teins\t0.9\n"), "news.tsv.gz", ext="tsv.gz")
    cache("S-cols-1-deu-eng", b"a\tvier\tfour\n", "cols.tsv", ext="tsv", cols=[1, 2])
    cache("O-x-v1-deu-eng", moses.read_bytes(), "x.zip", ext="zip", in_ext="txt",
          in_paths=["*.de", "*.en"])  # fmt: skip
    both = (("en", "three"), ("de", "drei"))
    units = "".join(f"<tuv xml:lang='{code}'><seg>{text}</seg></tuv>" for code, text in both)
    tmx = f"<tmx><tu>{units}</tu></tmx>"
    cache("T-t-1-eng-deu", gzip.compress(tmx.encode()), "t.tmx.gz", ext="tmx.gz")
    read = {
        "S-news-1-eng-deu": ("eins", "one"), "S-cols-1-deu-eng": ("vier", "four"),
        "O-x-v1-deu-eng": ("zwei", "two"), "T-t-1-eng-deu": ("drei", "three"),
    }  # fmt: skip
    for did, sides in read.items():
        assert german(tmp_path, f'[train]\nde = {{ mtdata = "{did}" }}') == [(did, 1, *sides)]
    (tmp_path / "mtdata/mtdata.recipes.yml").write_text(
        "- id: mine\n  langs: deu-eng\n  train:\n  - S-news-1-eng-deu,O-x-v1-deu-eng\n"
        "  - T-t-1-eng-deu\n  dev: S-cols-1-deu-eng\n"
    )
    text = '[train]\nde = { mtdata = "mine" }\n[validation]\nde = { mtdata = "mine" }'
    assert [line[2] for line in german(tmp_path, text)] == ["eins", "zwei", "drei"]
    assert corpora.load(tmp_path).entries("de", "validation") == ("S-cols-1-deu-eng",)


def test_missing_partial_or_unreadable_data_sets_are_named(tmp_path, cache):
    cache("S-half-1-deu-eng", b"", "half.tsv", whole=False, ext="tsv")
    cache("S-tar-1-deu-eng", b"", "dev.tgz", ext="tgz", in_ext="sgm", in_paths=["a", "b"])
    cache("S-sgm-1-deu-eng", b"", "dev.sgm", ext="sgm")
    gone = cache("S-gone-1-deu-eng", b"", "gone.tsv", ext="tsv")
    gone.unlink()
    (tmp_path / "mtdata/mtdata.recipes.yml").write_text("- id: mine\n  test: S-sgm-1-deu-eng\n")
    for name, message in [
        ("S-half-1-deu-eng", r"is incomplete: .*half\.tsv has no \._valid"),
        ("S-tar-1-deu-eng", r"dev\.tgz: the only supported archive is \.zip; run: mtdata get"),
        ("S-sgm-1-deu-eng", r"1 files of 'sgm'; run: mtdata get"),
        ("S-gone-1-deu-eng", r"is not in its cache: no .*gone\.tsv; run: mtdata cache"),
        ("S-none-1-deu-eng", r"index\.0\.5\.1\.jsonl has no S-none-1-deu-eng"),
        ("S-half-1-fra-eng", r"has no S-half-1-fra-eng"),
        ("mien", r"'mien' is no id of mtdata, .*nearest: mine"),
        ("mine", r"recipe mine has nothing for train"),
    ]:
        with pytest.raises(ValueError, match=rf"corpus\.toml:2: .*{message}"):
            german(tmp_path, f'[train]\nde = {{ mtdata = "{name}" }}')
    cache("S-fr-1-fra-eng", b"", "fr.tsv", ext="tsv")
    with pytest.raises(ValueError, match="S-fr-1-fra-eng is not for deu_Latn and eng_Latn"):
        german(tmp_path, '[train]\nde = { mtdata = "S-fr-1-fra-eng" }')
    (tmp_path / "mtdata/mtdata.recipes.yml").write_text("- a: [")
    with pytest.raises(ValueError, match=r"mtdata\.recipes\.yml: "):
        german(tmp_path, '[train]\nde = { mtdata = "mine" }')


def test_an_output_folder_is_read_by_split_and_its_parts(tmp_path):
    out = tmp_path / "wmt"
    (out / "train-parts").mkdir(parents=True)
    for name, text in {
        "train-parts/S-b-1.5-deu-eng.deu": "zwei\n", "train-parts/S-b-1.5-deu-eng.eng": "two\n",
        "train-parts/S-a-1-eng-deu.deu": "eins\n", "train-parts/S-a-1-eng-deu.eng_US": "one\n",
        "train-parts/S-a-1-eng-deu.meta.jsonl": "{}\n", "mtdata.signature.txt": "",
        "train.deu": "eins\nzwei\n", "train.eng": "one\ntwo\n", "train.stats.json": "{}",
        "dev.deu": "drei\n", "dev.eng": "three\n",
        "test1.deu": "vier\n", "test1.eng": "four\n", "test2.deu": "fünf\n", "test2.eng": "five\n",
    }.items():  # fmt: skip
        (out / name).write_text(text, "utf-8")
    text = '[train]\nde = "wmt"\n[validation]\nde = "wmt"\n[test]\nde = "wmt"'
    assert german(tmp_path, text) == [
        ("wmt/train-parts/S-a-1-eng-deu.deu", 1, "eins", "one"),
        ("wmt/train-parts/S-b-1.5-deu-eng.deu", 1, "zwei", "two"),
    ]
    corpus = corpora.load(tmp_path)
    assert [pair.source for pair in corpus.pairs("de", "validation")] == ["drei"]
    assert [pair.source for pair in corpus.pairs("de", "test")] == ["vier", "fünf"]
