"""gin: files, overrides, errors that name the nearest, the configuration a run keeps."""

import pytest

from mmt import config, train
from mmt.decoding import Decoding
from mmt.model.transformer import Transformer
from mmt.run import Run
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


def test_files_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config.load([TINY])
    assert config.configured(Transformer)().config.emb_dim == 128


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
    config.configured(train.Program)()
    (tmp_path / "config.gin").write_text(config.complete())
    config.load([tmp_path / "config.gin"], ["transformer.Config.moe_period=0"])
    assert config.configured(train.Program)().model.config.moe_period == 0


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
