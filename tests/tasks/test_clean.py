"""SeqIO tasks of a corpus with rules of cleaning: the pairs that `mmt data prepare` would leave."""

import pytest

from tests.helpers import dirty

pytest.importorskip("seqio")

import seqio

import tasks
from mmt.data import corpora
from mmt.data.cleaning import prepare, rulebook
from mmt.data.recipe import CacheConfig
from tasks import build

NAMES = ("deu_Latn", "kor_Hang")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A dirty corpus that asks for the default rules; its name is new to SeqIO's registry."""
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    dirty.make(tmp_path / "dirty", clean=110, codes=NAMES)
    toml = tmp_path / "dirty/corpus.toml"
    text = toml.read_text().replace('"dirty"', f'"{tmp_path.name}"')
    toml.write_text(f"{text}[clean]\ndefault = true\n")
    return corpora.load(tmp_path / "dirty")


def test_tasks_contain_the_cleaned_pairs(corpus, tmp_path):
    plain = tmp_path / "plain"
    dirty.make(plain, clean=110, codes=NAMES)
    prepare.prepare(corpora.load(plain), tmp_path / "clean", book=rulebook.DEFAULT, processes=1)
    clean = corpora.load(tmp_path / "clean")
    assert tasks.register(corpus, vocabularies=400).name == f"{corpus.name}_to_eng"
    for code in NAMES:
        source = seqio.get_mixture_or_task(f"{corpus.name}_{code}_to_eng").source
        for split in corpora.SPLITS:
            pairs = [(pair.source, pair.target) for pair in clean.pairs(code, split)]
            read = [
                (example["inputs"].decode(), example["targets"].decode())
                for example in source.get_dataset(split, shuffle=False).as_numpy_iterator()
            ]
            assert read == pairs and source.num_input_examples(split) == len(pairs)
    before = len(list(clean.pairs("deu", "train")))
    toml = corpus.root / "corpus.toml"
    toml.write_text(toml.read_text() + "numbers = false\n")
    tasks.register(corpora.load(corpus.root), vocabularies=400)
    task = seqio.get_mixture_or_task(f"{corpus.name}_deu_Latn_to_eng")
    assert task.num_input_examples("train") == before + 3


@pytest.mark.slow
def test_a_cache_depends_on_the_cleaning_rules(corpus, tmp_path):
    cache_config = CacheConfig(
        directory=str(tmp_path / "cache"), mixture=f"{corpus.name}_to_eng", corpus=str(corpus.root),
        vocab_size=400,
    )  # fmt: skip
    manifest = build.ensure_cache(cache_config)  # which an empty side of the raw text would refuse
    clean = prepare.cleaned(corpus)
    assert manifest.counts["train"] == {code: clean.count(code, "train") for code in NAMES}
    assert cache_config.present()
    toml = corpus.root / "corpus.toml"
    toml.write_text(toml.read_text() + "numbers = false\n")
    with pytest.raises(ValueError, match="is stale: the corpus .* has changed"):
        cache_config.present()
