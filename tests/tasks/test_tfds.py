"""TFDS translation sets as tasks: tiny ones built here, and OPUS-100 without its data."""

import numpy as np
import pytest

pytest.importorskip("seqio")

import seqio
import tensorflow_datasets as tfds

import tasks
from mmt import languages
from mmt.data import cache, vocabulary
from mmt.data.recipe import CacheConfig
from tasks import build
from tasks import tfds as tasks_tfds

PIECES = 300
PAIRS = [(f"{number} kleine Löwen", f"{number} small lions") for number in range(40)]


class TinyPairs(tfds.core.GeneratorBasedBuilder):
    """A set in each of the three shapes that TFDS has for translations."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=name)
        for name in ("plain", "nested", "variable", "gaps", "monolingual", "unprepared")
    ]

    def _info(self):
        translation = tfds.features.Translation(languages=["de", "en"])
        features = {
            "plain": translation,
            "nested": tfds.features.FeaturesDict({"translation": translation, "id": np.int32}),
            "variable": tfds.features.FeaturesDict(
                {"translations": tfds.features.TranslationVariableLanguages()}
            ),
            "gaps": translation,
            "monolingual": tfds.features.FeaturesDict({"text": tfds.features.Text()}),
            "unprepared": translation,
        }[self.builder_config.name]
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(0, 30), "test": self._generate_examples(30, 40)}

    def _generate_examples(self, first, last):
        for number, (german, english) in enumerate(PAIRS[first:last], first):
            both = {"de": german, "en": english}
            if self.builder_config.name == "nested":
                yield number, {"translation": both, "id": number}
            elif self.builder_config.name == "variable":
                third = {"fr": "lions"} if number % 3 == 0 else {}
                yield number, {"translations": {**both, **third}}
                yield f"{number} alone", {"translations": {"de": german, "fr": "lions"}}
            elif self.builder_config.name == "gaps":
                yield number, {**both, "en": ("", "\u200b ", english)[number % 3]}
            elif self.builder_config.name == "monolingual":
                yield number, {"text": german}
            else:
                yield number, both


@pytest.fixture(scope="module", autouse=True)
def prepared(tmp_path_factory):
    """The tiny sets, prepared in a separate folder; $MMT_DATA is beside them."""
    root = tmp_path_factory.mktemp("tfds")
    tfds.disable_progress_bar()
    for config in TinyPairs.BUILDER_CONFIGS[:-1]:
        TinyPairs(config=config.name, data_dir=root / "sets").download_and_prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMT_DATA", str(root / "data"))
        seqio.set_tfds_data_dir_override(str(root / "sets"))
        yield root
        seqio.set_tfds_data_dir_override(None)


@pytest.fixture(scope="module")
def features():
    """Features with a trained vocabulary."""
    tasks_tfds.register_tfds(
        "tiny_pairs/plain:1.0.0", source="de", name="small", vocabularies=PIECES
    )
    output_features = seqio.get_mixture_or_task("small_to_eng").output_features
    output_features["inputs"].vocabulary.load_model()
    return output_features


@pytest.mark.parametrize("shape", ["plain", "nested", "variable"])
def test_every_shape_of_translations_becomes_inputs_and_targets(shape):
    mixture = tasks_tfds.register_tfds(
        f"tiny_pairs/{shape}:1.0.0", source="de", name=shape, vocabularies=PIECES
    )
    assert mixture.name == f"{shape}_to_eng"
    task = seqio.get_mixture_or_task(f"{shape}_deu_Latn_to_eng")
    assert tuple(task.splits) == ("train", "test")
    for split, pairs in (("train", PAIRS[:30]), ("test", PAIRS[30:])):
        read = {
            (example["inputs"].decode(), example["targets"].decode())
            for example in task.source.get_dataset(split, shuffle=False).as_numpy_iterator()
        }
        assert read == set(pairs)
        assert task.num_input_examples(split) == len(pairs)


def test_task_and_cache_tokenise_as_our_vocabulary(tmp_path):
    mixture = tasks_tfds.register_tfds("tiny_pairs/plain:1.0.0", source="de", vocabularies=PIECES)
    assert mixture.name == "tiny_pairs_to_eng"
    task = seqio.get_mixture_or_task("tiny_pairs_deu_Latn_to_eng")
    manifest = build.ensure_cache(CacheConfig(str(tmp_path / "cache"), mixture=mixture.name))
    opened = cache.open_cache(tmp_path / "cache")
    model = vocabulary.Vocabulary.load(opened.vocabulary_files()["source"])
    assert manifest.counts == {"train": {"deu_Latn": 30}, "test": {"deu_Latn": 10}}
    for split, pairs in (("train", PAIRS[:30]), ("test", PAIRS[30:])):
        expected = {(f"<2eng> {source}", target) for source, target in pairs}
        records = opened.records("deu_Latn", split)
        cached = [
            (records[i]["inputs"].tolist(), records[i]["targets"].tolist())
            for i in range(len(records))
        ]
        assert {tuple(map(model.decode, example)) for example in cached} == expected
        given = [
            (example["inputs"].tolist(), example["targets"].tolist())
            for example in task.get_dataset(None, split, shuffle=False).as_numpy_iterator()
        ]
        assert given == [([*inputs, 1], [*targets, 1]) for inputs, targets in cached]
    assert (
        build.ensure_cache(CacheConfig(str(tmp_path / "cache"), mixture=mixture.name)) == manifest
    )


def test_rates_of_a_set_of_several_languages_follow_their_own_pairs(monkeypatch):
    sets = {
        code: tasks_tfds.TfdsSet("tiny_pairs/variable:1.0.0", name, "en")
        for code, name in (("deu_Latn", "de"), ("fra_Latn", "fr"))
    }
    corpus = tasks_tfds.tfds_corpus("several", sets, target="eng_Latn")
    reads, get_dataset = [], tasks_tfds.TfdsSource.get_dataset
    monkeypatch.setattr(
        tasks_tfds.TfdsSource, "get_dataset",
        lambda self, *args, **kwargs: (reads.append(1), get_dataset(self, *args, **kwargs))[1],
    )  # fmt: skip
    mixture = tasks.register(
        corpus, vocabularies=PIECES, temperature=1.0, source=tasks_tfds.TfdsSource
    )
    several = seqio.get_mixture_or_task(mixture.name)
    rates = {task.source.language: several.get_rate(task) for task in several.tasks}
    assert rates["deu_Latn"] / rates["fra_Latn"] == pytest.approx(30 / 10)
    assert corpus.count("deu_Latn", "train") == 30 and len(reads) == 2  # each language once


def test_pairs_without_visible_text_are_left_out():
    sets = {"deu_Latn": tasks_tfds.TfdsSet("tiny_pairs/gaps:1.0.0", "de", "en")}
    corpus = tasks_tfds.tfds_corpus("gaps", sets, target="eng_Latn")
    assert {pair[:2] for pair in corpus.pairs("deu_Latn", "train")} == set(PAIRS[2:30:3])


def test_splits_can_be_cut_from_others():
    slices = {"train": "train[:20]", "validation": "train[20:]", "test": "test"}
    tasks_tfds.register_tfds(
        "tiny_pairs/plain:1.0.0", source="de", name="cut", splits=slices, vocabularies=PIECES
    )
    task = seqio.get_mixture_or_task("cut_deu_Latn_to_eng")
    assert {split: task.num_input_examples(split) for split in task.splits} == {
        "train": 20, "validation": 10, "test": 10
    }  # fmt: skip
    corpus = task.source.corpus
    (pair, *_) = corpus.pairs("deu_Latn", "validation")
    assert corpus.entries("deu_Latn", "validation") == (pair.corpus,) == ("cut",)


def test_an_unknown_data_set_or_language_is_an_error():
    with pytest.raises(ValueError, match="no translations between 'de' and 'en'.*text"):
        tasks_tfds.register_tfds("tiny_pairs/monolingual:1.0.0", source="de", name="mono")
        task = seqio.get_mixture_or_task("mono_deu_Latn_to_eng")
        task.source.get_dataset("train")
    with pytest.raises(ValueError, match="not prepared.*tfds build tiny_pairs/unprepared"):
        tasks_tfds.register_tfds("tiny_pairs/unprepared:1.0.0", source="de", name="later")
    with pytest.raises(ValueError, match="Klingonisch"):
        tasks_tfds.register_tfds("tiny_pairs/plain:1.0.0", source="Klingonisch")


def test_opus100_has_the_sizes_of_its_paper():
    """Zhang et al. 2020, section 4: 99 pairs, 55M in total, the number with 1M and more, 94 test
    sets.
    """
    from tasks import opus100

    counts = opus100.COUNTS.values()
    assert len(counts) == 99
    assert [sum(count >= limit for count in counts) for limit in (10**6, 10**5, 10**4)] == [
        44,
        73,
        95,
    ]
    assert round(sum(counts) / 1e6) == 55
    mixture = seqio.get_mixture_or_task("opus100_to_eng")
    assert len(mixture.tasks) == 99
    assert sum("test" in task.splits for task in mixture.tasks) == 94
    codes = {task.name.removeprefix("opus100_").removesuffix("_to_eng") for task in mixture.tasks}
    for code in codes - {"nor_Latn"}:
        assert languages.find(code).code == code
    rate = {task.name[8:16]: mixture.get_rate(task) for task in mixture.tasks}
    assert rate["deu_Latn"] / rate["dzo_Tibt"] == pytest.approx((1_000_000 / 624) ** 0.2)
    assert rate["deu_Latn"] == rate["fra_Latn"] and sum(rate.values()) == pytest.approx(1)


@pytest.mark.parametrize("code", ["deu_Latn", "fra_Latn", "yor_Latn"])
def test_opus100_gives_examples_without_its_data(code, features, monkeypatch):
    from tasks import opus100

    task = seqio.get_mixture_or_task(f"opus100_{code}_to_eng")
    assert task.output_features["inputs"].vocabulary._training.size == opus100.VOCABULARY_SIZE
    task = task.replace(output_features=features)
    monkeypatch.setattr(seqio.utils, "_TFDS_DATA_DIR_OVERRIDE", None)
    with tfds.testing.mock_data(num_examples=5):
        dataset = task.get_dataset({"inputs": 32, "targets": 16}, "train", shuffle=False)
        examples = list(dataset.as_numpy_iterator())
    tag = features["inputs"].vocabulary.encode("<2eng>")[0]
    assert len(examples) == 5
    for example in examples:
        assert example["inputs"].dtype == example["targets"].dtype == np.int32
        assert len(example["inputs"]) <= 32 and len(example["targets"]) <= 16
        assert example["inputs"][0] == tag
        assert example["inputs"][-1] == example["targets"][-1] == vocabulary.EOS


def test_opus100_is_prepared_from_its_archive(tmp_path, monkeypatch):
    from tasks import opus100

    def download(manager, url):
        pair = url.removesuffix("-v1.0.tar.gz").rsplit("corpus-")[-1]
        folder = tmp_path / "opus-100-corpus" / "v1.0" / "supervised" / pair
        folder.mkdir(parents=True)
        held_out = () if pair == "en-yo" else ("dev", "test")
        for split in ("train", *held_out):
            for code in pair.split("-"):
                lines = [f"{code} {split} {number}\u2028\n" for number in range(3)]
                (folder / f"opus.{pair}-{split}.{code}").write_text("".join(lines), "utf-8")
        return type(manager.download_dir)(tmp_path)

    monkeypatch.setattr(tfds.download.DownloadManager, "download_and_extract", download)
    for code, pair, splits in (
        ("de", "de-en", {"train", "validation", "test"}),
        ("yo", "en-yo", {"train"}),
    ):
        builder = opus100.Opus100(config=pair, data_dir=tmp_path / "sets")
        builder.download_and_prepare()
        assert set(builder.info.splits) == splits
        read = tfds.as_numpy(builder.as_dataset(split="train"))
        assert {(example[code].decode(), example["en"].decode()) for example in read} == {
            (f"{code} train {number}\u2028", f"en train {number}\u2028") for number in range(3)
        }


def test_a_reversed_corpus_swaps_the_sides(prepared):
    sets = {"deu_Latn": tasks_tfds.TfdsSet("tiny_pairs/plain:1.0.0", "de", "en")}
    corpus = tasks_tfds.tfds_corpus("swapped", sets, target="eng_Latn")
    pairs = [pair[:2] for pair in corpus.pairs("deu_Latn", "test")]
    assert sorted(pairs) == sorted(PAIRS[30:])
    swapped = corpus.reversed()
    assert [pair[:2] for pair in swapped.pairs("deu_Latn", "test")] == [p[::-1] for p in pairs]
    assert swapped.hash() != corpus.hash()  # its vocabulary has a tag of each language
