"""Monolingual text from a description to batches: SeqIO tasks, our cache, what is drawn."""

import itertools
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("seqio")

import seqio

import tasks
from mmt.data import cache, corpora, ledger, pipeline, stages
from mmt.data import vocabulary as vocab
from mmt.data.denoising import Denoising
from mmt.data.forecast import forecast
from mmt.data.mixing import Mixing
from mmt.data.recipe import CacheConfig
from tasks import build, by_name, monolingual

LENGTHS = {"inputs": 64, "targets": 64}
TEXT = {"deu": 300, "swh": 60, "eng": 200}


def write_corpus(folder: Path, *, pairs=True, name="zoo") -> Path:
    """Made-up sentences: pairs of two languages, text of three."""
    random = np.random.default_rng(0)
    words = {
        code: [f"{code[0]}{''.join(random.choice(list('aeioklmnst'), 5))}" for _ in range(40)]
        for code in TEXT
    }

    def sentence(code):
        return " ".join(random.choice(words[code], random.integers(1, 12)))

    folder.mkdir()
    lines = [f'name = "{name}"']
    for split, count in (("train", 150), ("validation", 10)) if pairs else ():
        lines.append(f"[{split}]")
        for code in ("deu", "swh"):
            rows = (f"{sentence(code)}\t{sentence('eng')}\n" for _ in range(count))
            (folder / f"{split}.{code}.tsv").write_text("".join(rows))
            lines.append(f'{code} = "{split}.{code}.tsv"')
    lines.append("[monolingual]")
    for code, count in TEXT.items():
        rows = (f"{number} {sentence(code)}\n" for number in range(count))
        (folder / f"{code}.txt").write_text("".join(rows))
        lines.append(f'{code} = {{ text = "{code}.txt", name = "news" }}')
    (folder / "corpus.toml").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The corpus, and the cache of its pairs and text."""
    root = tmp_path_factory.mktemp("monolingual")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the made-up texts hold few pieces
        patch.setenv("MMT_DATA", str(root / "data"))
        folder = write_corpus(root / "zoo")
        cache_config = CacheConfig(
            str(root / "cache"), "zoo_mixed", corpus=str(folder), vocab_size=800
        )
        build.ensure_cache(cache_config)
        yield corpora.load(folder), cache.open_cache(root / "cache")


def filled(source, target, vocabulary):
    """Returns the text of an example: its source with the noise spans filled in from the target."""
    for sentinel in vocabulary.sentinels:
        if sentinel in source:
            start = target.index(sentinel) + 1
            gap = itertools.takewhile(lambda t: t not in vocabulary.sentinels, target[start:])
            source = [*itertools.chain(*([t] if t != sentinel else gap for t in source))]
    return vocabulary.decode(source)


def examples(batches, number, code):
    """Returns (source, target) of a language's examples in the first `number` batches, no EOS."""
    language = batches.manifest.languages.index(code)
    texts = []
    for batch in itertools.islice(batches, number):
        for row in range(len(batch["encoder_segment_ids"])):
            for segment in range(1, batch["decoder_segment_ids"][row].max() + 1):
                in_segment = batch["decoder_segment_ids"][row] == segment
                if (batch["decoder_language_ids"][row][in_segment] == language).all():
                    source = batch["encoder_segment_ids"][row] == segment
                    sides = (batch["encoder_input_tokens"][row][source],
                             batch["decoder_target_tokens"][row][in_segment])  # fmt: skip
                    texts.append(tuple(side.tolist()[:-1] for side in sides))
    return texts


def test_the_cache_contains_the_unchanged_text(made):
    corpus, opened = made
    vocabulary = vocab.Vocabulary.load(opened.vocabulary_files()["target"])
    assert len(vocabulary.sentinels) == vocab.SENTINELS
    counts = opened.manifest.counts["train"]
    assert opened.manifest.translated == ("deu_Latn", "swh_Latn")
    for code in corpus.monolingual:
        key = f"{code}.monolingual"
        assert counts[key] == corpus.count(code, "monolingual") == TEXT[code[:3]]
        read = [opened.records(key, "train")[i] for i in range(counts[key])]
        texts = [pair.target for pair in corpus.pairs(code, "monolingual")]
        assert [vocabulary.decode(record["targets"].tolist()) for record in read] == texts
        assert not any(len(record["inputs"]) for record in read)
        assert opened.manifest.corpora["train"][key] == [["news", counts[key]]]


@pytest.mark.parametrize("packing", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_drawn_text_has_noise_spans_that_differ_in_each_epoch(made, packing):
    corpus, opened = made
    vocabulary = vocab.Vocabulary.load(opened.vocabulary_files()["target"])
    texts = {pair.target for pair in corpus.pairs("swh", "monolingual")}

    def drawn():
        batches = pipeline.train_batches(
            opened, feature_lengths=LENGTHS, batch_size=8, packing=packing, virtual_shards=1,
            mixing=Mixing(languages=["swh"], monolingual=1.0),
        )  # fmt: skip
        return examples(batches, 12 if packing else 40, "swh_Latn.monolingual")

    epochs = drawn()
    assert len(epochs) > 2 * len(texts)
    assert {filled(*sides, vocabulary) for sides in epochs} == texts
    first, second = epochs[:60], epochs[60:120]
    assert Counter(map(repr, first)) != Counter(map(repr, second))
    assert drawn() == epochs


def test_the_monolingual_fraction_is_kept_and_logged(made, tmp_path):
    _, opened = made
    for part, expected in ((None, 0.5), (0.2, 0.2)):
        batches = pipeline.train_batches(
            opened, feature_lengths=LENGTHS, batch_size=8, mixing=Mixing(monolingual=part)
        )
        foreseen = {row["language"]: row for row in forecast.forecast(batches, 100).rows}
        text = [row["share"] for code, row in foreseen.items() if code.endswith(".monolingual")]
        assert sum(text) == pytest.approx(expected)
        seen = 0
        for batch in itertools.islice(batches, 12):
            seen += int(batch["decoder_loss_weights"].sum())
        state = batches.get_state()
        counted = batches.ledger().count(None, state, 0, 1)
        batches.ledger().write(tmp_path, None, state, [counted], 12)
        rows = {row["language"]: row for row in ledger.load(tmp_path)["rows"]}
        assert sum(row["target_tokens"] for row in rows.values()) == seen
        number = sum(row["examples"] for row in rows.values())
        drawn_text = sum(row["examples"] for code, row in rows.items() if "monolingual" in code)
        assert drawn_text / number == pytest.approx(expected, abs=0.03)


def test_the_state_resumes_bit_for_bit_and_not_with_other_noise(made):
    _, opened = made

    def start(**how):
        return pipeline.train_batches(
            opened, feature_lengths=LENGTHS, batch_size=8, denoising=Denoising(**how)
        )

    whole = start()
    first = [next(whole) for _ in range(6)]
    again = start()
    for _ in range(3):
        next(again)
    state = again.get_state()
    moved = start()
    moved.set_state(state)
    for batch in first[3:]:
        other = next(moved)
        assert all(np.array_equal(batch[key], other[key]) for key in batch)
    with pytest.raises(ValueError, match=r"state has denoising\.density 0\.15, this run has 0\.3"):
        start(density=0.3).set_state(state)


def test_stages_show_the_text_first_and_then_the_pairs(made):
    _, opened = made
    first = stages.Stage({"examples": 40}, Mixing(monolingual=1.0))
    batches = pipeline.train_batches(
        opened, feature_lengths=LENGTHS, batch_size=4, stages=[first, stages.Stage()],
        mixing=Mixing(monolingual=0.0), packing=False,
    )  # fmt: skip
    names = np.array(opened.manifest.languages)
    seen = [names[batch["decoder_language_ids"][:, 0]] for batch in itertools.islice(batches, 20)]
    text = [name.endswith(".monolingual") for batch in seen for name in batch]
    assert text == [True] * 40 + [False] * 40


def test_prefix_language_models_have_no_noise_spans(made):
    corpus, opened = made
    vocabulary = vocab.Vocabulary.load(opened.vocabulary_files()["target"])
    batches = pipeline.train_batches(
        opened, feature_lengths=LENGTHS, batch_size=8, mixing=Mixing(monolingual=1.0),
        denoising=Denoising(prefix_lm=1.0),
    )  # fmt: skip
    texts = {pair.target for pair in corpus.pairs("eng", "monolingual")}
    parts = examples(batches, 6, "eng_Latn.monolingual")
    assert parts and {vocabulary.decode(prefix + target) for prefix, target in parts} <= texts


def test_seqio_has_the_same_text_with_noise_spans(made):
    corpus, opened = made
    vocabulary = vocab.Vocabulary.load(opened.vocabulary_files()["target"])
    task = seqio.get_mixture_or_task("zoo_deu_Latn_monolingual")
    seen = []
    for seed in (0, 0, 1):
        dataset = task.get_dataset(LENGTHS, "train", shuffle=False, seed=seed)
        seen.append([
            tuple(example[key].tolist()[:-1] for key in ("inputs", "targets"))
            for example in itertools.islice(dataset.as_numpy_iterator(), 50)
        ])  # fmt: skip
    texts = [pair.target for pair in corpus.pairs("deu", "monolingual")]
    assert [filled(*sides, vocabulary) for sides in seen[0]] == texts[:50]
    assert seen[0] == seen[1] != seen[2]
    mixture = seqio.get_mixture_or_task("zoo_mixed")
    rates = {task.name: mixture.get_rate(task) for task in mixture.tasks}
    assert sum(rates.values()) == pytest.approx(1)
    text = sum(rate for name, rate in rates.items() if name.endswith("_monolingual"))
    assert text == pytest.approx(0.5) and len(rates) == 5


def test_monolingual_text_alone_is_a_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    folder = write_corpus(tmp_path / "text", pairs=False, name="text")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache_config = CacheConfig(
            str(tmp_path / "c"), "text_monolingual", corpus=str(folder), vocab_size=800
        )
        build.ensure_cache(cache_config)
    batches = pipeline.train_batches(tmp_path / "c", feature_lengths=LENGTHS, batch_size=8)
    assert len(batches.order.split.counts) == 3 and next(batches)
    assert tasks.vocabulary(corpora.load(folder), size=800)["source"].exists()
    with pytest.raises(ValueError, match="nearest: text_monolingual"):
        by_name.find("text_monolingal")


def test_a_synthetic_source_has_a_tag_that_is_one_piece(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    (tmp_path / "deu.tsv").write_text("Löwe\tlion\nAffe\tape\n")
    (tmp_path / "bt.tsv").write_text("1\tTigger\ttiger\n3\tein Bär\ta bear\n")
    (tmp_path / "corpus.toml").write_text(
        'name = "made"\n[train]\ndeu = ["deu.tsv", { pairs = "bt.tsv", columns = [2, 3], '
        'name = "back_translated", back_translated = true }]\n'
    )
    opened = _cached(tmp_path, "made_to_eng")
    vocabulary = vocab.Vocabulary.load(opened.vocabulary_files()["source"])
    records = opened.records("deu_Latn", "train")
    sources = [records[i]["inputs"].tolist() for i in range(len(records))]
    tags = [vocabulary.id("<2eng>"), vocabulary.id("<bt>")]
    assert [tags[1] in ids for ids in sources] == [False, False, True, True]
    texts = ["Löwe", "Affe", "<bt> Tigger", "<bt> ein Bär"]
    assert [vocabulary.decode(ids) for ids in sources] == [f"<2eng> {text}" for text in texts]
    assert opened.manifest.corpora["train"]["deu_Latn"] == [["deu.tsv", 2], ["back_translated", 2]]
    # a model of the other direction does not learn what another made
    assert _cached(tmp_path, "made_from_eng").manifest.counts == {"train": {"deu_Latn": 2}}


def _cached(root, mixture):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache_config = CacheConfig(str(root / mixture), mixture, str(root), vocab_size=400)
        build.ensure_cache(cache_config)
    assert cache_config.present()
    return cache.open_cache(root / mixture)


def test_the_other_way_each_language_has_its_tag(made):
    corpus, opened = made
    cache_config = CacheConfig(
        str(corpus.root.parent / "r"), "zoo_from_eng", str(corpus.root), vocab_size=900
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build.ensure_cache(cache_config)
    assert cache_config.present()
    reverse = cache.open_cache(corpus.root.parent / "r")
    manifest = reverse.manifest
    assert (manifest.source, manifest.target) == ("eng_Latn", "")
    for split, counts in opened.manifest.counts.items():
        assert manifest.counts[split] == {code: counts[code] for code in ("deu_Latn", "swh_Latn")}
    vocabulary = vocab.Vocabulary.load(reverse.vocabulary_files()["source"])
    assert set(vocabulary.tags.values()) == {"deu_Latn", "swh_Latn"}
    for code in manifest.languages:
        records = reverse.records(code, "train")
        for i, pair in enumerate(itertools.islice(corpus.pairs(code, "train"), 20)):
            ids = records[i]["inputs"].tolist()
            assert ids[0] == vocabulary.id(f"<2{code}>")
            assert vocabulary.decode(ids) == f"<2{code}> {pair.target}"
            assert vocabulary.decode(records[i]["targets"].tolist()) == pair.source


@pytest.mark.parametrize(
    ("task", "component", "source"),
    [
        ("deu_Latn_to_eng", "deu_Latn", ""),
        ("eng_to_deu_Latn", "deu_Latn", "eng_Latn"),
        ("eng_Latn_monolingual", "eng_Latn.monolingual", ""),
    ],
)
def test_the_cache_of_one_task_has_its_language(tmp_path, monkeypatch, task, component, source):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    folder = write_corpus(tmp_path / "one", name=f"one{task[0]}")
    cache_config = CacheConfig(str(tmp_path / "c"), f"one{task[0]}_{task}", str(folder), "", 400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manifest = build.ensure_cache(cache_config)
    assert cache_config.present()
    assert (manifest.languages, manifest.source) == ((component,), source)


def test_faulty_settings_are_named(made, tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path))
    corpus, opened = made
    with pytest.raises(ValueError, match=r"Mixing\.monolingual = 1\.5; allowed: 0 to 1"):
        Mixing(monolingual=1.5)
    plain = tmp_path / "bare"
    plain.mkdir()
    (plain / "deu.tsv").write_text("Hallo\tHello\n" * 20)
    (plain / "corpus.toml").write_text('[train]\ndeu = "deu.tsv"\n')
    with pytest.raises(ValueError, match=r"corpus 'bare' has no monolingual text; add"):
        monolingual.register(corpora.load(plain))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build.ensure_cache(
            CacheConfig(str(tmp_path / "p"), "bare_to_eng", str(plain), vocab_size=400)
        )
    train = {"feature_lengths": LENGTHS, "batch_size": 8}
    with pytest.raises(ValueError, match=r"monolingual is 0\.5, but the data has no monolingual"):
        pipeline.train_batches(tmp_path / "p", mixing=Mixing(monolingual=0.5), **train)
    # a vocabulary that was made for pairs
    cache_config = CacheConfig(str(tmp_path / "c"), "zoo_mixed", str(corpus.root), vocab_size=0,
                    vocabulary_from=str(tmp_path / "p"))  # fmt: skip
    build.ensure_cache(cache_config)
    with pytest.raises(ValueError, match=r"has no sentinels \(<extra_id_0>, …\).*VOCABULARY_FROM"):
        pipeline.train_batches(tmp_path / "c", **train)
    next(pipeline.train_batches(tmp_path / "c", mixing=Mixing(monolingual=0.0), **train))
