"""SeqIO's cache of our tasks, as T5X reads it with USE_CACHED_TASKS and `mmt` converts it. SeqIO's
Beam job writes the same multiset of examples as the local builder.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("seqio")

import seqio
import tensorflow as tf

import tasks
from mmt.data import cache, corpora, vocabulary
from mmt.data.recipe import CacheConfig
from tasks import build, by_name
from tests.helpers.lions import PIECES, SIZES, ids, registered, write_corpus

MODULE = """
import tasks
from mmt.data import corpora
tasks.register(corpora.load({folder!r}), vocabularies={pieces})
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with registered(tmp_path_factory.mktemp("cached"), "bears") as registered_corpus:
        yield registered_corpus


def cached_examples(directory):
    """split -> language -> Counter of (inputs, targets) of a cache of ours, with EOS."""
    opened = cache.open_cache(directory)
    examples = {}
    for split, counts in opened.manifest.counts.items():
        for language, count in counts.items():
            records = opened.records(language, split)
            examples[split, language] = Counter(
                tuple((*records[i][key].tolist(), vocabulary.EOS) for key in ("inputs", "targets"))
                for i in range(count)
            )
    return examples


def by_seqio(task, split):
    """The same of what SeqIO reads."""
    dataset = task.get_dataset(None, split, use_cached=True, shuffle=False)
    return Counter(
        tuple(tuple(example[key].tolist()) for key in ("inputs", "targets"))
        for example in dataset.as_numpy_iterator()
    )


def write_seqio_cache(folder: Path, task: seqio.Task) -> None:
    """As SeqIO's job writes it, in another order."""
    directory = folder / task.name
    directory.mkdir(parents=True)
    for split in task.splits:
        dataset = task.preprocess_precache(task.source.get_dataset(split, shuffle=False))
        examples = list(dataset.as_numpy_iterator())[::-1]
        with tf.io.TFRecordWriter(f"{directory}/{split}.tfrecord-00000-of-00001") as file:
            for example in examples:
                file.write(seqio.dict_to_tfexample(example).SerializeToString())
        kinds = {"inputs": "int32", "targets": "int32"}
        features = {key: {"shape": [None], "dtype": kind} for key, kind in kinds.items()}
        info = {"num_shards": 1, "features": features, "seqio_version": seqio.__version__}
        (directory / f"info.{split}.json").write_text(json.dumps(info))
        (directory / f"stats.{split}.json").write_text(json.dumps({"examples": len(examples)}))
    (directory / "COMPLETED").write_text("")


def test_a_cache_is_built_from_seqios_cache(corpus, tmp_path):
    name, folder = "bears_jpn_Jpan_to_eng", str(tmp_path / "seqio")
    here = build.build_cache(by_name.find(name), tmp_path / "here")
    with pytest.raises(ValueError, match=f"no finished cache of the task {name!r}"):
        build.build_cache(by_name.find(name), tmp_path / "there", seqio_folder=folder)
    task = seqio.get_mixture_or_task(name)
    write_seqio_cache(tmp_path / "seqio", task)
    elsewhere = build.build_cache(by_name.find(name), tmp_path / "there", seqio_folder=folder)
    assert elsewhere.counts == here.counts and elsewhere.vocabulary_hash == here.vocabulary_hash
    examples = cached_examples(tmp_path / "here")
    assert cached_examples(tmp_path / "there") == examples
    assert by_seqio(task, "train") == examples["train", "jpn_Jpan"]


def test_a_seqio_cache_of_another_corpus_or_vocabulary_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    folder, name = write_corpus(tmp_path / "c", name="foxes"), "foxes_jpn_Jpan_to_eng"
    settings = {"mixture": name, "corpus": str(folder), "seqio_cache": str(tmp_path / "seqio")}
    tasks.register(corpora.load(folder), vocabularies=PIECES)
    write_seqio_cache(tmp_path / "seqio", seqio.get_mixture_or_task(name))
    with pytest.raises(ValueError, match="another corpus or vocabulary.* 20 train examples"):
        build.ensure_cache(CacheConfig(str(tmp_path / "cache"), vocab_size=PIECES + 40, **settings))
    with open(folder / "train" / "jpn_Jpan.tsv", "a", encoding="utf-8") as file:
        file.write("ヒョウ\tleopard\n")
    tasks.register(corpora.load(folder), vocabularies=vocab_files(tmp_path))
    with pytest.raises(ValueError, match="20 train examples, of 21"):
        build.build_cache(by_name.find(name), tmp_path / "cache",
                          seqio_folder=str(tmp_path / "seqio"))  # fmt: skip
    assert not (tmp_path / "cache").exists()


def vocab_files(folder):
    """The vocabulary that the SeqIO cache was made with."""
    (file,) = (folder / "data" / "vocabularies").glob(f"foxes-*-{PIECES}.model")
    return {"source": file, "target": file}


@pytest.mark.slow
def test_seqios_beam_job_writes_what_the_local_builder_writes(tmp_path, monkeypatch):
    """`seqio_cache_tasks` as a user types it; T5X then reads what `get_dataset` reads here."""
    pytest.importorskip("apache_beam", reason="needs the extra [beam]")
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    folder = write_corpus(tmp_path / "c", name="wolves")
    (tmp_path / "my_tasks.py").write_text(MODULE.format(folder=str(folder), pieces=PIECES))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    job = [
        sys.executable, "-m", "seqio.scripts.cache_tasks_main", "--module_import=my_tasks",
        "--tasks=wolves_.*", f"--output_cache_dir={tmp_path / 'seqio'}", "--min_shards=2",
        "--output_format=tfrecord", "--pipeline_options=--runner=DirectRunner",
    ]  # fmt: skip
    done = subprocess.run(
        job, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    settings = {"mixture": "wolves_to_eng", "corpus": str(folder), "vocab_size": PIECES}
    build.ensure_cache(CacheConfig(str(tmp_path / "here"), **settings))
    settings["seqio_cache"] = str(tmp_path / "seqio")
    build.ensure_cache(CacheConfig(str(tmp_path / "there"), **settings))
    here = cached_examples(tmp_path / "here")
    assert here == cached_examples(tmp_path / "there")
    assert {language for _, language in here} == set(SIZES)
    for task in seqio.get_mixture_or_task("wolves_to_eng").tasks:
        for split in task.splits:
            read = by_seqio(task, split)
            assert read == here[split, task.source.language]
            assert read == Counter((tuple(a), tuple(b)) for a, b in ids(task, split))
