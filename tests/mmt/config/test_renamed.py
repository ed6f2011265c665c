"""Configs with older names of classes load, and are read as those with the present names."""

from mmt import config, train
from mmt.data import recipe

OLD = """from __gin__ import dynamic_registration
from mmt import train
from mmt.data import recipe
train.Program.log_every = 7
recipe.Recipe.directory = 'cache'
recipe.Recipe.mixture = 'a_to_b'
train.train.program = @train.Program()
mytrain.Programme.log_every = 3
"""


def test_the_text_has_the_present_names_and_no_other_change(tmp_path):
    text = config.with_present_names(OLD)
    assert text.splitlines()[3:7] == [
        "train.Trainer.log_every = 7", "recipe.CacheConfig.directory = 'cache'",
        "recipe.CacheConfig.mixture = 'a_to_b'", "train.train.program = @train.Trainer()",
    ]  # fmt: skip
    assert text.splitlines()[7:] == OLD.splitlines()[7:]
    (tmp_path / "config.gin").write_text(OLD)
    assert config.written(tmp_path / "config.gin")["train.Trainer.log_every"].value == "7"


def test_gin_takes_both_names(tmp_path):
    file = tmp_path / "config.gin"
    file.write_text("".join(OLD.splitlines(keepends=True)[:-1]))
    config.load([str(file)], ["train.Trainer.languages_every=3"], may_leave_open=True)
    for name, value in (("log_every", 7), ("languages_every", 3)):
        assert config.value(train.Trainer, name) == config.value(train.Program, name) == value
    assert config.value(recipe.CacheConfig, "mixture") == "a_to_b"
