"""The mesh and the table of rules, on the devices there are; layouts on 8 are marked `mesh`."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from mmt import sharding


def test_one_device_is_a_mesh():
    mesh = sharding.device_mesh()
    assert dict(mesh.shape) == {"data": jax.device_count(), "model": 1}


def test_a_mesh_that_does_not_fill_the_devices():
    with pytest.raises(ValueError, match="does not fill"):
        sharding.device_mesh({"data": 3, "model": 5})


def test_a_rule_for_an_axis_that_is_not_there():
    with pytest.raises(ValueError, match="no axis 'modl'.*nearest: model"):
        sharding.Layout(rules=(("heads", "modl"),))


def test_optimizer_state_lies_with_its_parameter():
    spec = sharding._matching_spec((4, 6), (4, 6), jax.sharding.PartitionSpec("data", "model"))
    assert tuple(spec) == ("data", "model")
    row = sharding._matching_spec((3, 4), (3, 4, 6), jax.sharding.PartitionSpec(None, "a", "b"))
    assert tuple(row) == (None, "a")
    column = sharding._matching_spec((3, 6), (3, 4, 6), jax.sharding.PartitionSpec(None, "a", "b"))
    assert tuple(column) == (None, "b")
    assert tuple(sharding._matching_spec((), (4, 6), jax.sharding.PartitionSpec("a"))) == ()


@pytest.mark.mesh
@pytest.mark.parametrize("moe_period", [0, 2])
@pytest.mark.parametrize("axes", [{"data": 8, "model": 1}, {"data": 4, "model": 2}])
def test_eight_devices_give_the_numbers_of_one(axes, moe_period):
    """One step on 8 made-up devices against the same step on a mesh of one, in a process apart."""
    code = f"""
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import jax, numpy as np, optax
from conftest import ToyBatches
from mmt import sharding, train
from mmt.model import moe, transformer
config = transformer.Config(vocab_size=24, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
    encoder_layers=2, decoder_layers=2, moe_period={moe_period}, moe=moe.MoeConfig(num_experts=8))
def after(mesh):
    program = train.Program(transformer.Transformer(config), optax.sgd(0.1),
                            layout=sharding.Layout(mesh))
    state, loss = program.step(program.init(3), program.place(next(ToyBatches(rows=16))))
    return jax.tree.map(np.asarray, state.params), float(loss)
one = jax.make_mesh((1, 1), ("data", "model"), devices=jax.devices()[:1],
                    axis_types=(jax.sharding.AxisType.Auto,) * 2)
params, loss = after(one)
others, other = after(sharding.device_mesh({axes!r}))
np.testing.assert_allclose(other, loss, rtol=1e-5)
jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), params, others)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
