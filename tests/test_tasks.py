"""SeqIO tasks of a corpus, and the cache made of them.

The oracle of ids is `mmt.data.vocab`, which tokenises without TensorFlow; that of packing a reader
of the rows written here.
"""

import copy
import math
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("seqio")

import seqio

import tasks
from mmt.data import cache, corpora, vocab
from mmt.data.recipe import Recipe
from tasks import build, sources

SIZES = {"deu_Latn": 600, "swh_Latn": 75, "jpn_Jpan": 20}
WORDS = {
    "deu_Latn": ["der", "Löwe", "trinkt", "kühles", "Wasser", "am", "Ufer"],
    "swh_Latn": ["simba", "anakunywa", "maji", "baridi", "mtoni", "leo"],
    "jpn_Jpan": ["ライオン", "が", "川", "で", "冷たい", "水を飲む"],
    "eng_Latn": ["the", "lion", "drinks", "cold", "water", "by", "the", "river"],
}
PIECES = 400


def write_corpus(folder: Path, name: str = "lions", scale: int = 1) -> Path:
    """A corpus of made-up sentences; Japanese has no validation and test pairs."""
    lines = [f'name = "{name}"']
    random = np.random.default_rng(0)
    for split, part in (("train", 1), ("validation", 10), ("test", 12)):
        lines.append(f"[{split}]")
        for code, size in SIZES.items():
            if split != "train" and code == "jpn_Jpan":
                continue
            (folder / split).mkdir(parents=True, exist_ok=True)
            with open(folder / split / f"{code}.tsv", "w", encoding="utf-8") as file:
                for number in range(scale * max(size // part, 2)):
                    sides = [
                        " ".join(random.choice(WORDS[side], random.integers(1, 7)))
                        for side in (code, "eng_Latn")
                    ]
                    file.write(f"{number}. {sides[0]}\t{number}. {sides[1]}\n")
            lines.append(f'{code} = "{split}/{code}.tsv"')
    (folder / "corpus.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMT_DATA", str(root / "data"))
        loaded = corpora.load(write_corpus(root / "lions"))
        tasks.register(loaded, vocabularies=PIECES)
        yield loaded


@pytest.fixture(scope="module")
def model(corpus):
    return vocab.Vocabulary.load(tasks.vocabulary(corpus, size=PIECES)["source"])


def ids(task, split="train", lengths=None):
    dataset = task.get_dataset(lengths, split, shuffle=False)
    examples = dataset.as_numpy_iterator()
    return [(example["inputs"].tolist(), example["targets"].tolist()) for example in examples]


def test_names_splits_and_sizes(corpus):
    mixture = seqio.get_mixture_or_task("lions_to_eng")
    names = [f"lions_{code}_to_eng" for code in sorted(SIZES)]
    assert [task.name for task in mixture.tasks] == names
    for code, size in SIZES.items():
        task = seqio.get_mixture_or_task(f"lions_{code}_to_eng")
        assert task.num_input_examples("train") == size
        wanted = ("train",) if code == "jpn_Jpan" else corpora.SPLITS
        assert tuple(task.splits) == wanted


@pytest.mark.parametrize("code", SIZES)
def test_source_gives_the_text_of_the_corpus(corpus, code):
    task = seqio.get_mixture_or_task(f"lions_{code}_to_eng")
    for split in task.splits:
        read = [
            (example["inputs"].decode(), example["targets"].decode())
            for example in task.source.get_dataset(split, shuffle=False).as_numpy_iterator()
        ]
        assert read == [(pair.source, pair.target) for pair in corpus.pairs(code, split)]
        mixed = task.source.get_dataset(split, shuffle=True, seed=3).as_numpy_iterator()
        assert Counter(example["inputs"].decode() for example in mixed) == Counter(
            source for source, _ in read
        )


@pytest.mark.parametrize("code", SIZES)
def test_examples_are_tag_tokens_and_eos_as_our_vocabulary_has_them(corpus, model, code):
    pairs = corpus.pairs(code, "train")
    wanted = [
        tuple([*model.encode(text), vocab.EOS] for text in (f"<2eng> {pair.source}", pair.target))
        for pair in pairs
    ]
    read = ids(seqio.get_mixture_or_task(f"lions_{code}_to_eng"))
    assert read == wanted
    assert all(inputs[0] == model.id("<2eng>") for inputs, _ in read)


def test_vocabulary_has_the_same_ids_and_size_as_ours_on_any_text(corpus, model):
    task = seqio.get_mixture_or_task("lions_deu_Latn_to_eng")
    theirs = task.output_features["inputs"].vocabulary
    odd = ["", " ", "  zwei  Leerzeichen ", "𒀀 unseen", "ｆｕｌｌ ﬁ Å Å", "<2eng> a<2eng>b", "a\tb"]
    for text in odd:
        assert theirs.encode(text) == model.encode(text)
        assert theirs.encode_tf(text).numpy().tolist() == model.encode(text)
    assert theirs.vocab_size == model.size
    assert (theirs.pad_id, theirs.eos_id, theirs.unk_id) == (vocab.PAD, vocab.EOS, vocab.UNK)


def test_rates_are_the_fifth_root_of_the_counts_or_capped(tmp_path):
    rated = corpora.load(write_corpus(tmp_path, name="rated"))

    def shares(**settings):
        mixture = seqio.get_mixture_or_task(tasks.register(rated, **settings))
        rates = {task.source.language: mixture.get_rate(task) for task in mixture.tasks}
        return {code: rate / sum(rates.values()) for code, rate in rates.items()}

    roots = {code: size**0.2 for code, size in SIZES.items()}
    assert shares() == pytest.approx({c: r / sum(roots.values()) for c, r in roots.items()})
    proportional = {code: size / sum(SIZES.values()) for code, size in SIZES.items()}
    assert shares(temperature=1.0) == pytest.approx(proportional)
    capped = shares(max_epochs=2.0, examples=400)
    assert capped["jpn_Jpan"] == pytest.approx(2 * 20 / 400)  # 20^(1/5) alone would be 0.22


def test_plain_seqio_mixes_at_the_rates(corpus, model):
    mixture = seqio.get_mixture_or_task("lions_to_eng")
    dataset = mixture.get_dataset({"inputs": 64, "targets": 64}, "train", seed=1)
    drawn = Counter()
    for example in dataset.take(3000).as_numpy_iterator():
        text = model.decode(example["inputs"].tolist())
        known = [code for code in SIZES if any(word in text for word in WORDS[code])]
        drawn.update(known[:1])
    rates = {code: size**0.2 for code, size in SIZES.items()}
    for code, rate in rates.items():
        share = rate / sum(rates.values())
        assert abs(drawn[code] / 3000 - share) < 4 * math.sqrt(share * (1 - share) / 3000)


def test_long_features_are_cut_to_fit_with_their_eos(corpus):
    task = seqio.get_mixture_or_task("lions_deu_Latn_to_eng")
    for (inputs, targets), whole in zip(
        ids(task, lengths={"inputs": 5, "targets": 4}), ids(task), strict=True
    ):
        for cut, full, length in zip((inputs, targets), whole, (5, 4), strict=True):
            assert cut == (full if len(full) <= length else [*full[: length - 1], vocab.EOS])


def rows(features, side):
    """(row, segment) -> tokens of one side of packed rows; checks positions on the way."""
    tokens = features["encoder_input_tokens" if side == "encoder" else "decoder_target_tokens"]
    found = {}
    for row, segments in enumerate(features[f"{side}_segment_ids"]):
        for segment in range(1, segments.max() + 1):
            (at,) = np.nonzero(segments == segment)
            assert np.array_equal(at, np.arange(at[0], at[-1] + 1))
            assert np.array_equal(features[f"{side}_positions"][row, at], np.arange(len(at)))
            found[row, segment] = tokens[row, at].tolist()
        assert not tokens[row, segments == 0].any()
    return found


@pytest.mark.parametrize("pack", [True, False])
def test_feature_converter_gives_our_batch_names(corpus, pack):
    lengths = {"inputs": 64, "targets": 64}
    task = seqio.get_mixture_or_task("lions_deu_Latn_to_eng")
    dataset = task.get_dataset(lengths, "validation", shuffle=False)
    converted = list(seqio.EncDecFeatureConverter(pack=pack)(dataset, lengths).as_numpy_iterator())
    batch = {key: np.stack([row[key] for row in converted]) for key in converted[0]}
    names = {"encoder_input_tokens"}
    names |= {f"decoder_{what}" for what in ("input_tokens", "target_tokens", "loss_weights")}
    if pack:
        names |= {"encoder_segment_ids", "decoder_segment_ids"}
        names |= {"encoder_positions", "decoder_positions"}
    assert set(batch) == names
    assert {array.shape for array in batch.values()} == {(len(converted), 64)}
    targets = batch["decoder_target_tokens"]
    assert np.array_equal(batch["decoder_loss_weights"], targets > 0)
    if not pack:
        assert np.array_equal(batch["decoder_input_tokens"][:, 1:], targets[:, :-1])
        return
    encoder, decoder = rows(batch, "encoder"), rows(batch, "decoder")
    assert len(converted) < len(encoder)
    packed = Counter((tuple(encoder[key]), tuple(decoder[key])) for key in encoder)
    assert packed == Counter((tuple(a), tuple(b)) for a, b in ids(task, "validation"))
    for (row, segment), tokens in decoder.items():
        at = batch["decoder_segment_ids"][row] == segment
        assert batch["decoder_input_tokens"][row, at].tolist() == [0, *tokens[:-1]]


def test_metrics_are_bleu_and_chrf(corpus):
    (metric,) = seqio.get_mixture_or_task("lions_swh_Latn_to_eng").metric_fns
    said = ["the lion drinks cold water", "by the river"]
    assert metric(said, said) == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)}
    assert metric(said, ["nothing of it", "at all"])["bleu"] < 5


def test_vocabulary_is_trained_when_first_needed_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    other = corpora.load(write_corpus(tmp_path / "c", name="lazy"))
    tasks.register(other, vocabularies=PIECES)
    feature = seqio.get_mixture_or_task("lazy_swh_Latn_to_eng").output_features["inputs"]
    assert not (tmp_path / "data").exists()
    assert feature.vocabulary.encode("maji")
    (file,) = (tmp_path / "data" / "vocabularies").iterdir()
    assert file.name == f"lazy-{other.hash()}-{PIECES}.model"
    before = file.stat().st_mtime_ns
    assert tasks.vocabulary(other, size=PIECES) == {"source": file, "target": file}
    assert file.stat().st_mtime_ns == before

    apart = tasks.vocabulary(other, size=320, target_size=320, tags=("<2deu>",))
    assert len({file, *apart.values()}) == 3
    models = {side: vocab.Vocabulary.load(path) for side, path in apart.items()}
    assert all(one.has("<2eng>") and one.has("<2deu>") for one in models.values())
    with open(tmp_path / "c" / "train" / "swh_Latn.tsv", "a", encoding="utf-8") as more:
        more.write("chui\tleopard\n")
    assert tasks.vocabulary(corpora.load(tmp_path / "c"), size=PIECES)["source"] != file


def test_vocabulary_travels_through_copies_and_pickles(corpus):
    task = seqio.get_mixture_or_task("lions_swh_Latn_to_eng")
    shared = task.output_features["inputs"].vocabulary
    for other in (copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
        assert other == shared
        assert other.encode("simba") == shared.encode("simba")
    first, again = (
        next(source.chunks("train"))["inputs"].tolist()
        for source in (task.source, pickle.loads(pickle.dumps(task.source)))
    )
    assert first == again


def test_registering_again_replaces_only_the_same_corpus(corpus, tmp_path):
    before = seqio.get_mixture_or_task("lions_to_eng")
    assert tasks.register(corpus, vocabularies=PIECES) == "lions_to_eng"
    assert seqio.get_mixture_or_task("lions_to_eng") is before
    files = tasks.vocabulary(corpus, size=PIECES)
    tasks.register(corpus, vocabularies=files)
    again = seqio.get_mixture_or_task("lions_swh_Latn_to_eng").output_features["inputs"]
    assert again.vocabulary.sentencepiece_model_file == str(files["source"])
    tasks.register(corpus, vocabularies=PIECES)
    elsewhere = corpora.load(write_corpus(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"lions_to_eng.*other.*registered already.*another name"):
        tasks.register(elsewhere)
    with pytest.raises(ValueError, match="'source' and 'target'"):
        tasks.register(corpus, vocabularies={"inputs": files["source"]})


def test_cache_holds_what_the_tasks_give(corpus, tmp_path):
    manifest = build.build_cache("lions_to_eng", tmp_path / "cache", corpus_hash="h")
    opened = cache.open_cache(tmp_path / "cache")
    assert manifest.languages == tuple(sorted(SIZES))
    assert (manifest.name, manifest.target) == ("lions_to_eng", "eng_Latn")
    assert manifest.corpus_hash == "h"
    for task in seqio.get_mixture_or_task("lions_to_eng").tasks:
        for split in task.splits:
            records = opened.records(task.source.language, split)
            cached = [(records[i]["inputs"].tolist(), records[i]["targets"].tolist())
                      for i in range(len(records))]  # fmt: skip
            given = ids(task, split)
            assert [(a + [vocab.EOS], b + [vocab.EOS]) for a, b in cached] == given
            assert manifest.counts[split][task.source.language] == len(given)
            runs = manifest.corpora[split][task.source.language]
            assert sum(count for _, count in runs) == len(given)


def test_tasks_of_another_kind_are_cached_by_their_own_preprocessors(corpus, tmp_path):
    ours = seqio.get_mixture_or_task("lions_swh_Latn_to_eng")
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
        build.build_cache("own_one", tmp_path / "one", corpus_hash="h")
    with pytest.raises(ValueError, match="own_nameless.*mycorpus_deu_Latn_to_eng"):
        build.build_cache("own_nameless", tmp_path / "one", corpus_hash="h")
    assert not (tmp_path / "one").exists()
    build.build_cache("lions_swh_Latn_to_eng", tmp_path / "ours", corpus_hash="h")
    expected = cache.open_cache(tmp_path / "ours").records("swh_Latn", "train")
    for name in ("own_two", "own_swh_Latn_to_eng"):
        build.build_cache(name, tmp_path / name, corpus_hash="h")
        read = cache.open_cache(tmp_path / name).records("swh_Latn", "train")
        assert len(read) == len(expected)
        for i in range(len(read)):
            for key in ("inputs", "targets"):
                assert np.array_equal(read[i][key], expected[i][key])


def test_ensure_cache_builds_once_and_notices_a_changed_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    folder = write_corpus(tmp_path / "c", name="ensured")
    asked = {"mixture": "ensured_to_eng", "corpus": str(folder), "vocab_size": PIECES}
    first = build.ensure_cache(Recipe(str(tmp_path / "cache"), **asked))
    assert first.corpus_hash == corpora.load(folder).hash()
    found = build.vocabulary(Recipe("", **asked), "targets")
    assert found.vocab_size == first.vocabulary_size["target"]
    stamp = (tmp_path / "cache" / cache.MANIFEST).stat().st_mtime_ns
    assert build.ensure_cache(Recipe(str(tmp_path / "cache"), **asked)) == first
    assert (tmp_path / "cache" / cache.MANIFEST).stat().st_mtime_ns == stamp
    with pytest.raises(ValueError, match="vocabulary"):
        other = {**asked, "vocab_size": PIECES + 20}
        build.ensure_cache(Recipe(str(tmp_path / "cache"), **other))
    with open(folder / "train" / "deu_Latn.tsv", "a", encoding="utf-8") as file:
        file.write("mehr\tmore\n")
    with pytest.raises(ValueError, match="corpus"):
        build.ensure_cache(Recipe(str(tmp_path / "cache"), **asked))


def test_ensure_cache_tells_what_is_wrong_and_writes_nothing(corpus, tmp_path, monkeypatch):
    data = tmp_path / "data"
    monkeypatch.setenv("MMT_DATA", str(data))
    folder = write_corpus(tmp_path / "c", name="broken")
    with open(folder / "test" / "swh_Latn.tsv", "a", encoding="utf-8") as file:
        file.write("one column\n")
    at = tmp_path / "cache"
    with pytest.raises(ValueError, match=r"swh_Latn\.tsv:\d+"):
        build.ensure_cache(Recipe(str(at), "broken_to_eng", corpus=str(folder), vocab_size=PIECES))
    with pytest.raises(ValueError, match="'lion_to_eng'.*nearest: lions_to_eng"):
        build.ensure_cache(Recipe(str(at), mixture="lion_to_eng"))
    with pytest.raises(ValueError, match="no Python module 'no_such_lab.tasks'"):
        build.ensure_cache(Recipe(str(at), mixture="lions_to_eng", module="no_such_lab.tasks"))
    with pytest.raises(ValueError, match="leave it 0"):
        build.ensure_cache(Recipe(str(at), "lions_to_eng", module="tasks.cldr", vocab_size=500))
    at.mkdir()
    (at / "thesis.txt").write_text("my only copy")
    with pytest.raises(ValueError, match="no cache"):
        build.ensure_cache(Recipe(str(at), mixture="lions_to_eng"))
    assert not data.exists() and [file.name for file in at.iterdir()] == ["thesis.txt"]


def test_source_refuses_what_it_cannot_do(corpus):
    source = sources.CorpusSource(corpus, "swh_Latn")
    assert source.list_shards("train") == ["train"] and not source.supports_arbitrary_sharding
    with pytest.raises(ValueError, match="one shard"):
        source.get_dataset("train", shard_info=seqio.ShardInfo(0, 2))
    task = seqio.get_mixture_or_task("lions_swh_Latn_to_eng")
    parts = [
        [one["inputs"].tolist() for one in task.get_dataset(
            None, shuffle=False, shard_info=seqio.ShardInfo(i, 2)).as_numpy_iterator()]
        for i in range(2)
    ]  # fmt: skip
    whole = [inputs for inputs, _ in ids(task)]
    assert parts == [whole[0::2], whole[1::2]]


def run_python(code: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_")}
    root = Path(tasks.__file__).parents[1]
    path = os.pathsep.join([str(root), *filter(None, [environment.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False,
        env={**environment, "MMT_DATA": str(data), "PYTHONPATH": path},
    )  # fmt: skip


def test_importing_tasks_is_silent_and_leaves_the_gpu_alone(tmp_path):
    code = "import tasks, tensorflow as tf; print(tf.config.get_visible_devices('GPU'))"
    done = run_python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.slow
def test_the_embedded_corpus_through_plain_seqio(tmp_path):
    code = (
        "import seqio, tasks.cldr; print(next(iter(seqio.get_mixture_or_task('cldr_to_eng')"
        ".get_dataset({'inputs': 64, 'targets': 64}, 'train').as_numpy_iterator())))"
    )
    done = run_python(code, tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert "'inputs': array([" in done.stdout and "'targets': array([" in done.stdout
    shutil.rmtree(tmp_path / "data")
