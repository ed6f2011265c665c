"""`mmt extract`: the experts of one language as a dense model with the same logits."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.convert import ctranslate2, extract, hf
from mmt.data.cache.manifest import read_manifest
from mmt.model import moe
from mmt.model.transformer import Transformer
from mmt.run import Run
from tests.helpers import hf_runs
from tests.helpers.hf_runs import make_expert_run

BOTH = {"encoder_routing": "language", "decoder_routing": "language"}
DECODER = {"encoder_routing": "token", "decoder_routing": "language"}
GSHARD = {"router": "@moe.gshard_top2", "num_experts": 5}
FORMS = {
    "top-2": (BOTH, GSHARD),
    "top-1": (BOTH, {"router": "@moe.switch_top1", "num_experts": 3}),
    "narrow": (BOTH, GSHARD | {"mlp_dim": 7}),
    "shared": (BOTH, GSHARD | {"shared_mlp_dim": 9}),
    "masked": (BOTH, GSHARD | {"output_masking": 0.2, "final_output_masking": 0.1}),
    "bias": (BOTH, GSHARD | {"balance_rate": 0.01}),
    "decoder": (DECODER, GSHARD),
    "decoder, wide": (DECODER, GSHARD | {"mlp_dim": 30}),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_expert_run(tmp_path_factory.mktemp("extract") / "run", BOTH, GSHARD)


def logits(directory, language):
    """Logits in float64 of three rows of one language."""
    config = Run(directory).model().config
    params = hf_runs.parameters(directory)
    with jax.enable_x64(True):
        model = Transformer(dataclasses.replace(config, dtype="float64"))
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params)
        return hf_runs.logits(model, params, language)


@pytest.mark.parametrize(
    "form",
    [
        "top-2", "decoder, wide",
        *(pytest.param(form, marks=pytest.mark.slow)
          for form in ("top-1", "shared", "narrow", "masked", "bias", "decoder")),
    ],
)  # fmt: skip
def test_the_dense_model_has_the_logits_of_its_language(form, tmp_path):
    routing, experts = FORMS[form]
    whole = make_expert_run(tmp_path / "run", routing, experts)
    extract.extract(whole, ["Swahili"], tmp_path / "out")
    of_swahili, of_german = logits(whole, 3), logits(whole, 0)
    np.testing.assert_allclose(logits(tmp_path / "out", 0), of_swahili, rtol=2e-5, atol=2e-5)
    assert np.abs(of_swahili - of_german).max() > 0.01
    config = Run(tmp_path / "out").model().config
    assert not config.languages
    if routing is BOTH:
        assert config.moe_period == 0
    else:
        assert config.has_experts("encoder") and not config.has_experts("decoder")
        assert config.moe.num_experts == moe.MoeConfig(5).num_experts
    assert read_manifest(Run(tmp_path / "out").manifest).languages == ("swh_Latn",)


def test_the_dense_model_can_be_exported(run, tmp_path):
    extract.extract(run, ["swh"], tmp_path / "out")
    hf.export_hf(tmp_path / "out", tmp_path / "hf")
    with pytest.raises(ValueError, match="dense|distil"):
        ctranslate2.export(run, tmp_path / "none")


@pytest.mark.slow
def test_languages_with_one_routing_fit_together(run, tmp_path, mmt_command):
    out = tmp_path / "out"
    done = mmt_command("extract", "--model", run, "--languages", "swh,French", "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    assert " of the size" in done.stdout.decode()
    assert read_manifest(Run(out).manifest).languages == ("fra_Latn", "swh_Latn")
    for language in (1, 3):
        np.testing.assert_allclose(logits(out, 0), logits(run, language), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (["swh", "fra", "deu"], "extracted together: deu_Latn; fra_Latn, swh_Latn"),
        (["zul"], "does not have zul_Latn .*nearest: "),
        (["swhh"], "swhh"),
    ],
)
def test_other_languages_are_refused(run, tmp_path, languages, message):
    with pytest.raises(ValueError, match=message):
        extract.extract(run, languages, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_models_without_experts_of_a_language_are_refused(tmp_path):
    dense = hf_runs.make_run(tmp_path / "dense")
    with pytest.raises(ValueError, match="does not route by language"):
        extract.extract(dense, ["deu"], tmp_path / "out")
    gate = {"shared_mlp_dim": 4, "gate_budget": 0.8}
    gated = make_expert_run(tmp_path / "gated", BOTH, GSHARD | gate)
    with pytest.raises(ValueError, match="gate_budget = 0.8"):
        extract.extract(gated, ["deu"], tmp_path / "out")
