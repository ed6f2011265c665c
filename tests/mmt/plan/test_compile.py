"""The batch and the mesh of a plan; the compiled results are in test_estimate.py."""

import io
import json
import math

import jax
import jax.numpy as jnp
import pytest

from mmt import config, sharding, trainer
from mmt.model.config import Config
from mmt.model.moe import MoeConfig
from mmt.model.transformer import Transformer
from mmt.plan import compile
from tests.conftest import ToyBatches

FILES = ["gin_configs/runs/train.gin", "gin_configs/models/tiny.gin"]


@pytest.mark.parametrize(
    ("devices", "experts", "rows", "parts"),
    [
        (2048, 2048, 32768, 2048),  # GShard
        (128, 128, 8192, 128),
        (2048, 128, 32768, 128),  # more chips than experts
        (24, 8, 48, 8),
        (8, 12, 32, 4),
    ],
)
def test_one_axis_where_everything_divides(devices, experts, rows, parts):
    def parts_of(moe_period: int) -> int:
        config = MoeConfig(num_experts=experts, group_size=128)
        model = Transformer(Config(vocab_size=8, moe_period=moe_period, moe=config))
        return compile.data_parts(devices, rows=rows, lengths=(128, 128), model=model)

    assert parts_of(2) == parts
    assert parts_of(0) == math.gcd(devices, rows)


@pytest.mark.parametrize(
    ("devices", "size", "rows", "smaller"),
    [
        (32, 8192, 512, 1824),  # 58,368 target tokens are 8 groups of 8,192
        (32, 1024, 512, None),  # 64 groups
        (24, 1824, 512, None),  # rows are what limits it
    ],
)
def test_smaller_groups_are_named_where_they_lengthen_the_first_axis(devices, size, rows, smaller):
    def model(size: int) -> Transformer:
        moe = MoeConfig(num_experts=128, group_size=size)
        return Transformer(Config(vocab_size=8, moe_period=2, moe=moe))

    sizes = {"rows": rows, "lengths": (512, 114)}
    assert compile.smaller_groups(devices, model=model(size), **sizes) == smaller
    if smaller:
        before = compile.data_parts(devices, model=model(size), **sizes)
        assert compile.data_parts(devices, model=model(smaller), **sizes) > before


def test_the_batch_is_the_pipelines():
    """Names, types and sides of a real batch, but for positions, which a step does not read."""
    config.load(FILES, ["BATCH_SIZE=8", "TASK_FEATURE_LENGTHS={'inputs': 6, 'targets': 7}"],
                may_leave_open=True)  # fmt: skip
    shapes = compile.batch_shapes(sharding.Layout())
    batch = {name: x for name, x in next(ToyBatches()).items() if "positions" not in name}
    assert {name: (x.shape, x.dtype) for name, x in shapes.items()} == {
        name: (x.shape, jnp.dtype(x.dtype)) for name, x in batch.items()
    }
    assert set(trainer.FEATURES) <= shapes.keys()


@pytest.mark.parametrize("decode", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_model_that_routes_by_language_is_planned(monkeypatch, decode):
    monkeypatch.setattr(compile, "_devices", lambda machine, topology: jax.devices()[:1])
    monkeypatch.setattr(compile, "_compiled", lambda traced: {})
    sizes = ("BATCH_SIZE=2", "TASK_FEATURE_LENGTHS={'inputs': 6, 'targets': 7}", "VOCAB_SIZE=50")
    routing = ("encoder_routing='language'", "decoder_routing='language'", "languages=5")
    files = ["gin_configs/models/tiny_moe.gin"]
    bindings = [*sizes, *(f"transformer.Config.{option}" for option in routing)]
    planned = compile.answer(compile.Request(files, bindings, "cpu:1", decode=decode))
    by_token = compile.answer(compile.Request(files, sizes, "cpu:1", decode=decode))
    assert 0 < planned["work"]["flops"] < by_token["work"]["flops"]


@pytest.fixture
def part_of_a_run(tmp_path):
    """Returns a file that binds the number of microbatches and of rows, and nothing else."""
    file = tmp_path / "part.gin"
    file.write_text("from __gin__ import dynamic_registration\nfrom mmt import train\n"
                    "train.Trainer.microbatches = 2\nBATCH_SIZE = 6\n")  # fmt: skip
    return str(file)


@pytest.mark.parametrize("finetune", [False, True])
def test_files_that_bind_a_part_of_the_trainer_get_the_rest(part_of_a_run, finetune):
    """The added run does not override them."""
    files = [FILES[1], *["gin_configs/runs/finetune.gin"] * finetune, part_of_a_run]
    assert compile.with_run(files) == [FILES[0], *files]
    bindings = ["INITIAL_MODEL_DIR=''"] * finetune
    made, (rows, *_) = compile.trainer_of(files, bindings, sharding.Layout())
    assert (made.microbatches, rows) == (2, 6)
    assert compile.with_run([*FILES, part_of_a_run]) == [*FILES, part_of_a_run]


def test_a_teacher_is_an_error_that_names_its_file():
    files = [FILES[1], "gin_configs/runs/distill.gin"]
    with pytest.raises(ValueError, match=r"no teacher; omit .*gin_configs/runs/distill.gin"):
        compile.trainer_of(files, [], sharding.Layout())


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("BATCH_SIZE=0", "BATCH_SIZE = 0; allowed: 1 or more"),
        ("TASK_FEATURE_LENGTHS={'inputs': 8}", "TASK_FEATURE_LENGTHS = {'inputs': 8}; allowed"),
    ],
)
def test_a_plan_without_a_batch_is_an_error(binding, message):
    config.load(FILES, [binding], may_leave_open=True)
    with pytest.raises(ValueError, match=message):
        compile.batch_shapes(sharding.Layout())


def test_a_refusal_is_the_answer(monkeypatch, capsys):
    arguments = {"files": ["gin_configs/models/tinny.gin"], "bindings": [], "topology": "cpu:1"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(arguments)))
    cached = jax.config.jax_enable_compilation_cache
    monkeypatch.setattr(compile, "_devices", lambda machine, topology: jax.devices())
    assert compile.main() == 0
    answer = json.loads(capsys.readouterr().out)
    assert "nearest: gin_configs/models/tiny.gin" in answer["error"]
    assert jax.config.jax_enable_compilation_cache == cached
