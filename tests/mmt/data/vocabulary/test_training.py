"""Training gives the same file every time, and is clear about bad sizes and texts."""

import warnings

import pytest

from mmt.data import corpora
from mmt.data import vocabulary as vocab
from tests.mmt.data.vocabulary import TAGS, TEXTS


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """3,000 pairs of German, 300 of French, 30 of Swahili; every text contains its line number."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = ["[train]"]
    for code, count in (("deu", 3000), ("fra", 300), ("swh", 30)):
        pairs = (f"{code} {i}\tenglish {code} {i}\n" for i in range(count))
        (folder / f"{code}.tsv").write_text("".join(pairs))
        lines.append(f'{code} = "{code}.tsv"')
    (folder / "corpus.toml").write_text("\n".join(lines))
    return corpora.load(folder)


def test_training_again_gives_the_same_file(model, vocabulary, tmp_path):
    vocab.train(iter(TEXTS), tmp_path / "again.model", size=1500, tags=TAGS)
    assert (tmp_path / "again.model").read_bytes() == model.read_bytes()
    assert vocab.Vocabulary.load(tmp_path / "again.model").hash == vocabulary.hash
    vocab.train(TEXTS[::2], tmp_path / "other.model", size=1200, tags=TAGS)
    assert vocab.Vocabulary.load(tmp_path / "other.model").hash != vocabulary.hash


def test_impossible_sizes_are_errors(tmp_path):
    path = tmp_path / "vocabulary.model"
    with pytest.raises(ValueError, match=r"vocabulary of 200 pieces is too small.*alone are \d+"):
        vocab.train(TEXTS, path, size=200, tags=TAGS)
    with pytest.raises(ValueError, match="no text"):
        vocab.train(["", " "], path, size=500, tags=TAGS)
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(UserWarning, match=r"have only (\d+) pieces, so the vocabulary has fewer"):
        vocab.train(["Guten Tag", "Good day"], path, size=500, tags=TAGS)
    assert 256 < vocab.Vocabulary.load(path).size < 300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vocab.train(TEXTS, path, size=1500, tags=TAGS)


def test_a_failing_stream_or_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "vocabulary.model"
    path.write_text("old")

    def broken():
        yield "text"
        raise ValueError("corpus.de:7: broken UTF-8")

    with pytest.raises(ValueError, match="corpus.de:7"):
        vocab.train(broken(), path, size=300, tags=TAGS)
    assert path.read_text() == "old"
    with pytest.raises(OSError, match="vocabulary.model"):
        vocab.train(TEXTS, path / "inside.model", size=1500, tags=TAGS)
    assert [file.name for file in tmp_path.iterdir()] == ["vocabulary.model"]


def test_training_texts_are_sampled_by_temperature(corpus):
    def counted(**options):
        texts = list(vocab.training_texts(corpus, side="source", **options))
        assert len(set(texts)) == len(texts)
        codes = [text.split()[1] for text in texts]
        assert all(text.startswith("<2eng> ") for text in texts)
        return [codes.count(code) for code in ("deu", "fra", "swh")]

    assert counted(limit=333, temperature=1.0) == [300, 30, 3]
    assert counted(limit=330, temperature=1e9) == [150, 150, 30]  # all of Swahili, once
    large, middle, small = counted(limit=100, temperature=2.0)
    assert large / middle == pytest.approx(10**0.5, rel=0.1)
    assert middle / small == pytest.approx(10**0.5, rel=0.2)
    assert counted(limit=10**9) == [3000, 300, 30]


def test_training_texts_cover_the_files_evenly_and_by_side(corpus):
    options = {"limit": 111, "temperature": 1.0}
    source = list(vocab.training_texts(corpus, side="source", **options))
    target = list(vocab.training_texts(corpus, side="target", **options))
    assert target == [text.replace("<2eng>", "english") for text in source]
    both = list(vocab.training_texts(corpus, side="both", **options))
    assert both == [text for pair in zip(source, target, strict=True) for text in pair]
    lines = [int(text.split()[2]) for text in source if "deu" in text]
    assert len(lines) == 100
    assert {b - a for a, b in zip(lines, lines[1:], strict=False)} == {30}
    with pytest.raises(ValueError, match="'sauce'.*nearest: source"):
        next(vocab.training_texts(corpus, side="sauce"))
