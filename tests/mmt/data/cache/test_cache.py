"""A cache is self-contained, and reports when it is damaged or stale."""

import os

import numpy as np
import pytest

from mmt.data import cache, vocabulary
from mmt.data.cache.manifest import Manifest
from tests.mmt.data.cache import EXAMPLES, build


def test_a_cache_can_be_moved(tmp_path, models):
    manifest = build(tmp_path / "made", models)
    assert manifest == Manifest(
        name="toy",
        target="eng_Latn",
        languages=("deu_Latn", "swh_Latn"),
        counts={
            "train": {"swh_Latn": 250, "deu_Latn": 1000},
            "validation": {"deu_Latn": 3, "swh_Latn": 0},
        },
        corpus_hash="c0ffee",
        vocabulary_hash={
            side: vocabulary.Vocabulary.load(path).hash for side, path in models.items()
        },
        vocabulary_size={"source": 700, "target": 600},
    )
    assert os.listdir(tmp_path) == ["made"]
    moved = (tmp_path / "made").rename(tmp_path / "moved")
    opened = cache.open_cache(moved)
    assert opened.manifest == manifest
    for (split, language), examples in EXAMPLES.items():
        expected = list(examples())
        reader = opened.records(language, split)
        assert len(reader) == len(expected)
        assert opened.lengths(language, split).tolist() == [[len(a), len(b)] for a, b in expected]
        for index in {0, len(expected) // 2, len(expected) - 1} if expected else ():
            example = {key: value.tolist() for key, value in reader[index].items()}
            assert example == dict(zip(("inputs", "targets"), expected[index], strict=True))
    files = opened.vocabulary_files()
    assert {side: path.name for side, path in files.items()} == {
        "source": "vocabulary.source.model",
        "target": "vocabulary.target.model",
    }
    assert all(path.read_bytes() == models[side].read_bytes() for side, path in files.items())


def test_unknown_language_or_split_names_the_nearest(tmp_path, models):
    build(tmp_path / "made", models)
    opened = cache.open_cache(tmp_path / "made")
    with pytest.raises(ValueError, match="no 'deu_Ltn'; nearest: deu_Latn"):
        opened.records("deu_Ltn", "train")
    with pytest.raises(ValueError, match="no 'valid'; nearest: validation"):
        opened.lengths("deu_Latn", "valid")


def test_a_cache_without_validation_pairs_says_what_to_do(tmp_path, models):
    train_only = {key: value for key, value in EXAMPLES.items() if key[0] == "train"}
    build(tmp_path / "made", models, train_only)
    with pytest.raises(ValueError, match=r"no validation pairs: add \[validation\] .*hooks=\[\]"):
        cache.open_cache(tmp_path / "made").records("deu_Latn", "validation")


def test_a_cache_that_lacks_a_file_is_incomplete(tmp_path, models):
    directory = tmp_path / "made"
    with pytest.raises(ValueError, match="holds no cache"):
        cache.open_cache(directory)
    build(directory, models)
    lengths = directory / "train" / "swh_Latn.lengths.npy"
    whole = lengths.read_bytes()
    np.save(lengths, np.load(lengths)[:-1])
    for damaged in (lengths.read_bytes(), whole[:-4], whole[:20], b""):
        lengths.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"swh_Latn.lengths.npy is damaged.*build the cache"):
            cache.open_cache(directory).lengths("swh_Latn", "train")
    lengths.unlink()
    with pytest.raises(ValueError, match=r"swh_Latn.lengths.npy is missing.*incomplete"):
        cache.open_cache(directory)


def test_stale_caches_say_what_changed(tmp_path, models):
    manifest = build(tmp_path / "made", models)
    opened = cache.open_cache(tmp_path / "made")
    cache.check_fresh(opened, corpus_hash="c0ffee", vocabulary_hash=manifest.vocabulary_hash)
    with pytest.raises(ValueError, match=r"made is stale: the corpus changed.*rm -r .*made"):
        cache.check_fresh(opened, corpus_hash="1", vocabulary_hash=manifest.vocabulary_hash)
    other = manifest.vocabulary_hash | {"target": "0"}
    with pytest.raises(ValueError, match="the corpus and the target vocabulary changed"):
        cache.check_fresh(opened, corpus_hash="1", vocabulary_hash=other)
