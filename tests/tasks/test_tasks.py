"""SeqIO tasks of a corpus.

The oracle of ids is `mmt.data.vocabulary`, which tokenises without TensorFlow; that of packing a
reader of the rows written here. The cache made of the tasks: test_build.py.
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
from mmt.data import corpora, vocabulary
from tasks import sources
from tests.helpers.lions import PIECES, SIZES, WORDS, ids, registered, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    with registered(tmp_path_factory.mktemp("tasks"), "lions") as registered_corpus:
        yield registered_corpus


@pytest.fixture(scope="module")
def model(corpus):
    return vocabulary.Vocabulary.load(tasks.vocabulary(corpus, size=PIECES)["source"])


def test_names_splits_and_sizes(corpus):
    mixture = seqio.get_mixture_or_task("lions_to_eng")
    names = [f"lions_{code}_to_eng" for code in sorted(SIZES)]
    assert [task.name for task in mixture.tasks] == names
    for code, size in SIZES.items():
        task = seqio.get_mixture_or_task(f"lions_{code}_to_eng")
        assert task.num_input_examples("train") == size
        splits = ("train",) if code == "jpn_Jpan" else corpora.SPLITS
        assert tuple(task.splits) == splits


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
    expected = [
        tuple(
            [*model.encode(text), vocabulary.EOS]
            for text in (f"<2eng> {pair.source}", pair.target)
        )
        for pair in pairs
    ]
    read = ids(seqio.get_mixture_or_task(f"lions_{code}_to_eng"))
    assert read == expected
    assert all(inputs[0] == model.id("<2eng>") for inputs, _ in read)


def test_vocabulary_has_the_same_ids_and_size_as_ours_on_any_text(corpus, model):
    task = seqio.get_mixture_or_task("lions_deu_Latn_to_eng")
    theirs = task.output_features["inputs"].vocabulary
    odd = ["", " ", "  zwei  Leerzeichen ", "𒀀 unseen", "ｆｕｌｌ ﬁ Å Å", "<2eng> a<2eng>b", "a\tb"]
    for text in odd:
        assert theirs.encode(text) == model.encode(text)
        assert theirs.encode_tf(text).numpy().tolist() == model.encode(text)
    assert theirs.vocab_size == model.size
    ids = vocabulary.PAD, vocabulary.EOS, vocabulary.UNK
    assert (theirs.pad_id, theirs.eos_id, theirs.unk_id) == ids


def test_rates_are_the_fifth_root_of_the_counts_or_capped(tmp_path):
    rated = corpora.load(write_corpus(tmp_path, name="rated"))

    def shares(**settings):
        mixture = seqio.get_mixture_or_task(tasks.register(rated, **settings).name)
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
            assert cut == (full if len(full) <= length else [*full[: length - 1], vocabulary.EOS])


def rows(features, side):
    """Returns (row, segment) -> tokens of a side of packed rows; checks the positions."""
    tokens = features["encoder_input_tokens" if side == "encoder" else "decoder_target_tokens"]
    by_name = {}
    for row, segments in enumerate(features[f"{side}_segment_ids"]):
        for segment in range(1, segments.max() + 1):
            (at,) = np.nonzero(segments == segment)
            assert np.array_equal(at, np.arange(at[0], at[-1] + 1))
            assert np.array_equal(features[f"{side}_positions"][row, at], np.arange(len(at)))
            by_name[row, segment] = tokens[row, at].tolist()
        assert not tokens[row, segments == 0].any()
    return by_name


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
    references = ["the lion drinks cold water", "by the river"]
    perfect = pytest.approx(100)
    assert metric(references, references) == {"bleu": perfect, "chrf": perfect}
    assert metric(references, ["nothing of it", "at all"])["bleu"] < 5


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
    models = {side: vocabulary.Vocabulary.load(path) for side, path in apart.items()}
    assert all(model.has("<2eng>") and model.has("<2deu>") for model in models.values())
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
    assert tasks.register(corpus, vocabularies=PIECES).name == "lions_to_eng"
    assert seqio.get_mixture_or_task("lions_to_eng") is before
    files = tasks.vocabulary(corpus, size=PIECES)
    tasks.register(corpus, vocabularies=files)
    again = seqio.get_mixture_or_task("lions_swh_Latn_to_eng").output_features["inputs"]
    assert again.vocabulary.sentencepiece_model_file == str(files["source"])
    tasks.register(corpus, vocabularies=PIECES)
    elsewhere = corpora.load(write_corpus(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"lions_to_eng.*other.*registered already.*rename one"):
        tasks.register(elsewhere)
    with pytest.raises(ValueError, match="'source' and 'target'"):
        tasks.register(corpus, vocabularies={"inputs": files["source"]})


def test_a_source_refuses_impossible_requests(corpus):
    source = sources.CorpusSource(corpus, "swh_Latn")
    assert len(source.list_shards("train")) == 1 and not source.supports_arbitrary_sharding
    with pytest.raises(ValueError, match="2 shards of 1 entries; shard the dataset"):
        source.get_dataset("train", shard_info=seqio.ShardInfo(0, 2))
    task = seqio.get_mixture_or_task("lions_swh_Latn_to_eng")
    parts = [
        [example["inputs"].tolist() for example in task.get_dataset(
            None, shuffle=False, shard_info=seqio.ShardInfo(i, 2)).as_numpy_iterator()]
        for i in range(2)
    ]  # fmt: skip
    whole = [inputs for inputs, _ in ids(task)]
    assert parts == [whole[0::2], whole[1::2]]


def test_a_shard_is_every_nth_entry(tmp_path):
    """As the machines of a Beam job read a language: every example exactly once."""
    for name in "abcd":
        (tmp_path / f"{name}.tsv").write_text("".join(f"{name}{i}\tx\n" for i in range(300)))
    described = 'target = "eng"\n[train]\ndeu = ["a.tsv", "b.tsv", "d.tsv", "c.tsv"]\n'
    (tmp_path / "corpus.toml").write_text(described)
    source = sources.CorpusSource(corpora.load(tmp_path), "deu_Latn")
    assert len(set(source.list_shards("train"))) == 4

    def read(part):
        shard = source.get_dataset("train", shuffle=False, shard_info=part)
        return [example["inputs"].decode() for example in shard.as_numpy_iterator()]

    whole = read(None)
    assert len(whole) == 1200
    for number in (1, 3, 4):
        parts = [read(seqio.ShardInfo(i, number)) for i in range(number)]
        assert all(parts) and Counter(sum(parts, [])) == Counter(whole)


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
