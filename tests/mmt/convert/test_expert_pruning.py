"""`mmt extract --experts`: the most used experts of languages, as a mixture or a dense model."""

import dataclasses
import re
import shlex
import shutil

import numpy as np
import pytest

from mmt.convert import derived, expert_pruning, hf
from mmt.convert.expert_pruning import Pruning, prune
from mmt.data import corpora
from mmt.data.cache.manifest import read_manifest
from mmt.decoding import Decoding
from mmt.model import parameter_names
from mmt.model.transformer import Transformer
from mmt.run import Run
from mmt.translate import Translator
from tests.helpers import hf_runs

TOKEN = {"encoder_routing": "token", "decoder_routing": "token"}
LANGUAGE = {"encoder_routing": "language", "decoder_routing": "language"}
GSHARD = {"router": "@moe.gshard_top2", "num_experts": 4}
SWITCH = {"router": "@moe.switch_top1", "num_experts": 4}
GATE = {"shared_mlp_dim": 9, "gate_budget": 0.8}
FEW = Pruning(lines=8)
FORMS_OF_ONE = ("gshard", "switch", "shared")


@pytest.fixture(scope="module")
def corpus(toy_corpus):
    return corpora.load(toy_corpus)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """name -> the directory of a random run, made once each."""
    made = {}
    forms = {
        "gshard": (TOKEN, GSHARD), "switch": (TOKEN, SWITCH), "gate": (TOKEN, GSHARD | GATE),
        "masked": (TOKEN, SWITCH | {"output_masking": 0.2, "balance_rate": 0.01}),
        "shared": (TOKEN, GSHARD | {"shared_mlp_dim": 9, "mlp_dim": 7}),
        "language": (LANGUAGE, GSHARD | {"num_experts": 5}),
    }  # fmt: skip

    def get(name):
        if name not in made:
            directory = tmp_path_factory.mktemp("pruning") / "run"
            made[name] = hf_runs.make_expert_run(directory, *forms[name])
        return made[name]

    return get


def logits(directory, language=0):
    return hf_runs.logits(Run(directory).model(), hf_runs.parameters(directory), language)


def mixture(run, kept, scale):
    """Logits of a run's model with one expert in each layer, and its output times a scale."""
    flat = derived.parameters(Run(run))
    for mlp, number in kept.items():
        for name in [name for name in flat if name.startswith(f"{mlp}/w")]:
            flat[name] = flat[name][[number]]
        for name in (f"{mlp}/router", f"{mlp}/router_bias"):
            if name in flat:
                flat[name] = flat[name][..., [number]]
        flat[f"{mlp}/wo"] = flat[f"{mlp}/wo"] * np.float32(scale[mlp])
    c = Run(run).model().config
    model = Transformer(dataclasses.replace(c, moe=dataclasses.replace(c.moe, num_experts=1)))
    return hf_runs.logits(model, parameter_names.from_flat(flat, model))


@pytest.mark.parametrize(
    "name", ["masked", *(pytest.param(name, marks=pytest.mark.slow) for name in FORMS_OF_ONE)]
)
def test_one_expert_is_a_dense_model_with_the_logits_of_a_mixture_of_it(
    name, runs, corpus, tmp_path
):
    run, out = runs(name), tmp_path / "out"
    kept = prune(run, ["deu"], 1, out, corpus=corpus, options=FEW).kept
    assert Run(out).model().config.moe_period == 0
    before, after = (derived.parameters(Run(directory)) for directory in (run, out))
    scale = dict.fromkeys(kept, 1.0)
    if name in ("switch", "masked"):  # the mean gate, which is the largest of four probabilities
        for mlp, (number,) in kept.items():
            ratio = after[f"{mlp}/wo"] / before[f"{mlp}/wo"][number]
            scale[mlp] = ratio.mean() / (0.8 if name == "masked" else 1.0)
            np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-4)
            assert 1 / 4 < scale[mlp] < 1
    expected = mixture(run, {mlp: number for mlp, (number,) in kept.items()}, scale)
    np.testing.assert_allclose(logits(out), expected, rtol=1e-4, atol=1e-5)
    assert read_manifest(Run(out).manifest).languages == ("deu_Latn",)


@pytest.mark.slow
def test_all_experts_are_the_whole_model(runs, corpus, tmp_path):
    made = prune(runs("switch"), ["deu", "swh"], 4, tmp_path / "out", corpus=corpus, options=FEW)
    np.testing.assert_array_equal(logits(tmp_path / "out"), logits(runs("switch")))
    assert all(kept == (0, 1, 2, 3) for kept in made.kept.values())
    assert made.mass == pytest.approx(dict.fromkeys(made.kept, 1.0))
    assert (made.lines, made.experts) == (16, 4)


@pytest.mark.parametrize(
    "name", ["switch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gshard", "gate"))]
)
def test_a_smaller_mixture_has_the_experts_with_most_gates(name, runs, corpus, tmp_path):
    run, out = runs(name), tmp_path / "out"
    made = prune(run, ["deu"], 2, out, corpus=corpus, options=FEW)
    assert Run(out).model().config.moe.num_experts == 2
    before, after = (derived.parameters(Run(directory)) for directory in (run, out))
    assert before.keys() == after.keys()
    for mlp, kept in made.kept.items():
        assert 0.5 <= made.mass[mlp] < 1  # two of four, with the most
        chosen = list(kept)
        np.testing.assert_array_equal(
            after[f"{mlp}/router"], before[f"{mlp}/router"][:, chosen]
        )
        np.testing.assert_array_equal(after[f"{mlp}/wi_0"], before[f"{mlp}/wi_0"][chosen])
        ratio = (after[f"{mlp}/wo"] / before[f"{mlp}/wo"][chosen]).mean(axis=(1, 2))
        if name == "switch":
            assert (ratio < 1).all() and (ratio > 1 / 4).all()
        else:
            np.testing.assert_array_equal(ratio, 1)
    others = [name for name in before if "/mlp/w" not in name and "router" not in name]
    for other in others:
        np.testing.assert_array_equal(after[other], before[other])
    [line] = Translator.load(out).translate(["eins zwei"], source="deu")
    assert isinstance(line.text, str)


@pytest.mark.slow
def test_languages_that_share_no_experts_keep_their_routes(runs, corpus, tmp_path):
    """French and Swahili have the same two experts, German others: two, then all that are used."""
    run, out = runs("language"), tmp_path / "out"
    prune(run, ["swh", "fra"], 2, out, corpus=corpus, options=FEW)
    assert read_manifest(Run(out).manifest).languages == ("fra_Latn", "swh_Latn")
    np.testing.assert_allclose(logits(out, 1), logits(run, 3), rtol=1e-4, atol=1e-4)
    prune(run, ["deu", "swh"], 4, tmp_path / "both", corpus=corpus, options=FEW)
    for new, old in enumerate((0, 3)):
        actual = logits(tmp_path / "both", new)
        np.testing.assert_allclose(actual, logits(run, old), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["average", "sum"])
def test_equal_experts_merge_into_the_same_model(how, runs, corpus, tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    shutil.copytree(runs("gshard"), run)
    shutil.rmtree(run / "checkpoints")
    flat = derived.parameters(Run(runs("gshard")))
    for name, leaf in flat.items():
        if "/mlp/w" in name and leaf.ndim == 3:
            flat[name] = np.broadcast_to(leaf[:1], leaf.shape)
    derived.write_parameters(run, flat)
    options = Pruning(lines=8, merge=how)
    prune(run, ["deu", "fra"], 3, out, corpus=corpus, options=options)
    assert Run(out).model().config.mlp_dim == (3 if how == "sum" else 1) * 24
    np.testing.assert_allclose(logits(out), logits(run), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_conditional_routing_stays_a_mixture(runs, corpus, tmp_path):
    prune(runs("gate"), ["deu"], 1, tmp_path / "out", corpus=corpus, options=FEW)
    config = Run(tmp_path / "out").model().config
    assert (config.moe_period, config.moe.num_experts, config.moe.gate_budget) == (2, 1, 0.8)
    with pytest.raises(ValueError, match="Pruning.merge = average: .*gate_budget = 0.8"):
        options = Pruning(merge="average")
        prune(runs("gate"), ["deu"], 2, tmp_path / "no", corpus=corpus, options=options)


@pytest.mark.slow
def test_the_sample_is_the_same_again(runs, corpus, tmp_path):
    made = [
        prune(runs("gshard"), ["deu"], 2, tmp_path / str(i), corpus=corpus,
              options=Pruning(lines=5, seed=seed))
        for i, seed in enumerate((0, 0, 1))
    ]  # fmt: skip
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("languages", "experts", "message"),
    [
        (["zul"], 1, "does not have zul_Latn .*nearest: nya_Latn, swh"),
        (["germn"], 1, "germn.*German"),
        (["deu"], 5, r"5 experts \(--experts\): a layer of .* has 4; allowed: 1 to 4"),
        (["deu"], 0, "0 experts"),
        (["deu", "nya"], 2, "no lines of nya_Latn .*nearest: "),
    ],
)
def test_what_cannot_be_taken_is_refused(languages, experts, message, runs, corpus, tmp_path):
    with pytest.raises(ValueError, match=message):
        prune(runs("gshard"), languages, experts, tmp_path / "out", corpus=corpus, options=FEW)
    assert not list(tmp_path.iterdir())


def test_other_models_and_corpora_are_refused(runs, corpus, tmp_path):
    dense = hf_runs.make_run(tmp_path / "dense")
    with pytest.raises(ValueError, match="dense model: there are no experts"):
        prune(dense, ["deu"], 1, tmp_path / "out", corpus=corpus)
    with pytest.raises(ValueError, match="names no corpus .*--corpus"):
        expert_pruning.corpus_of(Run(dense))
    french = dataclasses.replace(corpus, target="fra_Latn")
    with pytest.raises(ValueError, match="target fra_Latn; the model translates into eng_Latn"):
        prune(runs("gshard"), ["deu"], 1, tmp_path / "out", corpus=french)
    with pytest.raises(ValueError, match="merge.*'mean'.*average"):
        Pruning(merge="mean")


@pytest.mark.slow
def test_the_dense_model_can_be_exported_and_imported(runs, corpus, tmp_path):
    prune(runs("gshard"), ["deu"], 1, tmp_path / "out", corpus=corpus, options=FEW)
    hf.export_hf(tmp_path / "out", tmp_path / "hf")
    hf.import_hf(tmp_path / "hf", tmp_path / "again")
    np.testing.assert_array_equal(logits(tmp_path / "again"), logits(tmp_path / "out"))


@pytest.mark.slow
def test_a_short_distillation_recovers_quality(toy_run, toy_corpus, tmp_path, mmt_command):
    """The printed command, with more steps, raises the scores of the extracted model."""
    from eval import extraction, testsets

    out, data = tmp_path / "out", str(toy_corpus.parent)
    done = mmt_command(
        "extract", "--model", toy_run, "--languages", "German", "--experts", 1, "--out", out,
        MMT_DATA=data,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    assert re.search(r"^extracted: \d+% of the size, \d+\.\d\d times as fast", text, re.MULTILINE)
    assert re.search(r"^original\t[\d,]+\t", text, re.MULTILINE)
    assert text.splitlines()[-1] == str(out)
    command = re.search("^train it further: mmt (.+)$", done.stderr.decode(), re.MULTILINE)[1]
    done = mmt_command(*shlex.split(command), "--gin.TRAIN_STEPS=200", MMT_DATA=data)
    assert done.returncode == 0, done.stderr.decode()
    testset = testsets.load(toy_corpus).only(["deu"])
    compared = extraction.compare(out, f"{out}-recovered", testset)
    before, after = (
        compared.mean(name, "chrf") for name in (extraction.ORIGINAL, extraction.EXTRACTED)
    )
    assert after > before + 5
    assert Run(f"{out}-recovered").model().config.moe_period == 0


@pytest.mark.parity
def test_the_dense_model_translates_alike_in_ctranslate2(
    toy_run, toy_corpus, tmp_path, record_property
):
    pytest.importorskip("ctranslate2")
    corpus = corpora.load(toy_corpus)
    prune(toy_run, ["deu"], 1, tmp_path / "out", corpus=corpus)
    lines = sorted({pair.source for pair in corpus.pairs("deu", "test")})
    ours, theirs = (
        [
            line.text
            for line in Translator.load(tmp_path / "out", engine=engine).translate(
                lines, decoding=Decoding(search_style="hf")
            )
        ]
        for engine in ("jax", "ctranslate2")
    )
    same = sum(map(str.__eq__, ours, theirs))
    record_property("extracted dense model, lines as CTranslate2", f"{same} of {len(lines)}")
    assert same >= len(lines) - 1  # ties of two logits
