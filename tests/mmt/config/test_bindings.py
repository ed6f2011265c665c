"""Overrides: what may be bound, in which form, and the error for a wrong one."""

import pytest

from mmt import config
from mmt.decoding import Decoding
from mmt.model.transformer import Transformer
from mmt.translate import Translator

TINY = "gin_configs/models/tiny.gin"
TRAIN = "gin_configs/runs/train.gin"
OPEN = ["MODEL_DIR=x", "MIXTURE_OR_TASK_NAME=a_to_eng", "TRAIN_STEPS=7"]


def test_a_size_is_a_diff_and_an_override_wins():
    config.load([TINY], ["VOCAB_SIZE=99", "transformer.Config.encoder_layers=3"])
    sizes = config.configured(Transformer)().config
    assert (sizes.vocab_size, sizes.encoder_layers, sizes.decoder_layers) == (99, 3, 2)


def test_an_override_may_name_what_no_file_binds():
    files = ["gin_configs/models/tiny_moe.gin"]
    config.load(files, ["moe.MoeConfig.router=@moe.switch_top1"])
    assert config.configured(Transformer)().config.moe.router.__name__ == "switch_top1"


def test_plain_text_needs_no_quotes():
    config.load([TINY, TRAIN], [*OPEN, "CORPUS=some/where-1.toml", "SEED=5"])
    assert config.macro("CORPUS") == "some/where-1.toml"
    assert config.macro("SEED") == 5
    assert config.macro("MODEL_DIR") == "x"


@pytest.mark.parametrize("path", ["my runs/it's, a=b", "/data/ä #1/x", "./a b/c d", "~/[1]/x"])
def test_a_path_needs_no_quotes(path):
    config.load([TINY, TRAIN], [*OPEN, f"MODEL_DIR={path}", "CORPUS='a b/c'"])
    assert config.macro("MODEL_DIR") == path
    assert config.macro("CORPUS") == "a b/c"


def test_text_with_spaces_is_told_to_be_quoted():
    with pytest.raises(ValueError, match="not a literal; text with spaces needs quotes: .*'a b'"):
        config.load([TINY, TRAIN], [*OPEN, "CORPUS=my corpus"])


def test_bindings_alone_are_for_the_doors_that_are_named():
    doors = [Decoding, Translator.load]
    config.bind(
        ["Decoding.top_k=5", "decoding.Decoding.temperature = 0.5", "Translator.load.rows=2"], doors
    )
    assert config.configured(Decoding)(beam=1) == Decoding(beam=1, top_k=5, temperature=0.5)
    assert config.configured(Decoding)(beam=1, top_k=3).top_k == 3  # what is given wins
    config.bind(["Decoding.prefix='Guten Tag'"], doors)  # those before are gone
    assert config.configured(Decoding)() == Decoding(prefix="Guten Tag")


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("Decoding.no_repeat_ngrams=3", "no_repeat_ngrams: .*nearest: Decoding.no_repeat_ngram$"),
        ("Decodng.top_k=3", "nearest: Decoding.top_k"),
        ("Translator.load.averag=3", "nearest: Translator.load.average"),
        ("top_k=3", "--gin.top_k"),
        ("Decoding.top_k", "expected --gin.NAME=VALUE"),
        ("Decoding.top_k=[", "--gin.Decoding.top_k="),
        ("Decoding.beam=@foo()", r"--gin.Decoding.beam=@foo\(\): not a literal; allowed: a num"),
        ("Decoding.beam=%X", "--gin.Decoding.beam=%X: not a literal"),
        ("Decoding.beam=3\nDecoding.top_k=2", "--gin.Decoding.beam: .* on one line"),
        ("Foo.bar=1", "--gin.Foo.bar: .*allowed: Decoding.NAME, Translator.load.NAME"),
        ("TRAIN_STEPS=3", "--gin.TRAIN_STEPS: .*allowed: Decoding.NAME"),
        ("beam=3", "--gin.beam: .*nearest: Decoding.beam"),
        ("Translator.load.model_dir='x'", "--gin.Translator.load.model_dir: no such parameter"),
    ],
)
def test_a_binding_for_no_door_names_the_nearest(binding, message):
    with pytest.raises(ValueError, match=message):
        config.bind([binding], [Decoding, Translator.load])


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("TRAIN_STEPS=many", r"TRAIN_STEPS='many': expected a whole number \(train.train.steps\)"),
        ("TRAIN_STEPS=1.5", "TRAIN_STEPS=1.5: expected a whole number"),
        ("TEMPERATURE=hot", "TEMPERATURE='hot': expected a number"),
    ],
)
def test_a_macro_of_the_wrong_type_is_named_with_what_is_expected(binding, message):
    files = ["gin_configs/models/tiny_moe.gin", "gin_configs/runs/train.gin"]
    given = ["MIXTURE_OR_TASK_NAME=a", "MODEL_DIR=b", "TRAIN_STEPS=5"]
    with pytest.raises(ValueError, match=message):
        config.load(files, [*given, binding])
    config.load(files, [*given, "TEMPERATURE=3"])  # a whole number is a number
