"""A cleaned corpus loads, and every pair is traced to its line."""

import json

import pytest

from mmt.data import corpora
from mmt.data.cleaning import prepare, rulebook
from mmt.data.pair import SPLITS
from mmt.system import text_lines
from tests.mmt.data.cleaning import prepared_raw


def test_the_cleaned_corpus_loads_and_every_pair_is_traced(made):
    corpus, _, out, report = made
    clean = corpora.load(out)
    clean.validate()
    assert (clean.name, clean.target) == (corpus.name, corpus.target)
    assert clean.languages == corpus.languages
    for code in corpus.languages:
        raw = {(pair.corpus, pair.line): pair for pair in prepared_raw(corpus, code)}
        assert clean.entries(code, "train") == corpus.entries(code, "train")
        origin = [
            (name, int(line))
            for place, name in enumerate(clean.entries(code, "train"))
            for line in text_lines.read(out / f"train/{code}.{place}-{name}.lines.zst")
        ]
        pairs = list(clean.pairs(code, "train"))
        assert len(origin) == len(set(origin)) == len(pairs)
        assert [pair.corpus for pair in pairs] == [name for name, _ in origin]
        same = sum(pair[:2] == raw[at][:2] for pair, at in zip(pairs, origin, strict=True))
        tallies = [report.tallies[code, name] for name in clean.entries(code, "train")]
        changed = sum(sum(tally.changed.values()) for tally in tallies)
        assert len(pairs) - same == changed
        for split in SPLITS[1:]:
            cleaned, before = clean.pairs(code, split), corpus.pairs(code, split)
            assert [pair[:2] for pair in cleaned] == [pair[:2] for pair in before]


def test_ids_of_a_multi_way_corpus_stay(tmp_path):
    (tmp_path / "raw").mkdir()
    for side in ("de", "en"):
        text = "".join(f"GEN.1.{n}\t{side} verse {n} of them\n" for n in range(9))
        (tmp_path / f"raw/{side}.tsv").write_text(text)
    (tmp_path / "raw/corpus.toml").write_text(
        'name = "verses"\n[train]\nde = { source = "de.tsv", target = "en.tsv", join = "id" }\n'
    )
    corpus = corpora.load(tmp_path / "raw")
    prepare.prepare(corpus, tmp_path / "out", processes=1)
    clean = list(corpora.load(tmp_path / "out").pairs("de", "train"))
    assert [pair[:2] + pair[-1:] for pair in clean] == [
        pair[:2] + pair[-1:] for pair in corpus.pairs("de", "train")
    ]


@pytest.mark.parametrize("ids", [False, True])
def test_a_dropped_line_ends_a_document(tmp_path, ids):
    """Cleaned lines are neighbours only if they were; documents stay apart."""
    folder = tmp_path / "talks"
    folder.mkdir()
    letters = "ab?cd\nef\n"  # `?` is dropped, an empty line ends a document
    sources = ["" if c == "\n" else "1" if c == "?" else f"das Wort {c}" for c in letters]
    targets = ["" if c == "\n" else "2" if c == "?" else f"the word {c}" for c in letters]
    for name, side in (("de", sources), ("en", targets)):
        lines = [f"{i}\t{text}" if text and ids else text for i, text in enumerate(side)]
        kept = [line for line in lines if line or not ids or name == "de"]
        (folder / name).write_text("\n".join(kept) + "\n")
    join = ', join = "id"' * ids
    (folder / "corpus.toml").write_text(
        f'[train]\ndeu = {{ source = "de", target = "en"{join}, documents = true }}\n'
        "[clean]\nlength = { characters = [5, 1000] }\n"
    )
    corpus = corpora.load(folder)
    prepare.prepare(corpus, tmp_path / "clean", processes=1)
    cleaned = corpora.load(tmp_path / "clean")
    read = [(pair.source[-1], pair.follows) for pair in cleaned.pairs("deu", "train")]
    assert read == [("a", False), ("b", True), ("c", False), ("d", True), ("e", False), ("f", True)]
    assert [pair.follows for pair in corpus.pairs("deu", "train")].count(True) == 5


def test_keys_of_a_catalogue_are_no_ids(tmp_path):
    """Plural forms share a key, and keys may have tabs and line breaks."""
    for language, texts in (("de", ["ein Hund", "viele Hunde", "Maus"]),
                            ("en", ["one dog", "many dogs", "mouse"])):  # fmt: skip
        keys = ["a_one", "a_other", "b\tc\nd"]
        content = json.dumps(dict(zip(keys, texts, strict=True)))
        (tmp_path / f"{language}.json").write_text(content)
    (tmp_path / "corpus.toml").write_text(
        '[train]\nde = { source = "de.json", target = "en.json" }\n'
    )
    book = rulebook.Rulebook({"": {"length": True}}, {"": "r.toml:1"})
    prepare.prepare(corpora.load(tmp_path), tmp_path / "out", book=book, processes=1)
    clean = corpora.load(tmp_path / "out")
    assert [pair[:2] for pair in clean.pairs("de", "train")] == [
        ("ein Hund", "one dog"), ("viele Hunde", "many dogs"), ("Maus", "mouse")
    ]  # fmt: skip


def test_a_cleaned_corpus_keeps_domain_and_licence(tmp_path):
    (tmp_path / "a.tsv").write_text("ein Hund\tone dog\n")
    facts = 'domain = "tales"\nlicence = "CC BY-SA \u201c4.0\u201d"\n'
    (tmp_path / "corpus.toml").write_text(f'{facts}[train]\nde = "a.tsv"\n', "utf-8")
    corpus = corpora.load(tmp_path)
    prepare.prepare(corpus, tmp_path / "out", processes=1)
    clean = corpora.load(tmp_path / "out")
    assert (clean.domain, clean.licence) == (corpus.domain, corpus.licence)
    assert (clean.domain, clean.licence) == ("tales", "CC BY-SA \u201c4.0\u201d")
