"""A cache is complete or absent, self-contained, and reports when it is stale."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from mmt import languages
from mmt.data import cache, vocabulary
from mmt.data.cache.manifest import Manifest


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two vocabularies, of 700 and 600 pieces."""
    folder = tmp_path_factory.mktemp("vocabularies")
    texts = [language.name for language in languages.all_languages()]
    for size in (700, 600):
        vocabulary.train(texts, folder / f"{size}.model", size=size, tags=["<2eng>"])
    return {"source": folder / "700.model", "target": folder / "600.model"}


def made_up(count: int, first: int = 3):
    """Examples that encode their index."""
    return lambda: (([first, 10 + i % 100, 300 + i // 100], [i % 500]) for i in range(count))


EXAMPLES = {
    ("train", "swh_Latn"): made_up(250),
    ("train", "deu_Latn"): made_up(1000),
    ("validation", "deu_Latn"): made_up(3),
    ("validation", "swh_Latn"): made_up(0),
}


def build(directory, models, examples=EXAMPLES, **changes):
    described = {"name": "toy", "target": "eng_Latn", "corpus_hash": "c0ffee"} | changes
    return cache.build(directory, examples, vocabularies=models, **described)


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


def test_the_manifest_lists_the_corpora_in_the_records_order(tmp_path, models):
    names = ["bible", "bible", "news", "bible"]
    named = {("train", "deu_Latn"): lambda: (([3], [4], name) for name in names)}
    build(tmp_path / "made", models, named | {("train", "swh_Latn"): made_up(2)})
    manifest = cache.open_cache(tmp_path / "made").manifest
    runs = {"deu_Latn": [["bible", 2], ["news", 1], ["bible", 1]]}
    assert manifest.corpora == {"train": runs}
    assert manifest.only(["deu_Latn"]).corpora == {"train": runs}
    assert manifest.only(["swh_Latn"]).corpora == {"train": {}}


def test_one_vocabulary_for_both_sides_is_one_file(tmp_path, models):
    build(tmp_path / "made", dict.fromkeys(models, models["source"]))
    opened = cache.open_cache(tmp_path / "made")
    assert {path.name for path in opened.vocabulary_files().values()} == {"vocabulary.model"}


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


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (([3, 700], [3]), r"train/deu_Latn, example 2: the source has the ids 3 \.\.\. 700.*699"),
        (
            ([3], [600]),
            r"the target has the ids 600 \.\.\. 600, the target vocabulary 0 \.\.\. 599",
        ),
        (([-1], [3]), "ids -1"),
        (([3], []), "the target has no tokens"),
    ],
)
def test_ids_that_do_not_fit_leave_nothing_behind(tmp_path, models, example, message):
    stream = {("train", "deu_Latn"): lambda: iter([([3], [3]), ([4], [4]), example])}
    with pytest.raises(ValueError, match=message):
        build(tmp_path / "made", models, stream)
    assert os.listdir(tmp_path) == []


def test_an_older_cache_is_replaced_anything_else_is_kept(tmp_path, models):
    directory = tmp_path / "made"
    directory.mkdir()
    build(directory, models)
    build(directory, models, {("train", "fra_Latn"): made_up(2)}, corpus_hash="new")
    assert cache.open_cache(directory).manifest.languages == ("fra_Latn",)
    assert os.listdir(tmp_path) == ["made"]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="mine exists and is not a cache"):
        build(mine, models)
    assert (mine / "thesis.tex").read_text() == "precious"


def test_a_cache_that_is_removed_while_it_is_read_is_no_foreign_directory(
    tmp_path, models, monkeypatch
):
    build(tmp_path / "made", models)
    list_names, lists = os.listdir, []

    def listed(directory):
        """As of a directory that another process has moved, and whose files it removes."""
        names = list_names(directory)
        if directory == tmp_path / "made" and not lists:
            lists.append(names)
            directory.rename(tmp_path / "removed")
            return [name for name in names if name != "manifest.json"]
        return names

    monkeypatch.setattr(os, "listdir", listed)
    assert build(tmp_path / "made", models, corpus_hash="0ff") and lists
    assert cache.open_cache(tmp_path / "made").manifest.corpus_hash == "0ff"


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


BUILD = """
    import pathlib, resource, sys, time
    from mmt.data import cache

    def stream(seconds, count):
        for index in range(count):
            yield [3] * 50, [4] * 50
            time.sleep(seconds)

    directory, source, target, seconds, count, limit = sys.argv[1:]
    examples = {("train", "deu_Latn"): lambda: stream(float(seconds), int(count))}
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    cache.build(
        pathlib.Path(directory), examples, name="toy", target="eng_Latn", corpus_hash="1",
        vocabularies={"source": pathlib.Path(source), "target": pathlib.Path(target)},
    )
"""  # fmt: skip


def start_build(directory, models, *, seconds, count, limit):
    files = (directory, models["source"], models["target"])
    command = [sys.executable, "-c", textwrap.dedent(BUILD), *files, seconds, count, limit]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_build_never_looks_complete_and_is_swept_up(tmp_path, models, every):
    """Killed wherever it touches a file, with and without an older cache; and three at once."""
    program = Path(__file__).resolve().parents[3] / "helpers/killed_builds.py"
    arguments = (tmp_path, models["source"], models["target"], every)
    done = subprocess.run(
        [sys.executable, program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    fresh, over = map(int, done.stdout.split())
    assert 20 < fresh < over


def test_a_full_disk_is_an_error_with_the_path_and_leaves_nothing(tmp_path, models):
    full = start_build(tmp_path / "made", models, seconds=0, count=20_000, limit=1_000_000)
    errors = full.communicate()[1]
    assert full.returncode == 1
    last = errors.strip().splitlines()[-1]
    assert last.startswith("OSError: cannot write") and "train/deu_Latn" in last, errors
    assert "File too large" in last
    assert os.listdir(tmp_path) == []


def test_an_unwritable_folder_is_an_error_with_the_path(tmp_path, models):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        build(tmp_path / "file" / "made", models)
