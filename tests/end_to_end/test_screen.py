"""What a training run shows on a terminal from its start to its end: the name of every phase."""

import os
import sys

import pytest

from tests.helpers import terminal
from tests.helpers.processes import DENSE, FLAGS, ROOT, write_corpus

BEFORE = (
    "starting", "loading libraries", "loading TensorFlow and SeqIO", "reading the corpus",
    "training a vocabulary of 320 pieces", "caching words_to_eng", "opening the data",
)  # fmt: skip
TRAINING = (
    "initialising the model", "compiling", "validating loss: German (1 of 2)",
    "validating BLEU: German (1 of 2)", "saving",
)  # fmt: skip


def train(tmp_path, *flags):
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "MMT_DATA": str(tmp_path), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "mmt.cli", "train", *flags, f"--gin.MODEL_DIR={tmp_path}/run"]
    return terminal.run(command, cwd=ROOT, environment=environment)


def test_a_run_names_its_phases_on_a_terminal(tmp_path):
    pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
    hooks = "[@hooks.ValidationLoss(), @validation.ValidationBleu()]"
    corpus = write_corpus(tmp_path / "words")
    flags = (*FLAGS, *DENSE, f"--gin.CORPUS={corpus}", f"--gin.train.train.hooks={hooks}")
    first = train(tmp_path, *flags, "--gin.TRAIN_STEPS=4")
    assert first.status == 0, first.text
    places = [first.text.find(name) for name in (*BEFORE, *TRAINING)]
    assert -1 not in places and places == sorted(places), places
    assert "step 4: validation loss" in first.text and str(tmp_path / "run\n") not in first.text
    again = train(tmp_path, *flags, "--gin.TRAIN_STEPS=5")
    assert "reading the checkpoint" in again.text and "TensorFlow" not in again.text


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_is_never_silent_for_long(tmp_path):
    done = train(
        tmp_path, "--gin_file=gin_configs/examples/demo.gin", "--gin.TRAIN_STEPS=4",
        "--gin.EVAL_PERIOD=4", "--gin.train.warmup_cosine.warmup_steps=1",
    )  # fmt: skip
    assert done.status == 0, done.text
    assert done.silences(3.0) == []
