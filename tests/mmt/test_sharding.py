"""The mesh and the table of rules; numbers on 8 devices are tests/test_layouts.py's."""

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn

from mmt import sharding
from mmt.model import moe, transformer


def test_one_device_is_a_mesh():
    mesh = sharding.device_mesh()
    assert dict(mesh.shape) == {"data": jax.device_count(), "model": 1}


def test_a_mesh_that_does_not_fill_the_devices_is_an_error():
    with pytest.raises(ValueError, match="does not fit"):
        sharding.device_mesh({"data": 3, "model": 5})


def test_a_rule_for_an_unknown_axis_is_an_error():
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


SIZES = {"data": 4, "model": 2}


def eight(axes=None, **options):
    """A layout of eight devices that nothing runs on."""
    axes = axes or SIZES
    mesh = jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes))
    return sharding.Layout(mesh, **options)


def shapes(**sizes):
    """The parameters of a small model with experts, boxed with their axes."""
    config = transformer.Config(**{
        "vocab_size": 32, "emb_dim": 16, "num_heads": 4, "mlp_dim": 32, "encoder_layers": 2,
        "decoder_layers": 2, "moe_period": 2, "moe": moe.MoeConfig(num_experts=8), **sizes,
    })  # fmt: skip
    tokens = jnp.zeros((1, 8), jnp.int32)
    init = transformer.Transformer(config).init
    return jax.eval_shape(lambda: init(jax.random.key(0), tokens, tokens)["params"])


def test_a_mesh_larger_than_the_devices_is_an_error():
    with pytest.raises(ValueError, match="{'data': 64} does not fit 1 devices.*multiply to 1"):
        sharding.device_mesh({"data": 64})


def test_a_row_of_the_table_is_replaced_where_it_stands():
    layout = eight({"data": 4, "expert": 2, "model": 1}, over={"expert": "expert"})
    assert dict(layout.rules)["expert"] == "expert"
    assert [row[0] for row in layout.rules] == [row[0] for row in sharding.RULES]
    assert layout.parts("expert") == 2 and layout.parts("batch") == 4
    with pytest.raises(ValueError, match="no axis 'experts'; nearest: expert; allowed: batch"):
        eight(over={"experts": "data"})


def test_an_axis_over_the_product_of_two():
    layout = eight(over={"expert": ("data", "model"), "mlp": None})
    assert layout.parts("expert") == 8
    specs = {sharding_.spec[0] for sharding_ in jax.tree.leaves(layout.parameters(shapes()))}
    assert "data" not in specs


def test_alternatives_leave_whole_what_another_axis_cuts():
    layout = eight(over={"embed": ["data", None]})
    blocks = layout.parameters(shapes())["encoder"]["blocks"]
    experts = blocks["layers_1"]["mlp"]["wi_0"].spec  # [layers expert embed mlp]
    dense = blocks["layers_0"]["mlp"]["wi_0"].spec  # [layers embed mlp]
    assert tuple(experts) == (None, "data", None, "model")
    assert tuple(dense) == (None, "data", "model")


def test_an_axis_used_twice_names_parameter_and_axes():
    where = r"mlp/wi_0 \[layers 1, expert 8, embed 16, mlp 32\]: rule \('embed', 'data'\): mesh "
    with pytest.raises(ValueError, match=where + r"axis 'data' already shards its axis 'expert'; "):
        eight(over={"embed": "data"}).parameters(shapes())


def test_an_axis_that_does_not_divide_names_parameter_and_sizes():
    where = r"mlp/wi_0 \[layers 1, expert 6, .*: its axis 'expert' of 6 is not divisible by mesh "
    with pytest.raises(ValueError, match=where + r"axes \{'data'\} of 4 devices"):
        eight().parameters(shapes(moe=moe.MoeConfig(num_experts=6)))


def test_rows_apply_as_flax_reads_them():
    layout = eight(over={"embed": ["data", "model", None]})
    for names in (("expert", "embed", "mlp"), ("embed", "heads", "kv"), ("vocab", "embed")):
        assert layout._spec(names) == list(nn.logical_to_mesh_axes(names, layout.rules))


def test_a_torus_whose_sides_the_mesh_does_not_follow_is_cut(monkeypatch):
    """As jax.make_mesh refuses 512 x 4 on 8 x 16 x 16 chips."""

    def refuse(*_, **__):
        raise NotImplementedError

    monkeypatch.setattr(jax, "make_mesh", refuse)
    mesh = sharding.device_mesh({"data": -1, "model": 1})
    assert mesh.shape == {"data": jax.device_count(), "model": 1}
    assert set(mesh.axis_types) == {jax.sharding.AxisType.Auto}
