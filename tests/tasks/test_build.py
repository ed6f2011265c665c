"""The cache built from SeqIO tasks: equal to the tasks with any number of processes, or nothing."""

import numpy as np
import pytest

pytest.importorskip("seqio")

import seqio

import tasks
from mmt.data import cache, corpora, vocabulary
from mmt.data.recipe import CacheConfig
from mmt.run import MANIFEST
from tasks import build, by_name
from tests.helpers.lions import PIECES, SIZES, ids, registered, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with registered(tmp_path_factory.mktemp("build"), "tigers") as registered_corpus:
        yield registered_corpus


def test_cache_holds_what_the_tasks_give(corpus, tmp_path):
    manifest = build.build_cache(by_name.find("tigers_to_eng"), tmp_path / "cache")
    opened = cache.open_cache(tmp_path / "cache")
    assert manifest.languages == tuple(sorted(SIZES))
    assert (manifest.name, manifest.target) == ("tigers_to_eng", "eng_Latn")
    assert manifest.corpus_hash == corpus.hash()
    for task in seqio.get_mixture_or_task("tigers_to_eng").tasks:
        for split in task.splits:
            records = opened.records(task.source.language, split)
            cached = [(records[i]["inputs"].tolist(), records[i]["targets"].tolist())
                      for i in range(len(records))]  # fmt: skip
            given = ids(task, split)
            assert [(a + [vocabulary.EOS], b + [vocabulary.EOS]) for a, b in cached] == given
            assert manifest.counts[split][task.source.language] == len(given)
            runs = manifest.corpora[split][task.source.language]
            assert sum(count for _, count in runs) == len(given)


def files(folder):
    return {path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


def test_the_same_bytes_whatever_the_number_of_processes(corpus, tmp_path):
    for processes in (1, 2):
        build.build_cache(
            by_name.find("tigers_to_eng"), tmp_path / str(processes), processes=processes
        )
    assert len(files(tmp_path / "1")) > 10
    assert files(tmp_path / "1") == files(tmp_path / "2")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_fault_is_named_with_file_and_line(tmp_path, monkeypatch, processes):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    folder = write_corpus(tmp_path / "c", name=f"faulty{processes}")
    loaded = corpora.load(folder)
    tasks.register(loaded, vocabularies=tasks.vocabulary(loaded, size=PIECES))
    with open(folder / "train" / "deu_Latn.tsv", "a", encoding="utf-8") as file:
        file.write("no tab\n")
    with pytest.raises(ValueError, match=r"deu_Latn\.tsv:601: "):
        build.build_cache(
            by_name.find(f"faulty{processes}_to_eng"), tmp_path / "cache", processes=processes
        )
    assert not list(tmp_path.glob("*cache*"))


def test_tasks_of_another_kind_are_cached_by_their_own_preprocessors(corpus, tmp_path):
    ours = seqio.get_mixture_or_task("tigers_swh_Latn_to_eng")
    tag, *_ = ours.preprocessors
    known = {"source": ours.source, "output_features": ours.output_features}
    eos = [tag, seqio.preprocessors.tokenize_and_append_eos]
    seqio.TaskRegistry.add("own_one", preprocessors=eos, **known)
    eos = [*eos, seqio.CacheDatasetPlaceholder()]
    seqio.TaskRegistry.add("own_two", preprocessors=eos, **known)
    apart = seqio.FunctionDataSource(
        lambda split, shuffle_files, seed=None: ours.source.get_dataset(split, shuffle=False),
        splits=["train"],
        num_input_examples={"train": SIZES["swh_Latn"]},
    )
    known["source"] = apart
    seqio.TaskRegistry.add("own_swh_Latn_to_eng", preprocessors=eos, **known)
    seqio.TaskRegistry.add("own_nameless", preprocessors=eos, **known)
    with pytest.raises(ValueError, match="own_one.*CacheDatasetPlaceholder"):
        build.build_cache(by_name.find("own_one"), tmp_path / "one")
    with pytest.raises(ValueError, match="own_nameless.*mycorpus_deu_Latn_to_eng"):
        build.build_cache(by_name.find("own_nameless"), tmp_path / "one")
    assert not (tmp_path / "one").exists()
    build.build_cache(by_name.find("tigers_swh_Latn_to_eng"), tmp_path / "ours")
    expected = cache.open_cache(tmp_path / "ours").records("swh_Latn", "train")
    for name in ("own_two", "own_swh_Latn_to_eng"):
        build.build_cache(by_name.find(name), tmp_path / name)
        read = cache.open_cache(tmp_path / name).records("swh_Latn", "train")
        assert len(read) == len(expected)
        for i in range(len(read)):
            for key in ("inputs", "targets"):
                assert np.array_equal(read[i][key], expected[i][key])


def test_ensure_cache_builds_once_and_notices_a_changed_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    folder = write_corpus(tmp_path / "c", name="ensured")
    settings = {"mixture": "ensured_to_eng", "corpus": str(folder), "vocab_size": PIECES}
    first = build.ensure_cache(CacheConfig(str(tmp_path / "cache"), **settings))
    assert first.corpus_hash == corpora.load(folder).hash()
    path = build.vocabulary(CacheConfig("", **settings), "targets")
    assert path.vocab_size == first.vocabulary_size["target"]
    stamp = (tmp_path / "cache" / MANIFEST).stat().st_mtime_ns
    assert build.ensure_cache(CacheConfig(str(tmp_path / "cache"), **settings)) == first
    assert (tmp_path / "cache" / MANIFEST).stat().st_mtime_ns == stamp
    with pytest.raises(ValueError, match="vocabulary"):
        other = {**settings, "vocab_size": PIECES + 20}
        build.ensure_cache(CacheConfig(str(tmp_path / "cache"), **other))
    with open(folder / "train" / "deu_Latn.tsv", "a", encoding="utf-8") as file:
        file.write("mehr\tmore\n")
    with pytest.raises(ValueError, match="corpus"):
        build.ensure_cache(CacheConfig(str(tmp_path / "cache"), **settings))


def test_ensure_cache_names_faults_and_writes_nothing(corpus, tmp_path, monkeypatch):
    data = tmp_path / "data"
    monkeypatch.setenv("MMT_DATA", str(data))
    folder = write_corpus(tmp_path / "c", name="broken")
    with open(folder / "test" / "swh_Latn.tsv", "a", encoding="utf-8") as file:
        file.write("one column\n")
    at = tmp_path / "cache"
    with pytest.raises(ValueError, match=r"swh_Latn\.tsv:\d+"):
        build.ensure_cache(
            CacheConfig(str(at), "broken_to_eng", corpus=str(folder), vocab_size=PIECES)
        )
    with pytest.raises(ValueError, match="'tiger_to_eng'.*nearest: tigers_to_eng"):
        build.ensure_cache(CacheConfig(str(at), mixture="tiger_to_eng"))
    with pytest.raises(ValueError, match="no Python module 'no_such_lab.tasks'"):
        build.ensure_cache(
            CacheConfig(str(at), mixture="tigers_to_eng", module="no_such_lab.tasks")
        )
    with pytest.raises(ValueError, match="leave both unset"):
        build.ensure_cache(
            CacheConfig(str(at), "tigers_to_eng", module="tasks.cldr", vocab_size=500)
        )
    at.mkdir()
    (at / "thesis.txt").write_text("my only copy")
    with pytest.raises(ValueError, match="no cache"):
        build.ensure_cache(CacheConfig(str(at), mixture="tigers_to_eng"))
    assert not data.exists() and [file.name for file in at.iterdir()] == ["thesis.txt"]
