"""gin: files, overrides, errors that name the nearest, the configuration a run keeps."""

import pytest

from mmt import config
from mmt.model.transformer import Transformer

TINY = "gin_configs/models/tiny.gin"
TRAIN = "gin_configs/runs/train.gin"
OPEN = ["MODEL_DIR=x", "MIXTURE_OR_TASK_NAME=a_to_eng", "TRAIN_STEPS=7"]


def test_a_size_is_a_diff_and_an_override_wins():
    config.load([TINY], ["VOCAB_SIZE=99", "transformer.Config.encoder_layers=3"])
    found = config.configured(Transformer)().config
    assert (found.vocab_size, found.encoder_layers, found.decoder_layers) == (99, 3, 2)


def test_an_override_may_name_what_no_file_binds():
    files = ["gin_configs/models/tiny_moe.gin"]
    config.load(files, ["moe.MoeConfig.router=@moe.switch_top1"])
    assert config.configured(Transformer)().config.moe.router.__name__ == "switch_top1"


def test_files_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config.load([TINY])


def test_plain_text_needs_no_quotes():
    config.load([TINY, TRAIN], [*OPEN, "CORPUS=some/where-1.toml", "SEED=5"])
    assert config.macro("CORPUS") == "some/where-1.toml"
    assert config.macro("SEED") == 5
    assert config.macro("MODEL_DIR") == "x"


@pytest.mark.parametrize(
    ("files", "bindings", "message"),
    [
        (["gin_configs/models/tny.gin"], [], "tny.gin.*nearest: gin_configs/models/tiny.gin"),
        ([TINY, TRAIN], [*OPEN, "TRAIN_STEP=3"], "TRAIN_STEP.*nearest: TRAIN_STEPS"),
        ([TINY, TRAIN], OPEN[:1], "leaves open: MIXTURE_OR_TASK_NAME, TRAIN_STEPS"),
        ([TINY], ["transformer.Config.emb_dims=3"], "emb_dims.*nearest: emb_dim"),
        ([TINY], ["transformer.Confg.emb_dim=3"], "transformer.Confg"),
        ([TINY], ["VOCAB_SIZE"], "expected --gin.NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_named(files, bindings, message):
    with pytest.raises(ValueError, match=message):
        config.load(files, bindings)


def test_the_kept_configuration_gives_the_same_model_again(tmp_path):
    config.load(["gin_configs/models/tiny_moe.gin", TRAIN], [*OPEN, "VOCAB_SIZE=123"])
    model = config.configured(Transformer)()
    (tmp_path / "config.gin").write_text(config.complete())
    config.load([TINY])
    assert config.model_from(tmp_path) == model
    # the one loaded before is back
    assert config.configured(Transformer)().config.moe_period == 0
    # and the kept file starts a run again
    config.load([tmp_path / "config.gin"])
    assert config.macro("TRAIN_STEPS") == 7


def test_a_directory_without_config_is_no_model(tmp_path):
    with pytest.raises(ValueError, match="no config.gin"):
        config.model_from(tmp_path)
