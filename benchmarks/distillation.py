"""Measures how much of a mixture-of-experts teacher's gain a dense student keeps, as Switch's Table
6.

    python -m benchmarks.distillation [DIRECTORY]

All students train on the demo's corpus for equal steps. "kept" is (student - dense) / (teacher -
dense). Students that start from the teacher's weights also profit from the teacher's steps, so
there is a dense model with twice the steps. Finished models and scores in DIRECTORY (default:
runs/distillation) are reused; run the same command again to resume. A complete run takes about 45
minutes on 2 CPU cores, and needs the extra [data].
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval import evaluate, systems, testsets
from mmt import translate
from mmt.cli import main as cli
from mmt.run import Run, read_metrics

STEPS = 1500
LINES = 40  # test lines per language
PAIRS = 300  # lines that the teacher translates, per language

# Half the demo's width and a narrow MLP: the dense model lacks parameters, so experts help.
MODEL = (
    "--gin_file=gin_configs/examples/demo.gin",
    f"--gin.TRAIN_STEPS={STEPS}", f"--gin.EVAL_PERIOD={STEPS}", f"--gin.CHECKPOINT_PERIOD={STEPS}",
    "--gin.train.train.hooks=[@hooks.ValidationLoss()]",
    "--gin.transformer.Config.emb_dim=64", "--gin.transformer.Config.num_heads=2",
    "--gin.transformer.Config.mlp_dim=32",
)  # fmt: skip
EXPERTS = (
    "--gin.transformer.Config.moe_period=1", "--gin.moe.MoeConfig.num_experts=16",
    "--gin.moe.MoeConfig.capacity_factor=2.0",
)  # fmt: skip
DENSE = ("--gin.transformer.Config.moe_period=0",)


def students(directory: Path) -> dict[str, tuple[str, ...]]:
    """Returns the rows after the teacher: arguments of `mmt distill`."""
    teacher = f"--gin.TEACHER_DIR={directory / 'teacher'}"
    logits = ("--gin_file=gin_configs/runs/distill.gin", teacher, "--gin.VOCABULARY_FROM=''")
    spoken = (
        "--gin_file=gin_configs/runs/distill_sequences.gin", teacher, "--gin.TEACHER_CORPUS=cldr",
        f"--gin.CORPUS={directory / 'translations'}", f"--gin.TEACHER_PAIRS={PAIRS}",
        "--gin.MIXTURE_OR_TASK_NAME=cldr_distilled_to_eng",
    )  # fmt: skip
    alone = "--gin.train.Trainer.initial_model_dir=''"
    of_teacher = f"--gin.VOCABULARY_FROM={directory / 'teacher'}"
    return {
        "dense": (),
        "dense, twice the steps": (f"--gin.TRAIN_STEPS={2 * STEPS}",),
        "init only": (*logits, "--gin.train.Trainer.teacher=None"),
        "logits only": (*logits, alone),
        "logits only, three quarters": (*logits, alone, "--gin.losses.Objective.teacher=0.75"),
        "init + logits": logits,
        "translations": (*spoken, of_teacher, alone),
        "init + translations, one vocabulary": (
            *spoken, "--gin.VOCAB_SIZE=4000", "--gin.TARGET_VOCAB_SIZE=0",
        ),
    }  # fmt: skip


def trained(directory: Path, arguments: tuple[str, ...]) -> float:
    """Trains a row's model unless it is trained; returns its validation loss."""
    command = "distill" if any("runs/distill" in argument for argument in arguments) else "train"
    status = cli.main([command, *MODEL, *arguments, f"--gin.MODEL_DIR={directory}"])
    if status:
        sys.exit(status)
    rows = read_metrics(directory / "metrics.jsonl")
    return [row["validation_loss"] for row in rows if "validation_loss" in row][-1]


def scored(directory: Path) -> float:
    """Returns mean BLEU over the languages."""
    testset = testsets.load("cldr")
    some = {
        code: testsets.Sentences(sentences.sources[:LINES], sentences.references[:LINES])
        for code, sentences in testset.languages.items()
    }
    rows = evaluate.evaluate(
        translate.Translator.load(directory),
        testsets.TestSet(f"cldr-{LINES}", testset.target, some),
        system=systems.system_of(directory, step=Run(directory).best_step()),
        out=directory.parent / "results.jsonl",
    )
    return sum(row.bleu for row in rows) / len(rows)


def main() -> None:
    """Trains and scores missing models, and prints the table."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/distillation")
    teacher = directory / "teacher"
    rows = {"MoE, 16 experts": (trained(teacher, EXPERTS), scored(teacher))}
    for name, arguments in students(directory).items():
        model_dir = directory / name.replace(" + ", "_").replace(", ", "_").replace(" ", "_")
        rows[name] = trained(model_dir, (*DENSE, *arguments)), scored(model_dir)
    best, dense = rows["MoE, 16 experts"], rows["dense"]
    table = Table("student", "loss", "BLEU", "of the loss kept", "of the BLEU kept")
    for name, row in rows.items():
        kept = [(row[i] - dense[i]) / (best[i] - dense[i]) for i in range(2)]
        loss, share = f"{row[0]:.4f}", f"{kept[0]:.0%}"
        if "one vocabulary" in name:  # its loss is per other tokens
            loss = share = "-"
        table.add_row(name, loss, f"{row[1]:.2f}", share, f"{kept[1]:.0%}")
    print(header())
    print(f"{STEPS} steps; validation loss, BLEU of {LINES} test lines a language, beam 4")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
