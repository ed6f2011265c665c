"""Compares a schedule that acts with temperature, UniMax and NLLB's curriculum, at equal steps.

    python -m benchmarks.data.schedules DATA OUT [STEPS]

DATA holds the pack `mix/` of benchmarks.mix150. Twelve of its languages are cut to 6,000, 2,000 and
300 to 500 pairs, so that the small ones are repeated. A tiny model is trained by each of:

    temperature   T = 5
    unimax        uniform, at most 4 epochs of a language; in a run of more than 2.7 epochs of all
                  pairs, at most 1.5 times as many as of all
    nllb          T = 5; languages enter in three phases. A language that has its best validation
                  loss in `temperature` after k steps enters k steps before the end (median of a
                  phase; NLLB Team 2022, section 6.2.2)
    acting        T = 5 and schedule.Schedule() with its defaults

It prints chrF++ (greedy) of each: the mean over languages, and the mean of the lowest third; and
the differences to `temperature`, with 95 % intervals by paired bootstrap of the sentences. OUT gets
text of the pack: keep it out of the repository. Run the command again to resume.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import packs
from benchmarks.header import header
from eval import metrics
from eval.analyses.significance import Judged
from eval.records import results
from mmt.cli import main as command
from mmt.data import cache, pipeline
from mmt.data.schedule.overfitting import Losses, overfitting
from mmt.run import Run, read_metrics
from mmt.system import text_lines

SIZES = {
    "fra_Latn": 6000, "deu_Latn": 6000, "ces_Latn": 6000, "por_Latn": 6000,
    "ita_Latn": 2000, "pol_Latn": 2000, "nld_Latn": 2000, "tur_Latn": 2000,
    "afr_Latn": 500, "glg_Latn": 400, "slk_Latn": 400, "swh_Latn": 300,
}  # fmt: skip
HELD_OUT, TEST = 40, 100  # pairs of a language
LENGTHS = {"inputs": 64, "targets": 64}
BATCH = 12
VALIDATIONS = 20
UNIMAX_EPOCHS, OF_MEAN = 4.0, 1.5  # epochs of a language, at least; times the mean epochs
SYSTEMS = ("temperature", "unimax", "nllb", "acting")
TRAINING = """from __gin__ import dynamic_registration

from mmt import hooks
from mmt import train
from mmt.data import mixing
from mmt.data import pipeline
from mmt.data import schedule
from mmt.data import stages
from mmt.model import transformer

include 'gin_configs/models/tiny.gin'
include 'gin_configs/runs/train.gin'

MIXTURE_OR_TASK_NAME = 'schedules_to_eng'
VOCAB_SIZE = 4000
DROPOUT_RATE = 0.1
transformer.Config:
  emb_dim = 96
  num_heads = 4
  head_dim = 24
  mlp_dim = 256
  encoder_layers = 2
  decoder_layers = 1
train.inverse_sqrt:
  peak = 0.05
  warmup_steps = 200
  ramp = True
train.train.hooks = [@hooks.ValidationLoss()]
pipeline.eval_batches.batch_size = 48
"""


def write_corpus(data: Path, out: Path) -> Path:
    """Writes the description of the twelve languages; returns its folder.

    Raises ValueError if DATA has no such pack.
    """
    sizes = packs.manifest(data / "mix/manifest.tsv", ("train", "dev", "test"))
    if missing := sorted(SIZES.keys() - sizes.keys()):
        raise ValueError(f"{data / 'mix/manifest.tsv'} has no {', '.join(missing)}")
    parts = (("train", "train", SIZES), ("validation", "dev", dict.fromkeys(SIZES, HELD_OUT)),
             ("test", "test", dict.fromkeys(SIZES, TEST)))  # fmt: skip
    lines = [line for name, folder, counts in parts
             for line in packs.split(name, data, f"mix/{folder}", counts)]  # fmt: skip
    return packs.write(out / "corpus", "schedules", ("all kinds", "by source"), lines).parent


def unimax(directory: Path, steps: int) -> str:
    """Returns the bindings of UniMax: the cap needs the number of examples of the run."""
    batches = pipeline.train_batches(directory, feature_lengths=LENGTHS, batch_size=BATCH)
    examples = batches.order.sampler.draws_in(steps * BATCH)
    batches.close()
    pairs = sum(cache.open_cache(directory).manifest.counts["train"].values())
    max_epochs = max(UNIMAX_EPOCHS, OF_MEAN * examples / pairs)
    return (
        f"TEMPERATURE = 1e9\nmixing.Mixing.max_epochs = {max_epochs:.1f}\n"
        f"mixing.Mixing.examples = {examples}\n"
    )


def curriculum(best: Mapping[str, int], steps: int) -> str:
    """Returns the bindings of NLLB's curriculum, from the steps of the best validation losses."""
    phases: list[list[str]] = [[], [], []]  # from the start, later, last
    for code, step in best.items():
        phases[0 if step > steps * 2 / 3 else 1 if step > steps / 3 else 2].append(code)
    if not phases[0]:
        raise ValueError("every language has its best loss in the first two thirds: train less")
    present, names, text = list(phases[0]), [], ""
    for number, later in enumerate(filter(None, phases[1:])):
        enters = steps - int(np.median([best[code] for code in later]))
        names.append(f"phase{number}")
        text += (
            f"phase{number}/stages.Stage.mixing = @phase{number}/mixing.Mixing()\n"
            f"phase{number}/mixing.Mixing.languages = {present}\n"
            f"phase{number}/stages.Stage.until = {{'steps': {enters}}}\n"
        )
        present = present + later
    listed = ", ".join(f"@{name}/stages.Stage()" for name in (*names, "all"))
    return text + f"pipeline.train_batches.stages = [{listed}]\n"


def best_steps(run: Path) -> dict[str, int]:
    """Returns the step of the best validation loss of each language."""
    rows = [row for row in read_metrics(Run(run).metrics) if "language_validation_loss" in row]
    return {
        code: min(rows, key=lambda row: row["language_validation_loss"][code])["step"]
        for code in rows[-1]["language_validation_loss"]
    }


def overfitted(run: Path) -> int:
    """Returns how many languages overfit at the end of a run."""
    rows = [row for row in read_metrics(Run(run).metrics) if "language_validation_loss" in row]
    steps = [row["step"] for row in rows]
    every = [
        Losses(steps, [row["language_validation_loss"][code] for row in rows]) for code in SIZES
    ]
    return sum(overfitting(losses) is not None for losses in every)


def train(name: str, corpus: Path, out: Path, steps: int) -> None:
    """Trains and evaluates a system, unless that is done. Raises ValueError if a command fails."""
    run, period = out / name, max(steps // VALIDATIONS, 1)
    bindings = TRAINING
    if name == "unimax":
        bindings += unimax(out / "cache", steps)
    elif name == "nllb":
        bindings += curriculum(best_steps(out / "temperature"), steps)
    elif name == "acting":
        bindings += "pipeline.train_batches.schedule = @schedule.Schedule()\n"
    file = out / f"{name}.gin"
    file.write_text(bindings, encoding="utf-8")
    macros = {
        "MODEL_DIR": run, "CORPUS": corpus, "CACHE_DIR": out / "cache", "TRAIN_STEPS": steps,
        "BATCH_SIZE": BATCH, "TASK_FEATURE_LENGTHS": LENGTHS, "EVAL_PERIOD": period,
        "CHECKPOINT_PERIOD": steps,
    }  # fmt: skip
    flags = [f"--gin.{key}={str(value)!r}" if isinstance(value, Path) else f"--gin.{key}={value}"
             for key, value in macros.items()]  # fmt: skip
    _call("train", f"--gin_file={file}", *flags)
    found = str(out / "results.jsonl")
    _call("evaluate", "--model", str(run), "--step", str(steps), "--beam", "1",
          "--testset", str(corpus), "--out", found)  # fmt: skip


def _call(*arguments: str) -> None:
    if command.main(list(arguments)):
        raise ValueError(f"mmt {' '.join(arguments)} failed")


def judged(out: Path) -> dict[str, list[Judged]]:
    """Returns the scores of every system with the counts of its sentences, by language."""
    found: dict[str, list[Judged]] = {name: [] for name in SYSTEMS}
    for row in results.read_rows(out / "results.jsonl"):
        folder = out / "hypotheses" / row.system / row.testset
        texts = [[*text_lines.read(folder / f"{row.source}.{kind}")] for kind in ("hyp", "ref")]
        counts = metrics.References(texts[1]).statistics(texts[0])
        found[row.system].append(Judged(counts.bleu, counts.chrf, row, ""))
    return {name: sorted(rows, key=lambda each: each.row.source) for name, rows in found.items()}


def lowest_third(scores: np.ndarray) -> np.ndarray:
    """Returns the mean of the lowest third of the languages. scores: (languages, ...)."""
    return np.sort(scores, axis=0)[: len(scores) // 3].mean(axis=0)


def table(out: Path, steps: int) -> Table:
    """Returns the table of the systems."""
    shown = Table("schedule", "mean chrF++", "against temperature", "lowest third",
                  "against temperature", "overfit", title=f"{steps:,} steps")  # fmt: skip
    systems = judged(out)
    measures: Sequence[Callable[[np.ndarray], np.ndarray]] = (
        lambda scores: scores.mean(axis=0), lowest_third,
    )  # fmt: skip
    for name, rows in systems.items():
        cells = [name]
        for measure in measures:
            values, draws = [], []
            for each in (rows, systems["temperature"]):
                values.append(float(measure(np.array([one.row.chrf for one in each]))))
                draws.append(measure(np.array([one.chrfs for one in each])))
            low, high = np.quantile(draws[0] - draws[1], (0.025, 0.975))
            own = name == "temperature"
            cells += [f"{values[0]:.2f}", "" if own else
                      f"{values[0] - values[1]:+.2f} ({low:+.2f} to {high:+.2f})"]  # fmt: skip
        shown.add_row(*cells, str(overfitted(out / name)))
    return shown


def main(arguments: Sequence[str]) -> None:
    """Trains and evaluates what is missing, and prints the table."""
    if len(arguments) not in (2, 3):
        raise SystemExit("python -m benchmarks.data.schedules DATA OUT [STEPS]")
    data, out = (Path(argument).resolve() for argument in arguments[:2])
    steps = int(arguments[2]) if arguments[2:] else 2000
    try:
        corpus = write_corpus(data, out)
        for name in SYSTEMS:
            train(name, corpus, out, steps)
    except ValueError as error:
        raise SystemExit(f"benchmarks.data.schedules: {error}") from error
    console = Console(width=120)
    console.print(header())
    console.print(table(out, steps))


if __name__ == "__main__":
    main(sys.argv[1:])
