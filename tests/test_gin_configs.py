"""Every gin file has a header, loads, and builds the shapes of its model."""

import re
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
import pytest

from eval import baselines, study
from mmt import config, distill, initial, train
from mmt.data import pipeline
from mmt.model import parameter_names
from mmt.model.transformer import Transformer
from mmt.plan import parameters

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("gin_configs/**/*.gin"))
OPEN = {
    "MODEL_DIR": "runs/x", "MIXTURE_OR_TASK_NAME": "x_to_eng", "TRAIN_STEPS": "1000",
    "RESULTS": "runs/results.jsonl", "CORPUS": "x", "INITIAL_MODEL_DIR": "runs/parent",
    "TEACHER_DIR": "runs/teacher", "TEACHER_CORPUS": "x", "NEW_LANGUAGES": "['deu']",
    "LANGUAGES": "['deu']",
}  # fmt: skip


def with_includes(file: str) -> str:
    text = (ROOT / file).read_text()
    return text + "".join(map(with_includes, re.findall(r"^include '(.+)'", text, re.MULTILINE)))


def load(file: str) -> None:
    """Loads a file, with what it builds on before it and what it leaves open."""
    before = []
    if "/models/" not in file and "/examples/" not in file:
        before = ["gin_configs/models/tiny.gin", "gin_configs/runs/train.gin"]
    if "/baselines/" in file:
        before.append("gin_configs/runs/baseline.gin")
    files = [former for former in before if former != file] + [file]
    text = "".join(map(with_includes, files))
    closed = re.findall(r"^([A-Z_]+) = (?!%gin.REQUIRED)", (ROOT / file).read_text(), re.MULTILINE)
    left = [name for name in OPEN if re.search(rf"^{name} = %gin.REQ", text, re.MULTILINE)]
    config.load(files, [f"{name}={OPEN[name]}" for name in left if name not in closed])


@pytest.mark.parametrize("file", FILES)
def test_every_file_has_a_header(file):
    head = (ROOT / file).read_text().split("from __gin__")[0]
    assert all(line.startswith("#") for line in head.splitlines() if line), head
    for word in ("hardware", "time", "score", "command:"):
        assert word in head.lower(), f"{file}: its head says nothing of {word}"


@pytest.mark.parametrize("file", [file for file in FILES if "/t5x/" not in file])
def test_every_file_loads_and_builds_its_shapes(file):
    load(file)
    if re.search("'(model|expert)': 2", (ROOT / file).read_text()) and jax.device_count() % 2:
        with pytest.raises(ValueError, match="does not fit 1 devices"):
            config.configured(train.Trainer)()
        return
    if "/models/" in file:
        model = config.configured(Transformer)()
    else:
        model = config.configured(train.Trainer)().model
    tokens = jnp.zeros((1, 8), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)["params"]
    assert sum(x.size for x in jax.tree.leaves(shapes)) > 100_000


@pytest.mark.parametrize("file", ["baseline", "distill"])
def test_a_dense_model_of_one_that_routes_by_language_builds(file):
    routed = ("encoder_routing='language'", "decoder_routing='language'", "languages=3")
    model = ["gin_configs/models/tiny_moe.gin", "gin_configs/runs/train.gin"]
    known = ("MODEL_DIR", "MIXTURE_OR_TASK_NAME", "TRAIN_STEPS")
    bindings = [f"{name}={OPEN[name]}" for name in known]
    config.load(model, bindings + [f"transformer.Config.{binding}" for binding in routed])
    assert config.macro("MODEL").config.languages == 3
    with config.changed(["TRAIN_STEPS=10"], f"gin_configs/runs/{file}.gin"):
        assert not config.macro("MODEL").config.languages


PARENT = """
from __gin__ import dynamic_registration
import optax
from mmt import distill
from mmt import losses
from mmt import train
from mmt.data import pipeline
from mmt.data import stages
OPTIMIZER = @optax.adamw()
optax.adamw.learning_rate = @train.inverse_sqrt()
train.Trainer.teacher = @distill.Teacher()
distill.Teacher.model_dir = 'runs/teacher'
distill.prepare.translations = @distill.Translations()
losses.Objective.guided_alignment = 0.1
pipeline.train_batches:
  alignment = True
  stages = [@stages.Stage()]
"""


def test_fine_tuning_leaves_what_belongs_to_the_training_of_the_parent(tmp_path):
    (tmp_path / "parent.gin").write_text(PARENT)
    files = ["gin_configs/models/tiny.gin", "gin_configs/runs/train.gin", tmp_path / "parent.gin"]
    names = ("MODEL_DIR", "MIXTURE_OR_TASK_NAME", "TRAIN_STEPS", "INITIAL_MODEL_DIR")
    bindings = [f"{name}={OPEN[name]}" for name in names]
    config.load([*files, "gin_configs/runs/finetune.gin"], bindings)
    program = config.configured(train.Trainer)()
    assert program.teacher is None and not program.objective.guided_alignment
    for function, name in (
        (pipeline.train_batches, "stages"), (pipeline.train_batches, "alignment"),
        (distill.prepare, "translations"),
    ):  # fmt: skip
        assert not config.value(function, name)
    params = {"kernel": jnp.ones((4, 4))}
    update, expected = (
        optimizer.update(params, optimizer.init(params), params)[0]["kernel"]
        for optimizer in (program.optimizer, optax.adafactor(0.0005))
    )
    assert update.tolist() == expected.tolist()


# By file: source tokens in a batch and devices of the paper's run, where it prints both (4M and 1M
# tokens are 2^22 and 2^20).
RUNS = {
    "gshard_600b": (2**22, 2048), "gshard_200b": (2**22, 2048), "gshard_1t": (2**22, 2048),
    "gshard_150b": (2**20, 512), "gshard_50b": (2**20, 512), "gshard_37b": (2**20, 128),
    "gshard_12b": (2**20, 128), "nllb_moe": (2**20, 256), "gshard_t96l": (2**22, 0),
    "nllb": (2**20, 0), "switch_base": (2**20, 0), "switch_large": (2**20, 0),
    "switch_xxl": (2**20, 0), "switch_c": (2**20, 0), "mt5_base": (2**20, 0), "mt5_xxl": (2**20, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_papers_model_has_its_papers_batch(name):
    """The group size is a device's share of the batch, as the file's header states."""
    tokens, devices = RUNS[name]
    files = ["gin_configs/runs/train.gin", f"gin_configs/models/{name}.gin"]
    left = [f"{macro}=x" for macro in ("MODEL_DIR", "MIXTURE_OR_TASK_NAME")]
    config.load(files, [*left, "TRAIN_STEPS=1"])
    batch = config.macro("BATCH_SIZE") * config.macro("TASK_FEATURE_LENGTHS")["inputs"]
    assert batch == tokens
    if devices:
        assert config.macro("MODEL").config.moe.group_size == tokens / devices


@pytest.mark.parametrize(
    ("name", "factor", "group"),
    [("base", 1.25, 8192), ("large", 1.25, 4096), ("xxl", 1.25, 4096), ("c", 1.0, 2048)],
)
def test_switch_routes_as_released(name, factor, group):
    config.load([f"gin_configs/models/switch_{name}.gin"])
    moe = config.macro("MODEL").config.moe
    settings = (moe.capacity_factor, moe.group_size, moe.jitter, moe.init_scale, moe.router_dtype)
    assert settings == (factor, group, 0.01, 0.1, "float32")


@pytest.mark.parametrize("name", ["3b", "7b", "10b"])
def test_madlads_special_pieces(name):
    config.load([f"gin_configs/models/madlad_{name}.gin"])
    model_config = config.macro("MODEL").config
    assert (model_config.pad_id, model_config.eos_id, model_config.start_id) == (1, 2, 0)


def test_a_moe_file_is_a_diff_of_its_dense_one():
    for file in (ROOT / "gin_configs/models").glob("*_moe.gin"):
        assert f"include 'gin_configs/models/{file.stem.removesuffix('_moe')}.gin'" in (
            file.read_text()
        )


BENCHMARK = ROOT / "benchmarks/bible100"


@pytest.mark.parametrize(
    "file",
    ["gin_configs/baselines/by_size.gin", *(
        f"benchmarks/bible100/{folder}baselines.gin" for folder in ("", "gpu/")
    )],
)  # fmt: skip
def test_classes_of_baselines_name_files_that_change_something(file):
    load(file)
    before = config.complete()
    classes = config.value(baselines.baselines, "classes")
    assert 0 in [baseline_class.least for baseline_class in classes]
    for baseline_class in classes:
        assert baseline_class.gin_file and not baseline_class.bindings
        with baseline_class.configured() as (program, plan):
            assert config.complete() != before
            for setting in config.statements(baseline_class.gin_file):
                assert setting in str(baseline_class)
            if "BASELINE_BATCH_SIZE" in str(baseline_class):
                assert f"BASELINE_BATCH_SIZE = {plan.batch_size}" in str(baseline_class)
            if "DROPOUT_RATE" in str(baseline_class):
                assert f"DROPOUT_RATE = {program.model.config.dropout_rate}" in str(baseline_class)


def test_no_gin_text_within_gin_strings():
    for path in [*ROOT.glob("gin_configs/**/*.gin"), *ROOT.glob("benchmarks/**/*.gin")]:
        assert not re.search(r"[\"'][\w/.]+ = ", path.read_text()), path


def benchmark_model(path: Path) -> Transformer:
    config.load([str(path.relative_to(ROOT))])
    return config.macro("MODEL")


@pytest.mark.parametrize("folder", [BENCHMARK, BENCHMARK / "gpu"], ids=["cpu", "gpu"])
def test_the_benchmarks_systems_cost_the_same_and_the_student_starts_from_its_teacher(folder):
    dense, top2, top1, student = (
        parameters.count(benchmark_model(folder / f"{name}.gin"))
        for name in ("dense", "top2", "top1", "student")
    )
    for sparse in (top2, top1):
        routers = sparse.parts["routers"].active
        assert sparse.whole.active - routers == dense.whole.active == student.whole.active
        assert sparse.whole.total > 1.5 * dense.whole.total
    teacher = parameter_names.shapes(benchmark_model(folder / "top2.gin"))
    taken = initial.shared(teacher, benchmark_model(folder / "student.gin"))
    assert "encoder/0/mlp/wi_0" in taken and "encoder/1/mlp/wi_0" not in taken


STUDIES = [path for path in BENCHMARK.rglob("*.gin") if "study.Study" in path.read_text()]


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.name)
def test_a_study_of_the_benchmark_names_existing_files(file, recwarn):
    config.load([str(file.relative_to(ROOT))])
    loaded = config.configured(study.Study)()
    assert not loaded.bindings and not [w for w in recwarn if "as text" in str(w.message)]
    for run in loaded.runs:
        _, name = shlex.split(run)
        config.load([name])
        assert config.macro("MODEL_DIR").startswith("runs/bible100")
