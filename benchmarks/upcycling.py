"""Compares upcycling with further dense training and with experts from scratch, at equal steps.

    python -m benchmarks.upcycling [DIRECTORY]

It uses the demo's corpus and the model of `benchmarks.distillation`. Finished models in DIRECTORY
(default: runs/upcycling) are reused. A complete run takes about 6 minutes on 2 CPU cores, and needs
the extra [data].
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.distillation import DENSE, EXPERTS, trained
from benchmarks.header import header
from mmt.run import read_metrics

PARENT, MORE, PERIOD = 600, 400, 100  # steps


def children(parent: Path) -> dict[str, tuple[str, ...]]:
    """Returns the rows: arguments of `mmt train`."""
    return {
        "dense, trained on": (*DENSE, f"--gin.train.Trainer.initial_model_dir={parent}"),
        "upcycled": (
            "--gin_file=gin_configs/runs/upcycle.gin", *EXPERTS,
            f"--gin.INITIAL_MODEL_DIR={parent}", "--gin.VOCABULARY_FROM=''",
        ),
        "experts from scratch": EXPERTS,
    }  # fmt: skip


def main() -> None:
    """Trains missing models, and prints the table."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/upcycling")
    parent = directory / "parent"
    length = (f"--gin.TRAIN_STEPS={PARENT}", f"--gin.EVAL_PERIOD={PARENT}")
    loss = trained(parent, (*DENSE, *length))
    steps = range(PERIOD, MORE + 1, PERIOD)
    table = Table("model", *(f"step {step}" for step in steps), "tokens", "seconds")
    for name, arguments in children(parent).items():
        model_dir = directory / name.replace(", ", "_").replace(" ", "_")
        child_steps = (f"--gin.TRAIN_STEPS={MORE}", f"--gin.EVAL_PERIOD={PERIOD}")
        trained(model_dir, (*arguments, *child_steps))
        rows = read_metrics(model_dir / "metrics.jsonl")
        losses = [f"{row['validation_loss']:.4f}" for row in rows if "validation_loss" in row]
        training = [row for row in rows if "loss" in row]
        tokens = sum(row["tokens_per_second"] * row["seconds"] for row in training)
        seconds = sum(row["seconds"] for row in training)
        table.add_row(name, *losses, f"{tokens / 1e6:.2f} M", f"{seconds:.0f}")
    print(header())
    print(f"validation loss of {MORE} steps after a dense parent's {PARENT} (its loss: {loss:.4f})")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
