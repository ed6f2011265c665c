"""A language's bilingual vocabulary: the same text, fewer pieces, made once."""

import pytest

from mmt.data import cache, vocabulary
from mmt.data.bilingual_vocabulary import bilingual_cache

pytestmark = pytest.mark.filterwarnings("ignore:.*the texts have only")

TEXTS = {
    "deu_Latn": [
        (f"<2eng> Zug {i} fährt nach Köln", f"train {i} goes to Cologne") for i in range(9)
    ],
    "ell_Grek": [(f"<2eng> το τρένο {i}", f"the train {i}") for i in range(4)],
}
SIZES = {"source": 310, "target": 300}


@pytest.fixture(params=["shared", "apart"])
def opened(request, tmp_path):
    """A cache of two languages, with one vocabulary or with two."""
    files = {side: tmp_path / f"{request.param}.{side}.model" for side in ("source", "target")}
    if request.param == "shared":
        files["target"] = files["source"]
    every = [pair for pairs in TEXTS.values() for pair in pairs]
    for size, file in zip((390, 360), dict.fromkeys(files.values()), strict=False):
        texts = [text for pair in every for text in pair]
        vocabulary.train(texts, file, size=size, tags=["<2eng>", "<2deu>"])
    words = {side: vocabulary.Vocabulary.load(file) for side, file in files.items()}

    def examples(code, count):
        for i, (source, target) in enumerate(TEXTS[code][:count]):
            ids = words["source"].encode(source), words["target"].encode(target)
            yield *ids, "news" if i < 2 else "books"

    cache.build(
        tmp_path / "toy-390",
        {(split, code): (lambda code=code, n=n: examples(code, n))
         for split, n in (("train", 9), ("validation", 2)) for code in TEXTS},
        name="toy", target="eng_Latn", corpus_hash="abc", vocabularies=files,
    )  # fmt: skip
    return cache.open_cache(tmp_path / "toy-390")


def read(directory, split):
    files = directory.vocabulary_files()
    words = [vocabulary.Vocabulary.load(files[side]) for side in ("source", "target")]
    (code,) = directory.manifest.languages
    records = directory.records(code, split)
    columns = [[record[key].tolist() for record in map(records.__getitem__, range(len(records)))]
               for key in ("inputs", "targets")]  # fmt: skip
    texts = (word.decode_all(ids) for word, ids in zip(words, columns, strict=True))
    return list(zip(*texts, strict=True))


def test_the_text_is_the_same_in_a_bilingual_vocabulary(opened):
    bilingual = bilingual_cache(opened, "deu_Latn", SIZES)
    assert read(bilingual, "train") == TEXTS["deu_Latn"]
    assert read(bilingual, "validation") == TEXTS["deu_Latn"][:2]
    manifest, before = bilingual.manifest, opened.manifest
    assert manifest.languages == ("deu_Latn",) and manifest.corpus_hash == before.corpus_hash
    assert manifest.corpora["train"]["deu_Latn"] == [["news", 2], ["books", 7]]
    joint = len(set(before.vocabulary_hash.values())) == 1
    assert manifest.vocabulary_size == {"source": 310, "target": 310 if joint else 300}
    assert len(set(manifest.vocabulary_hash.values())) == (1 if joint else 2)
    source = vocabulary.Vocabulary.load(bilingual.vocabulary_files()["source"])
    assert list(source.tags) == ["<2eng>"]  # what none of its sources has is no piece
    assert source.encode("<2eng> Zug")[0] == source.id("<2eng>")
    assert "το" not in "".join(map(source.piece, range(source.size)))


def test_it_is_made_once_and_again_for_another_text(opened):
    bilingual = bilingual_cache(opened, "ell_Grek", SIZES)
    assert bilingual.directory.parent == opened.directory.parent
    assert bilingual.directory.name.startswith("toy-390-ell_Grek-310")
    made = bilingual.directory.stat().st_ino
    assert bilingual_cache(opened, "ell_Grek", SIZES).directory.stat().st_ino == made
    file = opened.directory / "manifest.json"
    file.write_text(file.read_text().replace('"abc"', '"other"'))
    changed = bilingual_cache(cache.open_cache(opened.directory), "ell_Grek", SIZES)
    assert changed.manifest.corpus_hash == "other" and changed.directory == bilingual.directory
    assert changed.directory.stat().st_ino != made
    (changed.directory / "train" / "ell_Grek.lengths.npy").unlink()  # no whole cache
    assert read(bilingual_cache(cache.open_cache(opened.directory), "ell_Grek", SIZES), "train")


def test_too_few_pieces_or_no_pairs_are_errors(opened):
    too_small = "^deu_Latn: a vocabulary of 260 pieces is too small.*choose a larger size"
    with pytest.raises(ValueError, match=too_small):
        bilingual_cache(opened, "deu_Latn", {"source": 260, "target": 260})
    with pytest.raises(ValueError, match="no training pairs of fra_Latn"):
        bilingual_cache(opened, "fra_Latn", SIZES)


def test_documents_stay(tmp_path):
    """The modifier `context` needs them; a cache of an earlier version has none."""
    file = tmp_path / "a.model"
    texts = [text for pair in TEXTS["deu_Latn"] for text in pair]
    vocabulary.train(texts, file, size=390, tags=["<2eng>"])
    words = vocabulary.Vocabulary.load(file)

    def shared(documents):
        def examples():
            for i, (source, target) in enumerate(TEXTS["deu_Latn"]):
                follows = (i % 3 > 0,) * documents
                yield words.encode(source), words.encode(target), "talks", *follows

        cache.build(
            tmp_path / "toy", {("train", "deu_Latn"): examples}, name="toy", target="eng_Latn",
            corpus_hash="abc", vocabularies={"source": file, "target": file},
        )  # fmt: skip
        return cache.open_cache(tmp_path / "toy")

    assert bilingual_cache(shared(False), "deu_Latn", SIZES).follows("deu_Latn", "train") is None
    bilingual = bilingual_cache(shared(True), "deu_Latn", SIZES)
    follows = bilingual.follows("deu_Latn", "train")
    assert follows is not None and follows.tolist() == [i % 3 > 0 for i in range(9)]


def test_a_language_without_test_pairs_is_recognised(tmp_path):
    file = tmp_path / "shared.model"
    texts = [text for pairs in TEXTS.values() for pair in pairs for text in pair]
    vocabulary.train(texts, file, size=360, tags=["<2eng>"])
    words = vocabulary.Vocabulary.load(file)

    def examples(code):
        return ((words.encode(a), words.encode(b)) for a, b in TEXTS[code])

    keys = [("train", "deu_Latn"), ("train", "ell_Grek"), ("test", "deu_Latn")]
    cache.build(
        tmp_path / "toy-330", {key: (lambda code=key[1]: examples(code)) for key in keys},
        name="toy", target="eng_Latn", corpus_hash="abc",
        vocabularies={"source": file, "target": file},
    )  # fmt: skip
    shared = cache.open_cache(tmp_path / "toy-330")
    made = [bilingual_cache(shared, "ell_Grek", SIZES).directory.stat().st_ino for _ in range(2)]
    assert made[0] == made[1]
