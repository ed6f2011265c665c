"""What is read of a configuration: macros, bindings, values."""

import pytest

from mmt import config
from mmt.model.transformer import Config, Transformer

GIN = """
from __gin__ import dynamic_registration
from mmt.model import transformer
WIDTH = 16
NAMES = ['a', 'b']
transformer.Config.emb_dim = %WIDTH
transformer.Config.vocab_size = %gin.REQUIRED
transformer.Transformer.config = @transformer.Config()
"""


@pytest.fixture(autouse=True)
def loaded(tmp_path):
    file = tmp_path / "model.gin"
    file.write_text(GIN)
    with config.isolated(file):
        yield


def test_a_macro_has_its_value_or_the_default():
    assert config.macro("WIDTH") == 16
    assert config.macro("DEPTH", 3) == 3
    config.macro("NAMES").append("c")  # a copy
    assert config.macro("NAMES") == ["a", "b"]


def test_a_parameter_has_its_binding_evaluated_or_not():
    assert repr(config.bound(Config, "emb_dim")) == "%WIDTH"
    assert config.value(Config, "emb_dim") == 16
    assert config.value(Config, "mlp_dim", 7) == 7
    assert config.bound(Config, "mlp_dim") is None


def test_what_is_not_in_the_configuration_stays_as_it_is():
    assert config.binds(Config) and config.binds(Transformer)
    assert not config.binds(test_a_macro_has_its_value_or_the_default)
    assert config.configured(len) is len
