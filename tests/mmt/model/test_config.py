"""`Config` of a Transformer: ranges of its fields, and what follows from them."""

import dataclasses

import pytest

from mmt.model.config import Config

CONFIG = Config(
    vocab_size=30, emb_dim=12, num_heads=2, head_dim=5, mlp_dim=16,
    encoder_layers=2, decoder_layers=3, relative_buckets=8, relative_max_distance=10,
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad_id": -1}, "pad_id = -1; allowed: 0 or more"),
        ({"relative_buckets": 2}, "relative_buckets = 2; allowed: 4 to twice"),
        ({"relative_max_distance": 3}, "relative_max_distance, which is 3"),
        ({"emb_dim": 1.5}, "Config.emb_dim = 1.5; allowed: int"),
        ({"num_heads": True}, "Config.num_heads = True; allowed: int"),
        ({"moe": None}, "Config.moe = None; allowed: MoeConfig"),
        ({"mlp_activations": ["gelu"]}, "Config.mlp_activations = .*; allowed: tuple"),
        ({"vocab_size": 10**20}, "Config.vocab_size = 10+; allowed: .* to 2147483647"),
        ({"encoder_layers": 10**8}, "Config.encoder_layers = 100000000; allowed: 0 to 10000"),
        ({"moe_period": 4}, r"moe_period = 4: no layer of 2 \+ 3 has experts; allowed: 0 to 3"),
    ],
)
def test_impossible_settings_are_errors(options, message, as_users_have_it):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **options)


def test_the_target_has_the_vocabulary_of_both_sides_or_its_own():
    assert dataclasses.replace(CONFIG, vocab_size=40).target_vocabulary == 40
    two = dataclasses.replace(CONFIG, vocab_size=40, target_vocab_size=30)
    assert two.target_vocabulary == 30
