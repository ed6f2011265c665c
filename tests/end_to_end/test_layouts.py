"""Every mesh of gin_configs/meshes on 8 made-up devices gives the numbers of one device.

The file is also the program that a test starts, with 8 devices, for one kind of model.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MESHES = sorted(path.stem for path in (ROOT / "gin_configs/meshes").glob("*.gin"))
KINDS = ("dense", "top1", "top2", "language")
STEPS = 3
pytestmark = pytest.mark.mesh


@functools.cache
def measured(kind: str, dtype: str) -> dict:
    """{mesh: {"loss": [...], "apart": {step: {parameter: ||g - g1|| / ||g1||}}, "same text": …}}"""
    environment = os.environ | {
        "XLA_FLAGS": os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": str(dtype == "float64").lower(),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__, kind, dtype], env=environment, cwd=ROOT, timeout=1800,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", MESHES)
def test_gradients_are_those_of_one_device(mesh, kind):
    apart = measured(kind, "float32")[mesh]
    assert max(apart["1"].values()) <= 1e-5, apart["1"]
    assert max(apart["3"].values()) <= 1e-3, apart["3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", MESHES)
def test_in_float64_to_the_ninth_digit(mesh, kind):
    apart = measured(kind, "float64")[mesh]
    for step in range(1, STEPS + 1):
        assert max(apart[str(step)].values()) <= 1e-9, apart[str(step)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mesh", MESHES)
def test_no_token_is_chosen_otherwise(mesh, kind):
    assert measured(kind, "float32")[mesh]["greedy"], "other tokens than on one device"


def test_a_model_cut_over_eight_devices_translates_as_on_one(mmt_command, toy_run):
    """Beam search with a partly filled batch; experts, heads, mlp and vocabulary are sharded."""
    words = ("eins", "zwei", "null"), ("drei", "vier")
    lines = "".join(f"{a} {b}\n" for a in words[0] for b in words[1]).encode()
    command = ("translate", "--model", toy_run, "--from", "de", "--format", "jsonl")
    alone = mmt_command(*command, "--weights", "float32", stdin=lines)
    cut = mmt_command(
        *command, "--gin.device_mesh.axes={'data': 4, 'model': 2}", stdin=lines,
        XLA_FLAGS="--xla_force_host_platform_device_count=8",
    )  # fmt: skip
    assert cut.returncode == 0, cut.stderr.decode()
    on_one, on_eight = (
        [json.loads(line) for line in done.stdout.splitlines()] for done in (alone, cut)
    )
    assert len(on_one) == 6
    for a, b in zip(on_one, on_eight, strict=True):
        (a,), (b,) = a["hypotheses"], b["hypotheses"]
        assert a["text"] == b["text"] and a["score"] == pytest.approx(b["score"], abs=1e-4)


def test_a_mesh_that_cannot_cut_a_batch_is_refused(mmt_command, toy_run):
    done = mmt_command(
        "translate", "--model", toy_run, "--gin.Translator.load.rows=6", stdin=b"eins\n",
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
    )  # fmt: skip
    assert done.returncode == 1
    assert b"batch_size: 6; allowed: multiples of 4" in done.stderr


def model(kind: str, dtype: str):
    """With all that is random: dropout, jitter, dropped second choices, masked experts."""
    from mmt.model import moe, transformer

    experts = moe.MoeConfig(
        num_experts=8, group_size=14, jitter=0.01, expert_dropout=0.1, output_masking=0.1,
        router=moe.switch_top1 if kind == "top1" else moe.gshard_top2,
    )  # fmt: skip
    return transformer.Transformer(
        transformer.Config(
            vocab_size=32, emb_dim=16, num_heads=8, head_dim=8, mlp_dim=32, encoder_layers=3,
            decoder_layers=2, dropout_rate=0.1, dtype=dtype, moe=experts,
            moe_period=0 if kind == "dense" else 2,
            languages=3 if kind == "language" else 0,
            decoder_routing="language" if kind == "language" else "token",
            encoder_routing="language" if kind == "language" else "token",
        )
    )  # fmt: skip


def run(layout, kind: str, dtype: str) -> tuple[list, object]:
    """(gradients of every step, the most likely tokens after the last one)."""
    import jax
    import numpy as np
    import optax
    from conftest import ToyBatches

    from mmt.trainer import Trainer, features

    keeping = optax.GradientTransformation(  # the state is the last gradient
        lambda params: jax.tree.map(jax.numpy.zeros_like, params),
        lambda gradients, *_: (jax.tree.map(lambda g: -0.1 * g, gradients), gradients),
    )
    program = Trainer(model(kind, dtype), keeping, layout=layout)
    state, batches, gradients = program.init(3), ToyBatches(rows=16, length=7), []
    for _ in range(STEPS):
        state, _ = program.step(state, program.place(next(batches)))
        gradients.append(jax.tree.map(np.asarray, state.opt_state))
    batch = program.place(next(batches))
    with layout.active():
        logits = jax.jit(program.model.apply)(
            {"params": state.params}, **features(program.model, batch)
        )
    return gradients, np.asarray(logits).argmax(-1)


def main(kind: str, dtype: str) -> None:
    """Prints what `measured` reads."""
    import jax
    import numpy as np

    from mmt import config, sharding

    with sharding.devices(jax.devices()[:1]):
        single = sharding.device_mesh()
    expected, tokens = run(sharding.Layout(single), kind, dtype)
    losses = {}
    for mesh in MESHES:
        config.load([f"gin_configs/meshes/{mesh}.gin"], [])
        layout = config.configured(sharding.Layout)()
        gradients, chosen = run(layout, kind, dtype)
        losses[mesh] = {"greedy": bool((chosen == tokens).all())}
        for step, (ours, theirs) in enumerate(zip(gradients, expected, strict=True), start=1):
            theirs = dict(jax.tree_util.tree_leaves_with_path(theirs))
            losses[mesh][step] = {
                jax.tree_util.keystr(path): float(
                    np.linalg.norm(leaf - theirs[path]) / max(np.linalg.norm(theirs[path]), 1e-30)
                )
                for path, leaf in jax.tree_util.tree_leaves_with_path(ours)
            }
    print(json.dumps(losses))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    main(*sys.argv[1:])
