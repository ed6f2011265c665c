"""Training on a corpus: its sources and its target; what a run without text gets."""

import shutil

import pytest

from mmt.data import cache, corpora, vocabulary
from mmt.identify import IdentifierConfig, LanguageIdentifier, add_to_run, train_on_corpus
from mmt.run import Run

SMALL = IdentifierConfig(buckets=2**12, dimensions=16, epochs=8)


@pytest.fixture(scope="module")
def identifier(toy_corpus):
    return train_on_corpus(corpora.load(toy_corpus), config=SMALL)


def test_it_knows_the_sources_and_the_target(identifier, toy_corpus):
    assert identifier.codes == ("deu_Latn", "eng_Latn", "fra_Latn", "swh_Latn", "und")
    assert identifier.corpus_hash == corpora.load(toy_corpus).hash()
    corpus = corpora.load(toy_corpus)
    for code in corpus.languages:
        lines = [pair.source for pair in corpus.pairs(code, "test") if " " in pair.source]
        found = [ranking[0][0] for ranking in identifier.rank(lines)]
        assert found.count(code) >= 0.9 * len(found), code


def test_it_does_not_read_more_than_asked(toy_corpus):
    few = IdentifierConfig(buckets=2**10, dimensions=8, lines_per_language=30, max_read=40)
    assert train_on_corpus(corpora.load(toy_corpus), config=few).codes[-1] == "und"


def test_back_translated_sources_are_left_out(tmp_path, toy_corpus):
    for file in toy_corpus.iterdir():
        shutil.copy(file, tmp_path)
    text = (tmp_path / "corpus.toml").read_text()
    marked = 'fra = { pairs = "train.fra.tsv", back_translated = true }'
    (tmp_path / "corpus.toml").write_text(text.replace('fra = "train.fra.tsv"', marked))
    codes = train_on_corpus(corpora.load(tmp_path), config=SMALL).codes
    assert "fra_Latn" not in codes and "deu_Latn" in codes


def test_a_run_gets_one_and_keeps_it(tmp_path, toy_corpus, toy_run):
    shutil.copy(Run(toy_run).manifest, tmp_path)
    run = Run(tmp_path)
    assert add_to_run(run, "", config=SMALL) == "there is no CORPUS to train it on"
    assert "no corpus at" in add_to_run(run, str(tmp_path / "missing"), config=SMALL)
    assert not run.identifier.exists()
    assert add_to_run(run, str(toy_corpus), config=SMALL) == ""
    before = run.identifier.stat().st_mtime_ns
    assert add_to_run(run, str(toy_corpus), config=SMALL) == ""
    assert run.identifier.stat().st_mtime_ns == before
    off = IdentifierConfig(lines_per_language=0)
    assert "lines_per_language is 0" in add_to_run(run, str(toy_corpus), config=off)


def test_one_from_another_corpus_stays_if_it_knows_the_languages(
    tmp_path, identifier, toy_corpus, toy_run
):
    run = Run(tmp_path)
    manifest = Run(toy_run).manifest.read_text()
    run.manifest.write_text(manifest.replace(identifier.corpus_hash, "another"))
    identifier.save(tmp_path)
    before = run.identifier.read_bytes()
    for corpus in (toy_corpus, tmp_path / "missing"):
        assert add_to_run(run, str(corpus), config=SMALL) == ""
    assert run.identifier.read_bytes() == before
    run.manifest.write_text(run.manifest.read_text().replace("deu_Latn", "dan_Latn"))
    assert "no corpus at" in add_to_run(run, str(tmp_path / "missing"), config=SMALL)
    assert run.identifier.read_bytes() == before
    assert add_to_run(run, str(toy_corpus), config=SMALL) == ""
    assert LanguageIdentifier.load(tmp_path).corpus_hash == "another"


def test_training_a_model_trains_one(toy_run):
    identifier = LanguageIdentifier.load(toy_run)
    assert identifier.codes == ("deu_Latn", "eng_Latn", "fra_Latn", "swh_Latn", "und")
    assert identifier.rank(["drei zwei eins vier"])[0][0][0] == "deu_Latn"


def test_a_run_without_a_corpus_gets_one_from_its_cache(tmp_path, toy_corpus, toy_run):
    (directory,) = (toy_corpus.parent / "caches").glob("numbers_to_eng-340")
    opened = cache.open_cache(directory)
    shutil.copy(Run(toy_run).manifest, tmp_path)
    assert add_to_run(Run(tmp_path), "", cache=opened, config=SMALL) == ""
    found = LanguageIdentifier.load(tmp_path)
    assert found.codes == ("deu_Latn", "eng_Latn", "fra_Latn", "swh_Latn", "und")
    assert found.corpus_hash == opened.manifest.corpus_hash
    assert [ranking[0][0] for ranking in found.rank(["drei zwei eins", "tatu moja nne"])] == [
        "deu_Latn", "swh_Latn",
    ]  # fmt: skip


def test_a_run_from_the_target_has_the_same_languages(tmp_path, toy_corpus, toy_run):
    (directory,) = (toy_corpus.parent / "caches").glob("numbers_to_eng-340")
    forward = cache.open_cache(directory)
    files = forward.vocabulary_files()
    words = vocabulary.Vocabulary.load(files["target"])

    def examples(code, split):
        for source, target in forward.pairs(code, split):
            yield words.encode(target), words.encode(source.removeprefix("<2eng> "))

    cache.build(
        tmp_path / "reverse",
        {(split, code): (lambda code=code, split=split: examples(code, split))
         for split in ("train", "validation") for code in forward.manifest.languages},
        name="numbers_from_eng", target="", source="eng_Latn", corpus_hash="abc",
        vocabularies={"source": files["target"], "target": files["target"]},
    )  # fmt: skip
    shutil.copy(Run(toy_run).manifest, tmp_path)
    reverse = cache.open_cache(tmp_path / "reverse")
    assert add_to_run(Run(tmp_path), "", cache=reverse, config=SMALL) == ""
    found = LanguageIdentifier.load(tmp_path)
    assert found.codes == ("deu_Latn", "eng_Latn", "fra_Latn", "swh_Latn", "und")
    lines = ["drei zwei eins", "tatu moja nne", "three two one"]
    assert [ranking[0][0] for ranking in found.rank(lines)] == ["deu_Latn", "swh_Latn", "eng_Latn"]
