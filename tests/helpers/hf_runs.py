"""Run directories of small random models, and their exports, for the tests of conversion."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt import checkpoint
from mmt.convert import hf
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.model import moe
from mmt.model.transformer import Config, Transformer, parameter_shapes
from mmt.run import Run

TEXTS = ["<2eng> Guten Tag, Welt", "Good day, world", "eins zwei drei", "one two three"]
SIZES = {
    "emb_dim": 16, "num_heads": 2, "head_dim": 4, "mlp_dim": 24, "encoder_layers": 2,
    "decoder_layers": 3,
}  # fmt: skip
SWITCH = {
    "moe_period": 2, "mlp_activations": ("relu",), "tied_logits": True,
    "moe": moe.MoeConfig(num_experts=3, router=moe.switch_top1, capacity_factor=1.25),
}  # fmt: skip
VARIANTS = {
    "t5": {},
    "t5, tied": {"tied_logits": True, "mlp_activations": ("relu",)},
    "umt5": {"relative_bias_per_layer": True, "relative_buckets": 16},
    "switch": SWITCH,
    "switch, own logits": SWITCH | {"tied_logits": False},
}


def make_run(directory, *, target="eng_Latn", **options):
    """Makes the run directory of a random model with a vocabulary that is trained here."""
    directory.mkdir()
    vocab.train(TEXTS, directory / "vocabulary.model", size=300, tags=[vocab.tag(target)])
    vocabulary = vocab.Vocabulary.load(directory / "vocabulary.model")
    config = Config(vocabulary.size + 3, **(SIZES | options))
    (directory / "config.gin").write_text(hf.gin_text(config, "made"))
    sides = ("source", "target")
    Manifest(
        "made", target, ("deu_Latn",), {}, "",
        dict.fromkeys(sides, vocabulary.hash), dict.fromkeys(sides, vocabulary.size),
    ).write(directory)  # fmt: skip
    random = np.random.default_rng(0)
    checkpoint.write_params(
        directory, parameter_shapes(Transformer(config)),
        lambda path, shape: random.normal(size=shape.shape).astype(np.float32),
    )  # fmt: skip
    return directory


CODES = ("deu_Latn", "fra_Latn", "nya_Latn", "swh_Latn")  # of `make_expert_run`


def make_expert_run(directory, routing, experts):
    """Makes a random run with experts; its second language has the routing of its last one.

    routing: bindings of `transformer.Config`. experts: those of `moe.MoeConfig`.
    """
    options = {"moe_period": 2, "decoder_layers": 4, "mlp_activations": ("gelu", "linear")}
    make_run(directory, **options)
    by_language = any(value == "language" for value in routing.values())
    more = [f"transformer.Config.{name} = {value!r}" for name, value in routing.items()]
    more += [f"transformer.Config.languages = {len(CODES) if by_language else 0}"]
    more += [f"moe.MoeConfig.{name} = {value}" for name, value in experts.items()]
    config = directory / "config.gin"
    config.write_text("\n".join([config.read_text(), *more, "MODEL_DIR = 'old'", ""]))
    manifest = read_manifest(Run(directory).manifest)
    dataclasses.replace(manifest, languages=CODES).write(directory)
    random = np.random.default_rng(0)

    def leaf(path, shape):
        array = random.normal(size=shape.shape, scale=0.3).astype(np.float32)
        if path.endswith("/mlp/router") and routing[f"{path.split('/')[0]}_routing"] == "language":
            array[..., 1, :] = array[..., 3, :]
        return array

    (directory / "checkpoints/0").rename(directory / "unused")
    checkpoint.write_params(directory, parameter_shapes(Run(directory).model()), leaf)
    return directory


def logits(model, params, language=0):
    """Logits of three rows of one language, in the dtype of the parameters."""
    random = np.random.default_rng(1)
    source, target = random.integers(2, 90, (3, 6)), random.integers(2, 90, (3, 5))
    source[1, 3:] = 0
    ids = jnp.full(target.shape, language)
    arguments = {"params": params}, source, target
    return np.asarray(_applied(model)(*arguments, decoder_language_ids=ids))


@functools.cache
def _applied(model):
    return jax.jit(model.apply)


def parameters(run):
    """Returns the parameters of a run's last checkpoint."""
    return checkpoint.restore_params(run, parameter_shapes(Run(run).model()))


def edit(directory, **changes):
    """Changes entries of an exported directory's config.json."""
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refused(directory, message, **changes):
    """Checks that the import of a directory, so changed, is an error and leaves nothing behind."""
    if changes:
        edit(directory, **changes)
    before = sorted(directory.parent.iterdir())
    with pytest.raises(ValueError, match=message):
        hf.import_hf(directory, directory.parent / "run")
    assert sorted(directory.parent.iterdir()) == before
