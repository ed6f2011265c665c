"""Rows about a run's training: sums over metrics.jsonl; unknown values are left out."""

import json

import pytest

from eval.analyses import cost
from eval.records import analysis
from eval.systems import system_of
from mmt import config
from mmt.data import cache, vocabulary
from mmt.run import MANIFEST, Run
from mmt.system import environment


def metrics(steps, *, validation=None):
    """Rows as `metrics.Log` writes them: 10 steps each, 100 target tokens in 2 seconds."""
    for step in range(10, steps + 1, 10):
        row = {"step": step, "loss": 3.0, "nll": 100 / step, "tokens": 250.0, "seconds": 2.0}
        row["target_tokens"] = 100.0
        if step % 100 == 0:
            row["language_tokens"] = {"deu_Latn": 900.0, "swh_Latn": 100.0}
        yield row
        if validation and step % validation == 0:
            of_each = {"deu_Latn": 40 / step, "swh_Latn": 60 / step}
            yield {"step": step, "validation_loss": 50 / step, "language_validation_loss": of_each}
            yield {"step": step, "source_use": 1.5 - 200 / step, "language_source_use": of_each}


@pytest.fixture
def run(tmp_path):
    """A function that makes a run directory, as far as this looks into it; with its cache."""
    vocabulary.train(["eins zwei", "one two"], tmp_path / "v.model", size=280, tags=["<2eng>"])
    examples = {
        # 900 target tokens with the ends, a third of them in books; and 50
        ("train", "deu_Latn"): lambda: [
            ([5], [6] * 9, name) for name in ["web"] * 60 + ["books"] * 30
        ],
        ("train", "swh_Latn"): lambda: [([5], [6] * 4, "web")] * 10,
    }
    cache.build(
        tmp_path / "cache", examples, name="toy", target="eng_Latn", corpus_hash="0",
        vocabularies=dict.fromkeys(("source", "target"), tmp_path / "v.model"),
    )  # fmt: skip
    opened = cache.open_cache(tmp_path / "cache")

    def make(rows, languages=("deu_Latn", "swh_Latn"), leave_out=()):
        folder = tmp_path / "run"
        folder.mkdir()
        opened.without(leave_out).manifest.only(languages).write(folder)
        files = ["gin_configs/models/tiny_moe.gin", "gin_configs/runs/train.gin"]
        settings = {
            "MODEL_DIR": folder, "TRAIN_STEPS": 9, "MIXTURE_OR_TASK_NAME": "toy", "SEED": 7,
            "CACHE_DIR": tmp_path / "cache", "VOCAB_SIZE": 280,
        }  # fmt: skip
        config.load(files, [f"{name}={value}" for name, value in settings.items()])
        (folder / "config.gin").write_text(config.complete())
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        environment.write(Run(folder).environment)
        return folder

    return make


def test_a_run_has_cost_recipe_and_curve(run):
    folder = run(metrics(200, validation=100))
    system = system_of(folder, step=200, name="moe")
    spent, recipe, curve = cost.cost(folder, system)
    assert (spent.steps, spent.tokens, spent.seconds) == (200, 2000, 40)
    assert spent.device_hours == pytest.approx(40 * spent.devices / 3600, abs=1e-5)
    assert spent.epochs == {"deu_Latn": 2.0, "swh_Latn": 4.0}
    assert spent.parameters > spent.active_parameters > 0
    assert (recipe.config, recipe.seed) == (system.config, 7) and not recipe.chosen + recipe.teacher
    assert recipe.text == (folder / "config.gin").read_text() and recipe.versions["jax"]
    assert curve.steps == tuple(range(10, 201, 10))
    assert curve.tokens[-1] == 2000 and curve.loss[-1] == 0.5
    assert [v for v in curve.validation_loss if v is not None] == [0.5, 0.25]
    assert [v for v in curve.source_use if v is not None] == [-0.5, 0.5]
    assert curve.language_validation_loss == {"deu_Latn": 0.2, "swh_Latn": 0.3}
    manifest = json.loads((folder / MANIFEST).read_text())
    assert recipe.corpus == manifest["corpus_hash"] == "0"
    assert recipe.vocabulary == manifest["vocabulary_hash"] and all(recipe.vocabulary.values())
    analysis.add(folder / "analysis.jsonl", [spent, recipe, curve])
    assert analysis.read(folder / "analysis.jsonl") == [spent, recipe, curve]


def test_a_baseline_is_identified_by_its_language_and_has_no_curve(run):
    folder = run(metrics(50), languages=("swh_Latn",))
    rows = cost.cost(folder, system_of(folder, step=50, name="bilingual"), chosen="small")
    assert [(row.kind, row.source) for row in rows] == [
        ("cost", "swh_Latn"), ("recipe", "swh_Latn"),
    ]  # fmt: skip
    assert rows[1].chosen == "small"


@pytest.mark.parametrize(
    "binding",
    [
        "train.Trainer.teacher = @distill.Teacher()",
        "train.Program.teacher = @distill.Teacher()",  # the name in old runs
        "distill.prepare.translations = @distill.Translations()",
        "",
        "train.Trainer.teacher = None\ndistill.prepare.translations = None",  # `mmt extend`
    ],
)
def test_a_student_names_its_teacher_and_a_run_made_of_it_does_not(run, binding):
    folder = run(metrics(50))
    with (folder / "config.gin").open("a") as file:
        file.write("from mmt import distill\nfrom mmt import train\nTEACHER_DIR = 'runs/moe'\n")
        file.write(binding + "\n")
    recipe = cost.cost(folder, system_of(folder, step=50))[1]
    assert (recipe.teacher, recipe.initial) == ("moe" if "@" in binding else "", "")


@pytest.mark.parametrize(
    "binding", ["'runs/dense'", "%INITIAL_MODEL_DIR\nINITIAL_MODEL_DIR = 'runs/dense'"]
)
def test_a_run_names_the_one_whose_weights_it_began_with(run, binding):
    folder = run(metrics(50))
    with (folder / "config.gin").open("a") as file:
        file.write(f"from mmt import train\ntrain.Program.initial_model_dir = {binding}\n")
    recipe = cost.cost(folder, system_of(folder, step=50))[1]
    assert (recipe.teacher, recipe.initial) == ("", "dense")


def test_a_validation_has_the_tokens_of_its_step():
    """Training logs the validation of a step before the tokens of the step."""
    rows = sorted(metrics(40, validation=20), key=lambda row: (row["step"], "loss" in row))
    assert ["loss" in row for row in rows if row["step"] == 20] == [False, False, True]
    curve = cost.curve("s", rows)
    assert curve == cost.curve("s", list(metrics(40, validation=20)))
    assert curve.tokens == (100, 200, 300, 400) and None not in curve.loss


def test_a_long_run_keeps_its_validations_and_few_points_beside(run):
    curve = cost.curve("s", list(metrics(50_000, validation=5000)))
    assert len(curve.steps) <= cost.POINTS + 10
    assert [s for s, v in zip(curve.steps, curve.validation_loss, strict=True) if v] == list(
        range(5000, 50_001, 5000)
    )
    for steps in (3990, 4010):
        curve = cost.curve("s", list(metrics(steps)))
        assert len(curve.steps) <= cost.POINTS and curve.steps[-1] == steps


def test_what_is_not_known_is_left_out(run, tmp_path):
    folder = run(metrics(100))
    system = system_of(folder, step=100)
    (tmp_path / "cache" / MANIFEST).unlink()
    assert cost.cost(folder, system)[0].epochs == {}
    (folder / "environment.json").unlink()
    assert cost.cost(folder, system) == []


def test_epochs_are_passes_over_the_corpora_that_are_not_left_out(run):
    folder = run(metrics(200), leave_out=["books"])
    (spent, *_) = cost.cost(folder, system_of(folder, step=200))
    assert spent.epochs == {"deu_Latn": 3.0, "swh_Latn": 4.0}
