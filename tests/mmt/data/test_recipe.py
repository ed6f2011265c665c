"""A run's cache: its configuration, and the detection of changes."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from mmt.data import cache, corpora, recipe, vocabulary


@pytest.fixture
def cached(tmp_path):
    """A corpus of one language and its cache, made without SeqIO."""
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "corpus.toml").write_text('[train]\nde = "de.tsv"\n')
    (folder / "de.tsv").write_text("".join(f"Zug {i}\ttrain {i}\n" for i in range(50)))
    corpus = corpora.load(folder)
    model = tmp_path / "v.model"
    vocabulary.train(
        vocabulary.training_texts(corpus, side="both"), model, size=320,
        tags=[vocabulary.tag("eng_Latn")],
    )
    words = vocabulary.Vocabulary.load(model)
    cache.build(
        tmp_path / "cache",
        {("train", "deu_Latn"): lambda: [
            (words.encode(pair.source), words.encode(pair.target))
            for pair in corpus.pairs("deu_Latn", "train")
        ]},
        name="toys_to_eng", target="eng_Latn", corpus_hash=corpus.hash(),
        vocabularies={"source": model, "target": model},
    )  # fmt: skip
    return recipe.CacheConfig(str(tmp_path / "cache"), "toys_to_eng", corpus=str(folder)), folder


def test_a_cache_is_present_or_not(cached, tmp_path):
    cache_config, _ = cached
    assert cache_config.present()
    assert not recipe.CacheConfig(str(tmp_path / "elsewhere"), "toys_to_eng").present()
    (tmp_path / "empty").mkdir()
    assert not recipe.CacheConfig(str(tmp_path / "empty"), "toys_to_eng").present()


def test_a_changed_corpus_makes_the_cache_stale(cached):
    cache_config, folder = cached
    (folder / "de.tsv").write_text("Zug\ttrain\n")
    with pytest.raises(ValueError, match="stale"):
        cache_config.present()


def test_a_corpus_that_is_elsewhere_does_not_matter(cached):
    """A machine that has only the cache trains from it."""
    cache_config, folder = cached
    folder.rename(folder.with_name("moved"))
    assert cache_config.present()


def test_the_cache_of_another_mixture_is_refused(cached):
    cache_config, _ = cached
    with pytest.raises(ValueError, match="of 'toys_to_eng', not 'boys_to_eng'"):
        recipe.CacheConfig(cache_config.directory, "boys_to_eng").present()


def test_default_directories_differ_by_vocabulary(monkeypatch, tmp_path):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    directories = {
        recipe.default_directory("a_to_eng"),
        recipe.default_directory("a_to_eng", vocab_size=8000),
        recipe.default_directory("a_to_eng", vocab_size=8000, target_vocab_size=4000),
        recipe.default_directory("a_to_eng", vocab_size=8000, vocabulary_from="runs/parent"),
    }
    assert len(directories) == 4 and all(str(tmp_path) in directory for directory in directories)


def test_runs_with_one_vocabulary_share_the_default_directory(cached, monkeypatch, tmp_path):
    _, directory = cached
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    runs = [tmp_path / "first", tmp_path / "second", tmp_path / "other"]
    for run in runs[:2]:
        run.mkdir()
        (run / "vocabulary.model").write_bytes((tmp_path / "cache/vocabulary.model").read_bytes())
    runs[2].mkdir()
    vocabulary.train(["Zug train"] * 9, runs[2] / "vocabulary.model", size=300, tags=["<2fra>"])
    first, second, other = (
        recipe.default_directory("a_to_eng", vocabulary_from=str(run)) for run in runs
    )
    assert first == second != other and "first" not in first


def test_a_cache_that_an_older_version_named_after_the_run_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = Path("runs/parent")
    expected = hashlib.sha256(str(run.absolute()).encode()).hexdigest()[:8]
    older = tmp_path / f"caches/a_to_eng-parent-{expected}"
    (tmp_path / run).mkdir(parents=True)
    vocabulary.train(["Zug train"] * 9, run / "vocabulary.model", size=300, tags=["<2fra>"])
    assert recipe.default_directory("a_to_eng", vocabulary_from=str(run)) != str(older)
    older.mkdir(parents=True)
    assert recipe.default_directory("a_to_eng", vocabulary_from=str(run)) == str(older)


def test_the_cache_of_another_vocabulary_is_refused(cached, tmp_path):
    cache_config, _ = cached
    parent = tmp_path / "parent"
    parent.mkdir()
    former = (tmp_path / "cache/vocabulary.model").read_bytes()
    (parent / "vocabulary.model").write_bytes(former)
    assert dataclasses.replace(cache_config, vocabulary_from=str(parent)).present()
    vocabulary.train(["Zug train"] * 9, parent / "vocabulary.model", size=300, tags=["<2fra>"])
    with pytest.raises(ValueError, match=r"has another source vocabulary .* than .*parent"):
        dataclasses.replace(cache_config, vocabulary_from=str(parent)).present()


def test_a_cache_with_fewer_pieces_than_configured_is_used_with_a_warning(cached):
    cache_config, _ = cached
    with pytest.warns(UserWarning, match=r"vocabulary of \d+ pieces, not of 8000;"):
        assert dataclasses.replace(cache_config, vocab_size=8000).present()


def test_a_cache_of_the_configured_size_is_used_without_a_warning(cached, recwarn):
    cache_config, _ = cached
    pieces = cache.open_cache(Path(cache_config.directory)).manifest.vocabulary_size["source"]
    recwarn.clear()
    assert dataclasses.replace(cache_config, vocab_size=pieces).present()
    assert not recwarn.list


def test_a_cache_with_one_vocabulary_is_not_used_for_two(cached):
    cache_config, _ = cached
    with pytest.raises(ValueError, match="one vocabulary for both sides; target_vocab_size is 300"):
        dataclasses.replace(cache_config, vocab_size=320, target_vocab_size=300).present()


def test_corpora_to_leave_out_are_those_of_the_description_or_of_the_cache(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text("Zug\ttrain\n")
    text = '[train]\nde = [{ pairs = "a.tsv", name = "news" }, "b.tsv"]\n'
    (tmp_path / "corpus.toml").write_text(text)
    described = recipe.CacheConfig(str(tmp_path / "no cache"), "x_to_eng", corpus=str(tmp_path))
    described.check_leave_out(["news"])
    with pytest.raises(ValueError, match="no corpus 'newz' .* known: b.tsv, news; nearest: news"):
        described.check_leave_out(["newz"])
    with pytest.raises(ValueError, match="without news, b.tsv no training example remains"):
        described.check_leave_out(["news", "b.tsv"])


def test_a_reverse_model_has_no_back_translated_corpus_to_leave_out(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text("Zug\ttrain\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\nde = ["a.tsv", { pairs = "b.tsv", back_translated = true }]\n'
    )
    forward = recipe.CacheConfig(str(tmp_path / "no cache"), "x_to_eng", corpus=str(tmp_path))
    forward.check_leave_out(["b.tsv"])
    with pytest.raises(ValueError, match=r"no corpus 'b.tsv' in the training data; known: a.tsv"):
        dataclasses.replace(forward, mixture="x_from_eng").check_leave_out(["b.tsv"])


@pytest.mark.parametrize(
    ("name", "is_reverse", "components"),
    [
        ("two_to_eng", False, {"deu_Latn", "swh_Latn"}),
        ("two_deu_Latn_to_eng", False, {"deu_Latn"}),
        ("two_from_eng", True, {"deu_Latn", "swh_Latn"}),
        ("two_eng_to_swh_Latn", True, {"swh_Latn"}),
        ("two_monolingual", False, {"eng_Latn.monolingual", "deu_Latn.monolingual"}),
        ("two_eng_Latn_monolingual", False, {"eng_Latn.monolingual"}),
        ("two_mixed", False,
         {"deu_Latn", "swh_Latn", "eng_Latn.monolingual", "deu_Latn.monolingual"}),
        ("two_fra_Latn_to_eng", False, set()),
        ("another", False, {"deu_Latn", "swh_Latn"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("corpus_name", ["two", "my_deu_Latn"])
def test_names_of_mixtures_and_tasks_say_what_they_read(
    tmp_path, name, is_reverse, components, corpus_name
):
    (tmp_path / "a.tsv").write_text("Zug\ttrain\n")
    (tmp_path / "a.txt").write_text("Zug\n")
    (tmp_path / "corpus.toml").write_text(
        f'name = "{corpus_name}"\n[train]\ndeu = "a.tsv"\nswh = "a.tsv"\n'
        '[monolingual]\neng = "a.txt"\ndeu = "a.txt"\n'
    )
    corpus = corpora.load(tmp_path)
    for given in (corpus, corpus.reversed()):
        selected = recipe.select(given, name.replace("two", corpus_name))
        assert selected.corpus == (corpus.reversed() if is_reverse else corpus)
        assert set(selected.components) == components


def test_a_cache_that_names_no_corpora_cannot_leave_one_out(cached):
    with pytest.raises(ValueError, match="the cache names no corpora .* build it again"):
        cached[0].check_leave_out(["de.tsv"])


def test_monolingual_text_to_leave_out_is_that_of_the_description(tmp_path):
    (tmp_path / "a.tsv").write_text("Zug\ttrain\n")
    (tmp_path / "a.txt").write_text("train\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\nde = "a.tsv"\n[monolingual]\neng = { text = "a.txt", name = "web" }\n'
    )
    mixed = recipe.CacheConfig(str(tmp_path / "no cache"), "x_mixed", corpus=str(tmp_path))
    mixed.check_leave_out(["web"])
    with pytest.raises(ValueError, match="no corpus 'web' in the training data; known: a.tsv"):
        dataclasses.replace(mixed, mixture="x_to_eng").check_leave_out(["web"])
