"""SeqIO tasks of a corpus with rules of cleaning: the pairs that `mmt data prepare` would leave."""

import dirty
import pytest

pytest.importorskip("seqio")

import seqio

import tasks
from mmt.data import corpora, prepare, rulebook
from mmt.data.recipe import Recipe
from tasks import build

NAMES = ("deu_Latn", "kor_Hang")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A dirty corpus that asks for the default rules."""
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    dirty.make(tmp_path / "dirty", clean=110, languages=NAMES)
    with open(tmp_path / "dirty/corpus.toml", "a") as file:
        file.write("[clean]\ndefault = true\n")
    return corpora.load(tmp_path / "dirty")


def test_tasks_and_caches_hold_what_the_rules_leave(corpus, tmp_path):
    plain = tmp_path / "plain"
    dirty.make(plain, clean=110, languages=NAMES)
    report = prepare.prepare(
        corpora.load(plain), tmp_path / "clean", book=rulebook.DEFAULT, processes=1
    )
    clean = corpora.load(tmp_path / "clean")
    wanted = Recipe(
        directory=str(tmp_path / "cache"), mixture="dirty_to_eng", corpus=str(corpus.root),
        vocab_size=400,
    )  # fmt: skip
    manifest = build.ensure_cache(wanted)  # which an empty side of the raw text would refuse
    assert sum(manifest.counts["train"].values()) == report.kept
    for code in NAMES:
        source = seqio.get_mixture_or_task(f"dirty_{code}_to_eng").source
        for split in corpora.SPLITS:
            pairs = [(pair.source, pair.target) for pair in clean.pairs(code, split)]
            read = [
                (one["inputs"].decode(), one["targets"].decode())
                for one in source.get_dataset(split, shuffle=False).as_numpy_iterator()
            ]
            assert read == pairs and source.num_input_examples(split) == len(pairs)
    assert wanted.present()
    toml = corpus.root / "corpus.toml"
    toml.write_text(toml.read_text() + "numbers = false\n")
    with pytest.raises(ValueError, match="is stale: the corpus .* has changed"):
        wanted.present()
    assert tasks.register(corpora.load(corpus.root), vocabularies=400) == "dirty_to_eng"
    task = seqio.get_mixture_or_task("dirty_deu_Latn_to_eng")
    assert task.num_input_examples("train") == manifest.counts["train"]["deu_Latn"] + 3
