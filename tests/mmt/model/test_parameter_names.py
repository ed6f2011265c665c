"""Parameters by layer: names, round trip, and what is wrong listed whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mmt.model import parameter_names
from mmt.model.moe import MoeConfig
from mmt.model.transformer import Config, Transformer


def model(**options):
    options = {"encoder_layers": 3, "decoder_layers": 2, "emb_dim": 16, "mlp_dim": 24} | options
    return Transformer(Config(20, num_heads=2, head_dim=8, moe=MoeConfig(4), **options))


def parameters(model):
    tokens = jnp.ones((1, 4), jnp.int32)
    return nn.unbox(model.init(jax.random.key(0), tokens, tokens)["params"])


@pytest.mark.parametrize(
    ("period", "per_layer"),
    [(0, True), (1, False)]
    + [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in ((0, False), (1, True), (2, False), (2, True))
    ],
)
def test_round_trip(period, per_layer):
    m = model(moe_period=period, relative_bias_per_layer=per_layer)
    params = parameters(m)
    flat = parameter_names.to_flat(params, m.config)
    assert {name: leaf.shape for name, leaf in flat.items()} == parameter_names.shapes(m)
    jax.tree.map(np.testing.assert_array_equal, parameter_names.from_flat(flat, m), params)
    for layer in range(3):
        experts = period and layer % period == period - 1
        assert (f"encoder/{layer}/mlp/router" in flat) == bool(experts)
        assert (f"encoder/{layer}/relative_bias/embedding" in flat) == per_layer


def test_layers_of_a_dense_and_a_sparse_model_have_the_same_names():
    dense, sparse = parameter_names.shapes(model()), parameter_names.shapes(model(moe_period=2))
    routers = {name for name in sparse if name.endswith("mlp/router")}
    assert sparse.keys() - dense.keys() == routers
    assert routers == {"encoder/1/mlp/router", "decoder/1/mlp/router"}  # the rest has none
    assert sparse["encoder/1/mlp/wi_0"] == (4, *dense["encoder/1/mlp/wi_0"])
    assert sparse["encoder/2/mlp/wi_0"] == dense["encoder/2/mlp/wi_0"]


def test_everything_wrong_is_listed_at_once():
    m = model()
    shapes = parameter_names.shapes(m)
    shapes.pop("encoder/2/mlp/wo")
    shapes |= {"encoder/3/mlp/wo": (24, 16), "encoder/norm/scale": (17,)}
    with pytest.raises(ValueError) as error:
        parameter_names.check(shapes, m)
    for part in (
        "encoder/2/mlp/wo: missing", "encoder/3/mlp/wo: not in the model",
        "encoder/norm/scale: (17,), in the model (16,)",
    ):  # fmt: skip
        assert part in str(error.value)
