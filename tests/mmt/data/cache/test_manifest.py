"""A manifest round-trips, is read from an older version, or is an error that names the file."""

import dataclasses
import json

import pytest

from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.cache.origins import CorpusOrigin
from mmt.run import MANIFEST, Run

WHOLE = Manifest(
    name="toy", target="eng_Latn", languages=("deu_Latn", "swh_Latn"),
    counts={"train": {"deu_Latn": 3, "swh_Latn": 1}}, corpus_hash="c0ffee",
    vocabulary_hash={"source": "a", "target": "b"}, vocabulary_size={"source": 9, "target": 8},
    corpora={"train": {"deu_Latn": [["bible", 2], ["news", 1]], "swh_Latn": [["bible", 1]]}},
    origins=[
        CorpusOrigin("deu_Latn", "bible", {"b.tsv": "0a"}, read=4, kept=2, dropped={"empty": 2}),
        CorpusOrigin("swh_Latn", "bible"),
    ],
)  # fmt: skip


@pytest.fixture
def file(tmp_path):
    WHOLE.write(tmp_path)
    return tmp_path / MANIFEST


def test_a_manifest_round_trips(file):
    assert read_manifest(file) == WHOLE
    german = WHOLE.only(["deu_Latn"])
    assert german.languages == ("deu_Latn",) and german.counts == {"train": {"deu_Latn": 3}}
    assert german.corpora == {"train": {"deu_Latn": [["bible", 2], ["news", 1]]}}
    assert german.origins == WHOLE.origins[:1]


def test_each_example_has_a_corpus():
    names = ("deu_Latn", "bible"), ("deu_Latn", "news"), ("swh_Latn", "bible")
    assert WHOLE.corpus_table == names
    assert WHOLE.corpus_ids("deu_Latn").tolist() == [0, 0, 1]
    assert WHOLE.corpus_ids("swh_Latn").tolist() == [2]
    partly = {"train": {"deu_Latn": [["bible", 3]]}}  # as in a cache that names some of them
    assert dataclasses.replace(WHOLE, corpora=partly).corpus_table == ()


def test_without_a_corpus_its_examples_are_not_counted():
    left = WHOLE.without(["bible"])
    assert left.counts == {"train": {"deu_Latn": 1, "swh_Latn": 0}}
    assert left.languages == WHOLE.languages and left.corpus_table == (("deu_Latn", "news"),)
    assert not left.origins and WHOLE.without([]) is WHOLE
    with pytest.raises(ValueError, match="no corpus 'bibel' .*nearest: bible"):
        WHOLE.without(["bibel"])


def test_an_older_manifest_has_the_default_ids(file):
    old = {name: value for name, value in json.loads(file.read_text()).items()
           if name not in ("pad", "eos", "start", "corpora", "source", "origins")}  # fmt: skip
    file.write_text(json.dumps(old))
    manifest = read_manifest(file)
    assert (manifest.pad, manifest.eos, manifest.start, manifest.corpora) == (0, 1, 0, {})
    assert manifest.corpus_table == () and manifest.origins == []


def test_ids_are_those_of_the_model(tmp_path):
    WHOLE.check_ids(pad=0, eos=1, start=0)
    with pytest.raises(ValueError, match="cache has the start id 0, the model 4 .*VOCABULARY_FROM"):
        WHOLE.check_ids(pad=0, eos=1, start=4)


def test_languages_are_those_of_the_model_in_the_same_order(file):
    WHOLE.check_languages_of(Run(file.parent))
    for languages, words in [
        (("deu_Latn", "fra_Latn"), "only the cache has fra_Latn .1., only the model swh_Latn .1."),
        (("swh_Latn", "deu_Latn"), "has none .0., only the model none .0."),
    ]:
        with pytest.raises(ValueError, match=f"routes by language, .*{words}"):
            dataclasses.replace(WHOLE, languages=languages).check_languages_of(Run(file.parent))


def test_sides_may_share_a_vocabulary():
    assert len(set(WHOLE.model_files.values())) == 2
    shared = Manifest(**{**vars(WHOLE), "vocabulary_hash": {"source": "a", "target": "a"}})
    assert len(set(shared.model_files.values())) == 1


def test_a_broken_manifest_is_named(file):
    content = file.read_text()

    def check(text, message):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ValueError, match=rf"{MANIFEST}:?.*{message}"):
            read_manifest(file)

    check(json.dumps(json.loads(content) | {"version": 99}), "the cache has version 99, .* reads 1")
    (file.parent / "config.gin").touch()  # of a run
    check(file.read_text(), "the model's manifest has version 99, .*; copy that of")
    check(content[:-9], r":\d+: broken JSON")
    check(json.dumps({"version": 1, "name": "toy"}), "missing or unknown: corpus_hash, counts")
    check(json.dumps(json.loads(content) | {"colour": 1}), "missing or unknown: colour")
    for key, value in (("languages", 5), ("counts", {"train": 3}), ("pad", "0"), ("corpora", [1])):
        check(json.dumps(json.loads(content) | {key: value}), f"{key} is .*, an invalid value")
    origin = {"language": "deu_Latn", "corpus": "bible"}
    for changes, message in (
        ({"colour": 1}, "origins: missing or unknown: colour"),
        ({"dropped": {"empty": "2"}}, "deu_Latn bible: dropped is .*, an invalid value"),
    ):
        check(json.dumps(json.loads(content) | {"origins": [origin | changes]}), message)
    for broken in (b"[" * 100_000, b"\xff{}"):
        check(broken, "broken JSON")


def test_a_run_resumes_only_with_its_own_corpus(file):
    before, run = read_manifest(file), Run(file.parent)
    other = dataclasses.replace(before, corpus_hash="other")
    other.check_continues(run)  # nothing is trained yet
    (file.parent / "checkpoints/3").mkdir(parents=True)
    before.check_continues(run)
    for changes, words in (
        ({"corpus_hash": "other"}, "corpus_hash than"),
        ({"vocabulary_hash": {"source": "x", "target": "x"}, "corpus_hash": "other"},
         "corpus_hash and vocabulary_hash than"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"of another {words} the cache; it is not changed"):
            dataclasses.replace(before, **changes).check_continues(run)


def test_a_run_that_takes_embeddings_has_the_vocabulary_of_its_parent(file):
    manifest, parent = read_manifest(file), Run(file.parent)
    manifest.check_vocabulary_of(parent)
    other = dataclasses.replace(manifest, vocabulary_hash={"source": "x", "target": "x"})
    with pytest.raises(ValueError, match=r"another source vocabulary .* VOCABULARY_FROM=.* use"):
        other.check_vocabulary_of(parent)
    other.check_vocabulary_of(Run(file.parent / "none"))
