"""A build is complete or absent, also if it is killed or the disk is full."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mmt.data import cache
from tests.mmt.data.cache import build, made_up


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


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (([3, 700], [3]), r"train/deu_Latn, example 2: the source has the ids 3 \.\.\. 700.*699"),
        (
            ([3], [600]),
            r"the target has the ids 600 \.\.\. 600, the target vocabulary 0 \.\.\. 599",
        ),
        (([-1], [3]), "ids -1"),
        (([3], []), "example 2: the target has no tokens; `mmt data prepare` removes"),
        (([3], [], "news.tsv"), "train/deu_Latn, example 2: news.tsv: the target has no tokens"),
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
