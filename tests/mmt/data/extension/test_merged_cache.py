"""The cache of old and new languages: old tokens stay, but where a new piece is."""

import pytest

from mmt.data import cache, corpora
from mmt.data import vocabulary as vocab
from mmt.data.extension import pieces
from mmt.data.extension.merged_cache import MergedCache
from mmt.data.vocabulary import Vocabulary

pytestmark = pytest.mark.filterwarnings("ignore:.*the texts have only")

OLD = {
    "deu_Latn": [(f"<2eng> Zug {i} fährt", f"train {i} goes") for i in range(30)],
    "swh_Latn": [("<2eng> treni ორი", "train two"), ("<bt> moja", "one")],
}
NEW = [("ორი", "two"), ("სამი", "three")]


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """The merged cache, its directory, and the vocabularies before and after."""
    folder = tmp_path_factory.mktemp("merged")
    texts = [text for pair in OLD["deu_Latn"] for text in pair]
    model = folder / "shared.model"
    vocab.train(texts, model, size=330, tags=["<2eng>", "<bt>"])
    words = Vocabulary.load(model)

    def examples(code):
        for source, target in OLD[code]:
            yield words.encode(source), words.encode(target), f"{code}.tsv"

    cache.build(
        folder / "old", {("train", code): (lambda code=code: examples(code)) for code in OLD},
        name="toy_to_eng", target="eng_Latn", corpus_hash="abc",
        vocabularies=dict.fromkeys(("source", "target"), model),
    )  # fmt: skip
    (folder / "new").mkdir()
    rows = "".join(f"{source}\t{target}\n" for source, target in NEW * 20)
    for split in ("train", "validation"):
        (folder / f"new/{split}.tsv").write_text(rows)
    (folder / "new/corpus.toml").write_text(
        '[train]\nkat = "train.tsv"\n[validation]\nkat = "validation.tsv"\n'
    )
    made = MergedCache(
        cache.open_cache(folder / "old"), list(OLD), corpora.load(folder / "new")
    )
    added = pieces.learn(words, made.new_texts(), made.old_texts(), most=50, overlap=1.0)
    source = folder / "source.model"
    source.write_bytes(pieces.extended(model.read_bytes(), added, pieces.next_rank(words)))
    made.build(folder / "made", {"source": source, "target": model})
    return made, cache.open_cache(folder / "made"), words, Vocabulary.load(source)


def test_the_text_of_both_is_there(merged):
    _, opened, _, _ = merged
    for code, pairs in OLD.items():
        assert list(opened.pairs(code, "train")) == pairs
    expected = [(f"<2eng> {source}", target) for source, target in NEW * 20]
    for split in ("train", "validation"):
        assert list(opened.pairs("kat_Geor", split)) == expected
    manifest = opened.manifest
    assert manifest.languages == ("deu_Latn", "kat_Geor", "swh_Latn")
    assert (manifest.name, manifest.target) == ("toy_to_eng_new", "eng_Latn")
    assert manifest.corpora["train"]["swh_Latn"] == [["swh_Latn.tsv", 2]]


def test_old_tokens_change_only_where_a_new_piece_is(merged):
    made, opened, before, after = merged
    assert "▁ორი" in [after.piece(i) for i in range(before.size, after.size)]
    assert made.changed == 1  # 'treni ორი'
    for code in OLD:
        old, new = (each.records(code, "train") for each in (made.old, opened))
        for i, (source, _) in enumerate(OLD[code]):
            assert new[i]["targets"].tolist() == old[i]["targets"].tolist()
            assert new[i]["inputs"].tolist() == after.encode(source)
            assert (new[i]["inputs"].tolist() == old[i]["inputs"].tolist()) == ("ო" not in source)


def test_the_target_keeps_its_vocabulary(merged):
    made, opened, before, after = merged
    old, new = made.old.manifest.vocabulary_hash, opened.manifest.vocabulary_hash
    assert new == {"source": after.hash, "target": old["target"]}
    assert opened.manifest.vocabulary_size == {"source": after.size, "target": before.size}
