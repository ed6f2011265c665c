"""Several processes on this machine that train as one run, by the command line; for the tests.

A run is given as a `Runner` of a toy corpus whose sentences all differ, so that the text of an
example is its name; every process writes down which examples are in its rows of each batch.
"""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# `mmt` itself, but for the record of what `next(batches)` gave: step -> row -> examples.
RECORDING = """
import json, os, sys
from mmt.data import pipeline
given = pipeline.TrainBatches.__next__
def recorded(self):
    batch = given(self)
    tokens, segments = batch["encoder_input_tokens"], batch["encoder_segment_ids"]
    rows = [[t[s == n].tolist() for n in range(1, s.max() + 1)] for t, s in zip(tokens, segments)]
    name = os.environ.get("JAX_PROCESS_ID", "0")
    with open(os.path.join(os.environ["RECORDS"], name + ".jsonl"), "a") as file:
        file.write(json.dumps(rows) + chr(10))
    return batch
pipeline.TrainBatches.__next__ = recorded
from mmt.cli.main import main
sys.exit(main())
"""

FLAGS = (
    "--gin_file=gin_configs/runs/train.gin", "--gin_file=gin_configs/meshes/data.gin",
    "--gin.MIXTURE_OR_TASK_NAME=words_to_eng",
    "--gin.VOCAB_SIZE=320", "--gin.TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 16}",
    "--gin.BATCH_SIZE=8", "--gin.CHECKPOINT_PERIOD=100", "--gin.EVAL_PERIOD=4",
    "--gin.train.train.hooks=[@hooks.ValidationLoss()]", "--gin.train.Trainer.log_every=1",
    "--gin.train.Trainer.languages_every=1", "--gin.transformer.Config.emb_dim=16",
    "--gin.transformer.Config.num_heads=2", "--gin.transformer.Config.head_dim=8",
    "--gin.transformer.Config.mlp_dim=32", "--gin.transformer.Config.encoder_layers=1",
    "--gin.transformer.Config.decoder_layers=1", "--gin.train.inverse_sqrt.peak=0.05",
    "--gin.train.inverse_sqrt.warmup_steps=20", "--gin.distributed.start.heartbeat=10",
)  # fmt: skip
DENSE = ("--gin_file=gin_configs/models/tiny.gin",)
MOE = (
    "--gin_file=gin_configs/models/tiny_moe.gin", "--gin.transformer.Config.moe_period=1",
    "--gin.moe.MoeConfig.num_experts=4", "--gin.moe.MoeConfig.group_size=32",
)  # fmt: skip


def write_corpus(folder: Path) -> Path:
    """A corpus description of two made-up languages, no sentence twice."""
    folder.mkdir()
    text = ""
    for split, size in (("train", 200), ("validation", 10)):
        text += f"[{split}]\n"
        for language, words in (("deu", "eins zwei drei"), ("swh", "moja mbili tatu")):
            first = 0 if split == "train" else 200
            foreign, english = words.split(), "one two three".split()
            lines = []
            for number in range(first, first + size):
                digits = [number // 3**place % 3 for place in range(5)]
                sides = (" ".join(side[digit] for digit in digits) for side in (foreign, english))
                lines.append("\t".join(sides) + "\n")
            (folder / f"{split}.{language}.tsv").write_text("".join(lines))
            text += f'{language} = "{split}.{language}.tsv"\n'
    (folder / "corpus.toml").write_text(text)
    return folder


@dataclasses.dataclass
class Runner:
    """Starts runs on the corpus in `corpus`; MMT_DATA is the folder around it."""

    corpus: Path

    def start(
        self, directory: Path, *flags: str, processes: int = 1, devices: int = 1, steps: int = 6,
        flags_of: dict[int, tuple[str, ...]] | None = None,
    ) -> list[subprocess.Popen]:  # fmt: skip
        """Starts the processes of a run in `directory`; flags_of: further flags by index."""
        records = directory.with_name(directory.name + ".records")
        records.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ, "MMT_DATA": str(self.corpus.parent), "RECORDS": str(records),
            "XLA_FLAGS": os.environ["XLA_FLAGS"]
            + f" --xla_force_host_platform_device_count={devices}",
            "JAX_PLATFORMS": "cpu",
        }  # fmt: skip
        if processes > 1:
            environment["JAX_COORDINATOR_ADDRESS"] = f"localhost:{free_port()}"
            environment["JAX_NUM_PROCESSES"] = str(processes)
        return [
            subprocess.Popen(
                [
                    sys.executable, "-c", RECORDING, "train", *FLAGS, *flags,
                    f"--gin.CORPUS={self.corpus}", f"--gin.MODEL_DIR={directory}",
                    f"--gin.TRAIN_STEPS={steps}", *(flags_of or {}).get(process, ()),
                ],
                env=environment | {"JAX_PROCESS_ID": str(process)}, cwd=ROOT,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for process in range(processes)
        ]  # fmt: skip

    def run(self, directory: Path, *flags: str, **options) -> list[str]:
        """Runs to the end; what the processes wrote to stderr. Only the first writes to stdout."""
        ended = finish(self.start(directory, *flags, **options))
        for index, (status, out, error) in enumerate(ended):
            assert status == 0, error
            assert out.strip() == ("" if index else str(directory))
        return [error for _, _, error in ended]


def finish(started: list[subprocess.Popen], timeout: float = 300) -> list[tuple[int, str, str]]:
    """(status, stdout, stderr) of each, when all have ended."""
    try:
        texts = [process.communicate(timeout=timeout) for process in started]
    finally:
        for process in started:
            process.kill()
    return [
        (process.returncode, out.decode(), error.decode())
        for process, (out, error) in zip(started, texts, strict=True)
    ]


def records(directory: Path) -> list[list]:
    """What the processes of a run wrote down since the last call, put together: step -> row ->
    examples.
    """
    folder = directory.with_name(directory.name + ".records")
    files = sorted(folder.iterdir())
    parts = [list(map(json.loads, file.read_text().splitlines())) for file in files]
    for file in files:
        file.unlink()
    return [[row for part in step for row in part] for step in zip(*parts, strict=True)]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return listening.getsockname()[1]
