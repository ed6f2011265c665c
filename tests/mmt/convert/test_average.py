"""`mmt average`: the weighted mean of several runs, against numpy in float64."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

from mmt.convert import average, derived
from mmt.data.cache.manifest import read_manifest
from mmt.run import Run
from mmt.translate import Translator
from tests.helpers import hf_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run, and two that were "trained further": each parameter moves by noise of its own."""
    folder = tmp_path_factory.mktemp("average")
    runs = [hf_runs.make_run(folder / "first")]
    first = Run(runs[0])
    for seed, name in enumerate(("second", "third"), 1):
        random = np.random.default_rng(seed)
        moved = {name: leaf + random.normal(size=leaf.shape).astype(np.float32)
                 for name, leaf in derived.parameters(first).items()}  # fmt: skip
        manifest = dataclasses.replace(read_manifest(first.manifest), languages=("fra_Latn",))
        derived.write_run(first, folder / name, (), manifest, moved)
        runs.append(folder / name)
    return runs


def leaves(run):
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(hf_runs.parameters(run))]


@pytest.mark.parametrize("weights", [None, [0.5, 0.2, 0.3]])
def test_every_parameter_is_the_weighted_mean(runs, weights, tmp_path):
    average.average(runs, tmp_path / "out", weights)
    factors = weights or [1 / 3] * 3
    expected = [
        sum(factor * leaf for factor, leaf in zip(factors, group, strict=True))
        for group in zip(*map(leaves, runs), strict=True)
    ]
    for actual, mean in zip(leaves(tmp_path / "out"), expected, strict=True):
        np.testing.assert_allclose(actual, mean, rtol=1e-5, atol=1e-6)
    assert read_manifest(Run(tmp_path / "out").manifest) == read_manifest(Run(runs[0]).manifest)
    (translation,) = Translator.load(tmp_path / "out").translate(["Guten Tag"], source="de")
    assert isinstance(translation.text, str)


def test_the_mean_of_a_run_and_itself_is_the_run(runs, tmp_path):
    average.average([runs[1], runs[1]], tmp_path / "out")
    for actual, expected in zip(leaves(tmp_path / "out"), leaves(runs[1]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("count", "weights", "message"),
    [
        (1, None, "one run has no mean"),
        (2, [1.0], r"weights 1.0 of 2 runs; allowed: one per run"),
        (2, [float("nan")] * 2, r"weights nan, nan of 2 runs; allowed: .* above 0, with the sum 1"),
        (2, [0.5, 0.6], "with the sum 1"),
        (2, [1.5, -0.5], "above 0"),
    ],
)
def test_weights_that_are_no_mean_are_refused(runs, count, weights, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        average.average(runs[:count], tmp_path / "out", weights)
    assert list(tmp_path.iterdir()) == []


def test_other_models_and_vocabularies_are_refused(runs, tmp_path):
    wide = hf_runs.make_run(tmp_path / "wide", mlp_dim=32)
    with pytest.raises(ValueError, match=r"wide has another model than .*first: the weights"):
        average.average([runs[0], wide], tmp_path / "out")
    other = hf_runs.make_run(tmp_path / "other", target="fra_Latn")
    with pytest.raises(ValueError, match=r"other has another source vocabulary \(.*\) than"):
        average.average([runs[0], other], tmp_path / "out")
    with pytest.raises(ValueError, match="nowhere is no model directory"):
        average.average([runs[0], tmp_path / "nowhere"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mlp_activations": ("relu", "linear")}, r"Config.mlp_activations is \('relu', "),
        ({"relative_max_distance": 64}, "Config.relative_max_distance is 64, there 128$"),
        ({"start_id": 1}, "Config.start_id is 1, there 0$"),
    ],
)
def test_other_options_are_refused(runs, options, message, tmp_path):
    other = hf_runs.make_run(tmp_path / "other", **options)
    with pytest.raises(ValueError, match=f"other has another model than .*first: {message}"):
        average.average([runs[0], other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_of_training_and_speed_may_differ(runs, tmp_path):
    other = hf_runs.make_run(tmp_path / "other", dropout_rate=0.3, dtype="bfloat16", remat="full")
    average.average([runs[0], other], tmp_path / "out")
    assert Run(tmp_path / "out").model().config == Run(runs[0]).model().config


def test_other_routers_are_refused_and_other_noise_is_not(tmp_path):
    routing = {"encoder_routing": "token", "decoder_routing": "token"}
    experts = {"num_experts": 4, "router": "@moe.switch_top1"}
    different = {
        "first": {}, "noisy": {"jitter": 0.1, "capacity_factor": 2.0},
        "masked": {"output_masking": 0.2}, "gshard": {"router": "@moe.gshard_top2"},
    }  # fmt: skip
    made = {name: hf_runs.make_expert_run(tmp_path / name, routing, experts | more)
            for name, more in different.items()}  # fmt: skip
    average.average([made["first"], made["noisy"]], tmp_path / "out")
    with pytest.raises(ValueError, match="MoeConfig.output_masking is 0.2, there 0.0$"):
        average.average([made["first"], made["masked"]], tmp_path / "no")
    with pytest.raises(ValueError, match="router is gshard_top2, there switch_top1$"):
        average.average([made["first"], made["gshard"]], tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_another_direction_is_refused(runs, tmp_path):
    other = Run(shutil.copytree(runs[1], tmp_path / "other"))
    manifest = read_manifest(other.manifest)
    dataclasses.replace(manifest, source="eng_Latn", target="").write(other.directory)
    with pytest.raises(ValueError, match="other translates from eng_Latn, .* into eng_Latn: "):
        average.average([runs[0], other.directory], tmp_path / "out")
    dataclasses.replace(manifest, target="").write(other.directory)  # as of an imported model
    average.average([runs[0], other.directory], tmp_path / "out")


def test_runs_that_route_by_language_need_the_same_languages(tmp_path):
    routing = {"encoder_routing": "language", "decoder_routing": "token"}
    made = [hf_runs.make_expert_run(tmp_path / name, routing, {"num_experts": 4})
            for name in ("a", "b")]  # fmt: skip
    manifest = read_manifest(Run(made[1]).manifest)
    dataclasses.replace(manifest, languages=manifest.languages[::-1]).write(made[1])
    with pytest.raises(ValueError, match="other languages than .*, which routes by them"):
        average.average(made, tmp_path / "out")


def test_the_command_writes_a_new_directory_only(runs, mmt_command, tmp_path):
    flags = ["average", "--model", str(runs[0]), str(runs[1]), "--weights", "0.25", "0.75"]
    done = mmt_command(*flags, "--out", str(tmp_path / "mean"))
    assert (done.returncode, done.stdout.decode().strip()) == (0, str(tmp_path / "mean"))
    done = mmt_command(*flags, "--out", str(tmp_path / "mean"))
    assert done.returncode != 0 and b"exists" in done.stderr
