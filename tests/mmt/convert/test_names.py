"""The tables of names: complete, one to one, invertible; all faults are listed."""

import numpy as np
import pytest

from mmt.convert import names
from mmt.model import moe, parameter_names
from mmt.model.transformer import Config, Transformer

SIZES = {
    "emb_dim": 12, "num_heads": 2, "head_dim": 5, "mlp_dim": 16, "encoder_layers": 3,
    "decoder_layers": 2,
}  # fmt: skip
PLAIN = {"mlp_activations": ("relu",)}
SWITCH = PLAIN | {"moe": moe.MoeConfig(num_experts=3, router=moe.switch_top1)}
MODELS = {
    "gated": {},
    "plain, tied": PLAIN | {"tied_logits": True},
    "a bias per layer": {"relative_bias_per_layer": True},
    "experts in every other layer": SWITCH | {"moe_period": 2},
    "experts in every layer": SWITCH | {"moe_period": 1},
}


def table(name):
    model = Transformer(Config(30, **(SIZES | MODELS[name])))
    return model, names.table(model)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_its_tensors_and_they_give_it_back(name):
    model, entries = table(name)
    assert {path: entry.shape for path, entry in entries.items()} == parameter_names.shapes(model)
    theirs = [their_name for entry in entries.values() for their_name in entry.theirs]
    assert len(set(theirs)) == len(theirs)
    random = np.random.default_rng(0)
    for entry in entries.values():
        array = random.normal(size=entry.shape)
        tensors = dict(entry.to_theirs(array))
        assert tuple(tensors) == entry.theirs
        assert {tensor.shape for tensor in tensors.values()} == {entry.their_shape}
        np.testing.assert_array_equal(entry.to_ours(tensors.__getitem__), array)


def test_layouts_are_those_of_torch():
    """torch's Linear is y = W x; ours contracts the first axes of a kernel."""
    _, entries = table("experts in every other layer")
    random = np.random.default_rng(0)

    def theirs(path):
        array = random.normal(size=entries[path].shape)
        return array, list(dict(entries[path].to_theirs(array)).values())

    x = random.normal(size=12)
    query, (matrix,) = theirs("encoder/0/self_attention/query")
    np.testing.assert_allclose((matrix @ x).reshape(2, 5), np.einsum("d,dhk->hk", x, query))
    heads = random.normal(size=(2, 5))
    out, (matrix,) = theirs("decoder/1/cross_attention/out")
    np.testing.assert_allclose(matrix @ heads.ravel(), np.einsum("hk,hkd->d", heads, out))
    experts, matrices = theirs("encoder/1/mlp/wi_0")
    for expert, matrix in zip(experts, matrices, strict=True):
        np.testing.assert_allclose(matrix @ x, x @ expert)


def test_names_equal_those_of_hugging_face():
    _, entries = table("experts in every other layer")
    expected = {
        "source_embed/embedding": "shared.weight",
        "decoder/relative_bias/embedding":
            "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "decoder/1/mlp_norm/scale": "decoder.block.1.layer.2.layer_norm.weight",
        "encoder/2/mlp/wi_0": "encoder.block.2.layer.1.mlp.wi.weight",
        "encoder/1/mlp/router": "encoder.block.1.layer.1.mlp.router.classifier.weight",
    }  # fmt: skip
    assert {path: entries[path].theirs for path in expected} == {
        path: (name,) for path, name in expected.items()
    }
    assert entries["decoder/1/mlp/wo"].theirs == tuple(
        f"decoder.block.1.layer.2.mlp.experts.expert_{i}.wo.weight" for i in range(3)
    )
    _, entries = table("gated")
    assert entries["encoder/2/mlp/wi_1"].theirs == (
        "encoder.block.2.layer.1.DenseReluDense.wi_1.weight",
    )
    assert entries["logits/kernel"].theirs == ("lm_head.weight",)


def test_everything_wrong_is_listed_at_once():
    _, entries = table("gated")
    shapes = {name: entry.their_shape for entry in entries.values() for name in entry.theirs}
    names.check(shapes, entries, "here")
    shapes.pop("lm_head.weight")
    shapes |= {"lm_head.bias": (30,), "shared.weight": (30, 13)}
    with pytest.raises(ValueError) as error:
        names.check(shapes, entries, "here")
    assert str(error.value).splitlines() == [
        "here: the weights are not config.json's model:",
        "  lm_head.weight: missing",
        "  lm_head.bias: not in the model",
        "  shared.weight: [30, 13] in the file, [30, 12] by config.json",
    ]


def test_two_vocabularies_have_no_table():
    with pytest.raises(ValueError, match="TARGET_VOCAB_SIZE = 20.* train with TARGET_VOCAB_SIZE"):
        names.table(Transformer(Config(30, target_vocab_size=20, **SIZES)))
