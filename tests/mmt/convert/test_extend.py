"""`mmt extend`: the model of before, with more pieces and languages, and what trains it."""

import itertools
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt import config, train
from mmt.cli.main import main
from mmt.convert import extend
from mmt.data import cache, corpora, mixing, pipeline
from mmt.data.cache.manifest import read_manifest
from mmt.data.vocabulary import Vocabulary
from mmt.model import parameter_names
from mmt.run import Run
from mmt.translate import Translator
from tests.helpers import hf_runs
from tests.helpers.hf_runs import make_expert_run
from tests.mmt.convert.test_extract import BOTH, GSHARD

ENGLISH = "zero one two three four".split()
WORDS = {
    "kat": "ნული ერთი ორი სამი ოთხი".split(),
    "pol": "zerowy jedynka dwójka trójka czwórka".split(),
}


def write_corpus(folder, words=WORDS, pairs=120, target="eng", extra=""):
    """A corpus of numbers in new languages."""
    folder.mkdir()
    random, lines = np.random.default_rng(3), [f'target = "{target}"']
    for split, count in (("train", pairs), ("validation", 12)):
        lines.append(f"[{split}]")
        for code, foreign in words.items():
            rows = []
            for _ in range(count):
                ids = random.integers(0, 5, random.integers(1, 5))
                rows.append("\t".join(" ".join(w[i] for i in ids) for w in (foreign, ENGLISH)))
            (folder / f"{split}.{code}.tsv").write_text("\n".join(rows) + "\n")
            lines.append(f'{code} = "{split}.{code}.tsv"')
    (folder / "corpus.toml").write_text("\n".join([*lines, extra, ""]))
    return folder


@pytest.fixture(scope="module")
def new_corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("extend") / "more")


@pytest.fixture(scope="module")
def extended(dense_toy_run, toy_corpus, new_corpus):
    """The run directory that `mmt extend` writes."""
    out = new_corpus.parent / "out"
    line = f"extend --model {dense_toy_run} --corpus {new_corpus} --out {out} --pieces 40"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MMT_DATA", str(toy_corpus.parent))
        assert main([*line.split(), "--rehearsal", "0.4"]) == 0
    return out


def test_it_translates_as_before(dense_toy_run, extended):
    lines = ["eins zwei", "vier", "drei null drei", "moja mbili", "zéro quatre"]
    before, after = (
        [
            (line.text, line.hypotheses[0].score)
            for line in Translator.load(run).translate(lines)
        ]
        for run in (dense_toy_run, extended)
    )
    assert before == after
    assert before[0][0] == "one two"


def test_logits_are_the_same_and_new_rows_are_means(dense_toy_run, extended):
    before, after = (Run(run).model() for run in (dense_toy_run, extended))
    source = jnp.array([[300, 7, 9, 1], [5, 1, 0, 0]])
    target = jnp.asarray(np.random.default_rng(0).integers(2, 300, (2, 6)))
    found = [
        np.asarray(jax.jit(model.apply)({"params": hf_runs.parameters(run)}, source, target))
        for model, run in ((before, dense_toy_run), (after, extended))
    ]
    np.testing.assert_array_equal(*found)
    old, new = (Vocabulary.load(Run(run).vocabularies()["source"])
                for run in (dense_toy_run, extended))  # fmt: skip
    tables = [
        parameter_names.to_flat(hf_runs.parameters(run), model.config)["source_embed/embedding"]
        for run, model in ((dense_toy_run, before), (extended, after))
    ]
    assert len(tables[1]) == new.size == old.size + 40
    np.testing.assert_array_equal(tables[0], tables[1][: old.size])
    for number in range(old.size, new.size):
        parts = old.encode(new.piece(number).replace("\u2581", " "))
        mean = np.mean(np.asarray(tables[0])[parts], axis=0)
        np.testing.assert_allclose(tables[1][number], mean, rtol=1e-6)


def test_its_configuration_trains_new_and_old_languages(extended, tmp_path):
    config.load([extended / "config.gin"], [f"MODEL_DIR={tmp_path}/grown"])
    program = config.configured(train.Trainer)()
    train.check_parents(program, tmp_path / "grown")
    batches = config.configured(pipeline.train_batches)()
    train.check(program, batches.manifest, tmp_path / "grown")
    manifest = batches.manifest
    manifest.check_vocabulary_of(Run(extended))
    assert config.macro("TRAIN_STEPS") == 20  # a tenth
    seen = np.zeros(len(manifest.languages))
    for batch in itertools.islice(batches, 12):
        ends = batch["decoder_target_tokens"] == manifest.eos
        seen += np.bincount(batch["decoder_language_ids"][ends], minlength=len(seen))
    batches.close()
    rates = dict(zip(manifest.languages, seen / seen.sum(), strict=True))
    assert rates["kat_Geor"] + rates["pol_Latn"] == pytest.approx(0.6, abs=0.03)
    counts = manifest.counts["train"]
    old = {code: counts[code] for code in ("deu_Latn", "fra_Latn", "swh_Latn")}
    for code, rate in mixing.mixing_rates(old, config.macro("TEMPERATURE")).items():
        assert rates[code] == pytest.approx(0.4 * rate, abs=0.03)


@pytest.mark.parametrize(
    ("file", "bindings", "expected"),
    [
        ("recover", ["LANGUAGES = ['swh_Latn']", "TEACHER_DIR = 'whole'"], ["swh_Latn"]),
        ("finetune", [], ["deu_Latn", "swh_Latn", "pol_Latn"]),
    ],
)
def test_what_is_trained_after_the_extension_mixes_its_own_languages(
    file, bindings, expected, extended, tmp_path
):
    more = [f"MODEL_DIR = '{tmp_path}/next'", f"INITIAL_MODEL_DIR = '{extended}'"]
    files = [extended / "config.gin", f"gin_configs/runs/{file}.gin"]
    config.load(files, [*more, "TRAIN_STEPS = 10", *bindings])
    mixture = config.configured(mixing.Mixing)()
    counts = {"deu_Latn": 1000, "swh_Latn": 1000, "pol_Latn": 1000}  # no kat_Geor
    assert mixture.choose(list(counts)) == expected
    assert mixture.rates(counts) == pytest.approx(dict.fromkeys(expected, 1 / len(expected)))


def test_training_needs_a_directory_of_its_own(extended):
    config.load([extended / "config.gin"])
    with pytest.raises(ValueError, match="name a new directory"):
        train.check_parents(config.configured(train.Trainer)(), extended)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--languages deu,kat", "corpus more has no deu_Latn .*nearest"),
        ("--languages=", "unknown language ''"),
        ("--languages georgan", "unknown language 'georgan'.*Georgian"),
        ("--rehearsal 1", "rehearsal.*1.*allowed"),
        ("--rehearsal 0", "rehearsal.*0.*allowed"),
        ("--pieces -1", "pieces.*-1.*allowed"),
        ("--gin.Extension.overlapp=0", "nearest: Extension.overlap"),
        ("--corpus CORPUSS", "no corpus at"),
    ],
)
def test_wrong_flags_are_errors(flags, message, dense_toy_run, new_corpus, tmp_path, capsys):
    line = f"extend --model {dense_toy_run} --corpus {new_corpus} --out {tmp_path}/out {flags}"
    assert main(line.split()) == 1
    found = capsys.readouterr().err
    assert re.search(message, found), found
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_extended_is_an_error(dense_toy_run, toy_corpus, new_corpus, tmp_path):
    run, out = Run(dense_toy_run), tmp_path / "out"

    def refused(message, corpus, run=run, out=out):
        with pytest.raises(ValueError, match=message):
            extend.check(run, corpora.load(corpus), out)
        assert not (tmp_path / "out").exists()

    refused("has deu_Latn .German., fra.* already; new in the corpus numbers: none", toy_corpus)
    french = write_corpus(tmp_path / "french", target="fra")
    refused("has the target fra_Latn; the model .* translates into eng_Latn", french)
    refused("exists; it is not changed", new_corpus, out=new_corpus)
    refused("is no model directory", new_corpus, run=Run(tmp_path))
    shutil.copytree(dense_toy_run, tmp_path / "reverse", ignore=lambda *_: ["checkpoints"])
    manifest = (tmp_path / "reverse/manifest.json").read_text()
    (tmp_path / "reverse/manifest.json").write_text(
        manifest.replace('"target": "eng_Latn"', '"target": ""')
        .replace('"source": ""', '"source": "eng_Latn"')
    )  # fmt: skip
    refused("from one language into many", new_corpus, run=Run(tmp_path / "reverse"))
    content = json.loads(manifest) | {"counts": {}, "corpora": {}}
    (tmp_path / "reverse/manifest.json").write_text(json.dumps(content))
    refused("a model of unknown training pairs", new_corpus, run=Run(tmp_path / "reverse"))


def test_a_new_language_routes_as_the_nearest(tmp_path):
    whole = make_expert_run(tmp_path / "run", BOTH, GSHARD)
    run = Run(whole)
    vocabulary = Vocabulary.load(run.vocabularies()["source"])
    text = run.config.read_text() + (
        "include 'gin_configs/runs/train.gin'\nMIXTURE_OR_TASK_NAME = 'made'\nTRAIN_STEPS = 50\n"
        f"MODEL_DIR = 'old'\nVOCAB_SIZE = {vocabulary.size + 3}\nTARGET_VOCAB_SIZE = 0\n"
        "MODEL = @transformer.Transformer()\n"
    )
    run.config.write_text(text)
    manifest = read_manifest(run.manifest)
    ids = vocabulary.encode("<2eng> eins zwei"), vocabulary.encode("one two")
    built = cache.build(
        tmp_path / "cache", {("train", code): lambda: [ids] * 9 for code in manifest.languages},
        name="made", target="eng_Latn", corpus_hash="",
        vocabularies=dict.fromkeys(("source", "target"), run.vocabularies()["source"]),
    )  # fmt: skip
    built.write(whole)
    folder = write_corpus(tmp_path / "new", {"nld": "nul een twee drie vier".split()})
    made = extend.extend(
        run, corpora.load(folder), tmp_path / "out", old=cache.open_cache(tmp_path / "cache")
    )
    assert made.steps == 5
    after = read_manifest(Run(tmp_path / "out").manifest).languages
    assert after == ("deu_Latn", "fra_Latn", "nld_Latn", "nya_Latn", "swh_Latn")
    tables = [
        parameter_names.to_flat(hf_runs.parameters(each), Run(each).model().config)
        for each in (whole, tmp_path / "out")
    ]
    routers = [name for name in tables[0] if name.endswith("/mlp/router")]
    for name in routers:
        np.testing.assert_array_equal(tables[1][name], tables[0][name][jnp.array([0, 1, 0, 2, 3])])
    assert len(routers) == 3


@pytest.mark.parametrize("bound", ["", "mixing.Mixing.at_least = 200"])
def test_a_second_extension_keeps_small_languages_of_the_first(
    bound, extended, new_corpus, tmp_path
):
    """`at_least` of the first model omits languages of few pairs; not those that were added."""
    run = Run(shutil.copytree(extended, tmp_path / "first"))
    run.config.write_text(run.config.read_text() + bound + "\n")
    config.load([run.config], [f"MODEL_DIR={tmp_path}/grown"])
    assert bound or not config.configured(mixing.Mixing)().at_least
    folder = write_corpus(tmp_path / "third", {"nld": "nul een twee drie vier".split()})
    old = cache.open_cache(Run(extended).cache)
    extend.extend(run, corpora.load(folder), tmp_path / "out", old=old)
    counts = read_manifest(Run(tmp_path / "out").manifest).counts["train"]
    assert counts["kat_Geor"] == counts["nld_Latn"] == 120


@pytest.mark.slow
def test_it_learns_the_new_languages_and_keeps_the_old(extended, mmt_command, tmp_path):
    flags = [f"--gin.{name}=150" for name in ("TRAIN_STEPS", "EVAL_PERIOD", "CHECKPOINT_PERIOD")]
    flags.append(f"--gin.MODEL_DIR={tmp_path}/grown")
    done = mmt_command("train", f"--gin_file={extended}/config.gin", *flags)
    assert done.returncode == 0, done.stderr.decode()
    translator = Translator.load(tmp_path / "grown")
    lines = {"eins zwei": "one two", "vier": "four", "ერთი ორი": "one two", "czwórka": "four"}
    assert [line.text for line in translator.translate(list(lines))] == list(lines.values())
    assert translator.identify(["ერთი ორი სამი"])[0][0][0] == "kat_Geor"
