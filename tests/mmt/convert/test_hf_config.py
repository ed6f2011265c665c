"""config.json and Config: the published files in both directions, and settings without an
equivalent.
"""

import dataclasses

import pytest

from mmt.convert import hf_config
from mmt.model import moe
from mmt.model.transformer import Config

T5_SMALL = {  # google-t5/t5-small
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06, "model_type": "t5", "num_heads": 8, "num_layers": 6,
    "pad_token_id": 0, "relative_attention_num_buckets": 32, "vocab_size": 32128,
}  # fmt: skip
MADLAD_3B = T5_SMALL | {
    "d_ff": 8192, "d_kv": 128, "d_model": 1024, "num_heads": 16, "num_layers": 32,
    "num_decoder_layers": 32, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    "pad_token_id": 1, "eos_token_id": 2, "vocab_size": 256000,
}  # fmt: skip
SWITCH = T5_SMALL | {
    "model_type": "switch_transformers", "num_layers": 12, "num_decoder_layers": 12,
    "num_sparse_encoder_layers": 6, "num_sparse_decoder_layers": 6, "num_experts": 8,
    "architectures": ["SwitchTransformersForConditionalGeneration"], "router_jitter_noise": 0.01,
}  # fmt: skip


def to_config(values, generation=None):
    return hf_config.to_config(values, generation or {}, where="config.json")


def test_published_settings():
    small = to_config(T5_SMALL)
    assert (small.mlp_activations, small.tied_logits, small.decoder_layers) == (("relu",), True, 6)
    madlad = to_config(MADLAD_3B)
    assert (madlad.mlp_activations, madlad.tied_logits) == (("gelu", "linear"), False)
    assert (madlad.pad_id, madlad.eos_id, madlad.start_id) == (1, 2, 0)
    assert (madlad.head_dim, madlad.encoder_layers) == (128, 32)
    switch = to_config(SWITCH)
    assert (switch.moe_period, switch.moe.num_experts, switch.moe.jitter) == (2, 8, 0.01)
    assert switch.moe.router is moe.switch_top1


@pytest.mark.parametrize("values", [T5_SMALL, MADLAD_3B, SWITCH], ids=["t5", "madlad", "switch"])
def test_settings_round_trip(values):
    made = to_config(values)
    again = hf_config.from_config(made)
    assert to_config(again) == made
    known = values.keys() & again.keys()
    sparse = {"num_sparse_encoder_layers", "num_sparse_decoder_layers"}
    assert {name: again[name] for name in known - sparse} == {
        name: values[name] for name in known - sparse
    }


@pytest.mark.parametrize("period", [1, 2])
@pytest.mark.parametrize("layers", range(1, 13))
def test_sparse_layers_are_those_of_ours(period, layers):
    """By Hugging Face's rule: i % step == 1, or all layers if the step is 1."""
    made = dataclasses.replace(
        to_config(SWITCH), encoder_layers=layers, decoder_layers=12, moe_period=period
    )
    ours = {i for i in range(layers) if i % period == period - 1}
    if not ours:  # one layer always has experts there
        with pytest.raises(ValueError, match=r"experts in layers \[\] of 1"):
            hf_config.from_config(made)
        return
    converted = hf_config.from_config(made)
    step = layers // converted["num_sparse_encoder_layers"]
    assert step == converted["encoder_sparse_step"]
    assert {i for i in range(layers) if step == 1 or i % step == 1} == ours
    assert to_config(converted) == made


def test_logits_are_scaled_as_transformers_does_it():
    def scaled(values, **changes):
        return hf_config.scales_logits({**values, **changes})

    assert scaled(T5_SMALL) and scaled(SWITCH) and not scaled(MADLAD_3B)
    # transformers 5 saves 'tie_word_embeddings': true for all, and for T5 what it means beside it
    assert not scaled(T5_SMALL, tie_word_embeddings=True, scale_decoder_outputs=False)
    assert not scaled(T5_SMALL, model_type="mt5", tie_word_embeddings=True)
    assert not scaled(T5_SMALL, model_type="umt5", scale_decoder_outputs=False)
    assert scaled(T5_SMALL, model_type="umt5") and not scaled(MADLAD_3B, model_type="umt5")


def test_ids_come_from_either_file_and_must_agree():
    values = {name: value for name, value in T5_SMALL.items() if name != "decoder_start_token_id"}
    with pytest.raises(ValueError, match="config.json: no decoder_start_token_id"):
        to_config(values)
    assert to_config(values, {"decoder_start_token_id": 3}).start_id == 3
    assert to_config({**T5_SMALL, "eos_token_id": [1]}).eos_id == 1
    with pytest.raises(ValueError, match=r"eos_token_id is \[1, 2\]"):
        to_config({**T5_SMALL, "eos_token_id": [1, 2]})
    with pytest.raises(ValueError, match="pad_token_id is 0, in generation_config.json 4"):
        to_config(T5_SMALL, {"pad_token_id": 4})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model_type": ["t5"]}, r"model_type is \['t5'\]; allowed: t5, "),
        ({"architectures": 5}, "architectures is 5; allowed: a list of strings"),
        ({"architectures": [5]}, r"architectures is \[5\]; allowed: a list of strings"),
        ({"architectures": "T5"}, "architectures is 'T5'; allowed: a list of strings"),
        ({"layer_norm_epsilon": None}, "layer_norm_epsilon is None; allowed: 1e-06"),
        ({"layer_norm_epsilon": "x"}, "layer_norm_epsilon is 'x'; allowed: 1e-06"),
        ({"layer_norm_epsilon": 10**400}, "layer_norm_epsilon is 10+; allowed: 1e-06"),
        ({"dropout_rate": None}, "dropout_rate is None; allowed: a number, 0 <= x < 1"),
        ({"dropout_rate": "abc"}, "dropout_rate is 'abc'; allowed: a number, 0 <= x < 1"),
        ({"dropout_rate": float("nan")}, "dropout_rate is nan; allowed: a number, 0 <= x < 1"),
        ({"feed_forward_proj": None}, "feed_forward_proj is None; allowed: a string"),
        ({"feed_forward_proj": 5}, "feed_forward_proj is 5; allowed: a string"),
        ({"dense_act_fn": ["a"]}, r"dense_act_fn is \['a'\]; allowed: a string"),
        ({"is_gated_act": "yes"}, "is_gated_act is 'yes'; allowed: true, false"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False; allowed: true"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'; allowed: true, false"),
        ({"scale_decoder_outputs": 1}, "scale_decoder_outputs is 1; allowed: true, false"),
        ({"d_model": 0}, "d_model is 0; allowed: an integer, 1 to"),
        ({"num_decoder_layers": 0}, "num_decoder_layers is 0; allowed: an integer, 1 to"),
        ({"num_layers": True}, "num_layers is True; allowed: an integer, 1 to"),
        ({"d_ff": 10**30}, "d_ff is 10+; allowed: an integer, 1 to 2147483647"),
        ({"relative_attention_num_buckets": 2}, "relative_buckets = 2; allowed: 4 to"),
    ],
)
def test_values_of_another_type_or_range_are_errors(changes, message):
    with pytest.raises(ValueError, match=f"^config.json: .*{message}"):
        to_config(T5_SMALL | changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"router_dtype": 7}, "router_dtype is 7; allowed: float32, bfloat16"),
        ({"router_jitter_noise": None}, "router_jitter_noise is None; allowed: a number"),
        ({"router_jitter_noise": "a"}, "router_jitter_noise is 'a'; allowed: a number"),
        ({"encoder_sparse_step": "a"}, "encoder_sparse_step is 'a'; allowed: an integer, 0 to"),
        ({"num_sparse_encoder_layers": None}, "num_sparse_encoder_layers is None; allowed: an int"),
        ({"num_sparse_decoder_layers": "x"}, "num_sparse_decoder_layers is 'x'; allowed: an int"),
        ({"num_experts": 0}, "num_experts is 0; allowed: an integer, 1 to"),
        ({"is_gated_act": True}, "is_gated_act is True; allowed: false"),
        ({"feed_forward_proj": "gated-gelu"}, "is 'gated-gelu'; allowed: a string without 'gated-"),
    ],
)
def test_values_of_another_type_or_range_for_experts_are_errors(changes, message):
    with pytest.raises(ValueError, match=f"^config.json: .*{message}"):
        to_config(SWITCH | changes)


@pytest.mark.parametrize("value", [-1, 32128, True, "0"])
@pytest.mark.parametrize("name", ["pad_token_id", "eos_token_id", "decoder_start_token_id"])
def test_special_ids_are_ids(name, value):
    message = f"{name} is {value!r}; allowed: an integer, 0 to 32127"
    with pytest.raises(ValueError, match=f"^config.json: {message}"):
        to_config({**T5_SMALL, name: value})
    with pytest.raises(ValueError, match=f"^generation_config.json: {message}"):
        to_config(T5_SMALL, {name: value})


def test_experts_of_another_width_are_refused():
    made = to_config(SWITCH)
    narrow = dataclasses.replace(made, moe=dataclasses.replace(made.moe, mlp_dim=5))
    with pytest.raises(ValueError, match=r"MoeConfig.mlp_dim = 5: .* as wide as the other layers"):
        hf_config.from_config(narrow)


def test_activations():
    def activations(**changes):
        return to_config({**T5_SMALL, **changes}).mlp_activations

    assert activations(feed_forward_proj="gated-silu") == ("silu", "linear")
    assert activations(feed_forward_proj="gated-gelu", dense_act_fn="gelu_new") == (
        "gelu", "linear",
    )  # fmt: skip
    for made in (("relu",), ("gelu",), ("gelu", "linear"), ("silu", "linear"), ("relu", "linear")):
        config = Config(40, mlp_activations=made)
        assert to_config(hf_config.from_config(config)).mlp_activations == made
    with pytest.raises(ValueError, match="activation is 'gelu'; allowed: .*T5's 'gelu_new'"):
        activations(feed_forward_proj="gelu")
