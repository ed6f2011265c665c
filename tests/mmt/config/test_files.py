"""Gin files: found from anywhere, faults by name, and a kept configuration that builds the same."""

import pytest

from mmt import config, train
from mmt.model.transformer import Transformer
from mmt.run import Run

TINY = "gin_configs/models/tiny.gin"
TRAIN = "gin_configs/runs/train.gin"
OPEN = ["MODEL_DIR=x", "MIXTURE_OR_TASK_NAME=a_to_eng", "TRAIN_STEPS=7"]


def test_files_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config.load([TINY])
    assert config.configured(Transformer)().config.emb_dim == 128


@pytest.mark.parametrize(
    ("files", "bindings", "message"),
    [
        (["gin_configs/models/tny.gin"], [], "tny.gin.*nearest: gin_configs/models/tiny.gin"),
        ([TINY, TRAIN], [*OPEN, "TRAIN_STEP=3"], "TRAIN_STEP.*nearest: TRAIN_STEPS"),
        ([TINY, TRAIN], OPEN[:1], "needs values for: MIXTURE_OR_TASK_NAME, TRAIN_STEPS"),
        ([TINY], ["transformer.Config.emb_dims=3"], "emb_dims.*nearest: emb_dim"),
        ([TINY], ["transformer.Confg.emb_dim=3"], "transformer.Confg"),
        ([TINY], ["VOCAB_SIZE"], "expected --gin.NAME=VALUE"),
        ([TINY], ["emb_dim=3"], "--gin.emb_dim: no gin.* nearest: transformer.Config.emb_dim"),
        ([TINY], ["Config.emb_dim=0"], "--gin.Config.emb_dim=0: .* nearest: transformer.Config.e"),
        ([TINY], ["Transformer.rules=0"], "nearest: transformer.Transformer."),  # named, not bound
        ([TINY], ["VOCAB_SIZE=3\nx=4"], r"--gin.VOCAB_SIZE: '3\\nx=4'; .* on one line"),
        ([TINY], ["VOCAB_SIZE=%TARGET_VOCAB_SIZE", "TARGET_VOCAB_SIZE=(1, %VOCAB_SIZE)"],
         "macro VOCAB_SIZE refers to itself: VOCAB_SIZE = %TARGET_VOCAB_SIZE"),
        ([TINY], ["VOCAB_SIZE=%VOCAB_SIZE"], "macro VOCAB_SIZE refers to itself"),
        ([TINY], ["VOCAB_SIZE=" + "[" * 9000 + "]" * 9000], "VOCAB_SIZE: the value is nested too"),
        ([TINY], ["VOCAB_SIZE=%VOCAB_SIZES"],
         "VOCAB_SIZE = %VOCAB_SIZES: there is no macro VOCAB_SIZES; nearest: VOCAB_SIZE"),
        ([TINY], ["transformer.Config.emb_dim=(1, %EMB)"], r"Config.emb_dim = .* no macro EMB$"),
        (["gin_configs/examples/stages.gin"], ["larg/stages.Stage.until={}"],
         "no object has the scope 'larg'; nearest: large"),
    ],
)
def test_faulty_configurations_are_named(files, bindings, message):
    with pytest.raises(ValueError, match=message):
        config.load(files, bindings)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"A = 3\nB = [1,\n", r"here\.gin: line 3: EOF in multi-line statement"),
        (b"A = \x80", r"here\.gin: byte 0x80 at position 4 is not UTF-8"),
        (b"A = 1\nB = foo bar\n", r"here\.gin: not a literal\s+Failed .* 'foo' .*line 2"),
        (b"include 'no/such.gin'", r"open file: no/such\.gin(.|\n)*here\.gin"),
    ],
)
def test_a_broken_file_is_named_with_the_fault(tmp_path, content, message):
    (tmp_path / "here.gin").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        config.load([TINY, tmp_path / "here.gin"])


def test_the_kept_configuration_gives_the_same_model_again(tmp_path):
    config.load(["gin_configs/models/tiny_moe.gin", TRAIN], [*OPEN, "VOCAB_SIZE=123"])
    model = config.configured(Transformer)()
    (tmp_path / "config.gin").write_text(config.complete())
    config.load([TINY])
    assert Run(tmp_path).model() == model
    # the one loaded before is back
    assert config.configured(Transformer)().config.moe_period == 0
    # and the kept file starts a run again
    config.load([tmp_path / "config.gin"])
    assert config.macro("TRAIN_STEPS") == 7


def test_a_kept_configuration_can_be_overridden(tmp_path):
    """Also where a macro, such as MODEL, built what was kept."""
    config.load(["gin_configs/models/tiny_moe.gin", TRAIN], OPEN)
    config.configured(train.Trainer)()
    (tmp_path / "config.gin").write_text(config.complete())
    config.load([tmp_path / "config.gin"], ["transformer.Config.moe_period=0"])
    assert config.configured(train.Trainer)().model.config.moe_period == 0
