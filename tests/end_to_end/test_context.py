"""A model that is trained with context knows what a pronoun means, by every command."""

import random

import pytest

from eval.records import analysis
from eval.records.contrastive import summaries
from eval.records.results import read_rows

pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
NOUNS = {"die frau": ("the woman", "she"), "die tür": ("the door", "it")}
VERBS = {"kommt": "comes", "geht": "goes", "bleibt": "stays", "fällt": "falls"}
STAGE = """
from __gin__ import dynamic_registration
from mmt.data import pipeline
from mmt.data import stages
pipeline.train_batches.stages = [@stages.Stage()]
stages.Stage.modifiers = {'context': 0.6}
"""


def write_corpus(folder):
    """Documents of two lines: `sie` is what the first line is about."""
    chance, text = random.Random(0), ""
    for split, count in (("train", 300), ("validation", 20), ("test", 30)):
        lines = []
        for noun in chance.choices(list(NOUNS), k=count):
            (english, pronoun), first, second = NOUNS[noun], *chance.choices(list(VERBS), k=2)
            lines += [f"{noun} {first}\t{english} {VERBS[first]}",
                      f"sie {second}\t{pronoun} {VERBS[second]}", ""]  # fmt: skip
        (folder / f"{split}.tsv").write_text("\n".join(lines))
        text += f'[{split}]\ndeu = {{ pairs = "{split}.tsv", documents = true }}\n'
    (folder / "corpus.toml").write_text(f'name = "sie"\n{text}')


@pytest.mark.slow
def test_context_decides_pronouns(mmt_command, toy_training, tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "stage.gin").write_text(STAGE)
    run = tmp_path / "run"
    replaced = ("moe", "MIXTURE", "LENGTHS", "TRAIN_STEPS", "VOCAB_SIZE")
    flags = [flag for flag in toy_training if not any(word in flag for word in replaced)]
    done = mmt_command(
        "train", "--gin_file=gin_configs/models/tiny.gin", *flags,
        f"--gin_file={tmp_path}/stage.gin", "--gin.MIXTURE_OR_TASK_NAME=sie_to_eng",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 48, 'targets': 48}", "--gin.TRAIN_STEPS=240",
        "--gin.VOCAB_SIZE=330", f"--gin.CORPUS={tmp_path}", f"--gin.MODEL_DIR={run}",
        MMT_DATA=str(tmp_path / "data"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()

    text = "die frau kommt\nsie geht\n\ndie tür kommt\nsie geht\n"
    done = mmt_command("translate", f"--model={run}", "--context=1", stdin=text.encode())
    assert done.returncode == 0, done.stderr.decode()
    first, she, blank, second, it = done.stdout.decode().splitlines()
    assert (first.split()[:2], second.split()[:2], blank) == (["the", "woman"], ["the", "door"], "")
    assert (she.split()[0], it.split()[0]) == ("she", "it")
    assert b"context: 2 of 4 different sentences had previous sentences; 0 of these" in done.stderr
    (tmp_path / "a.txt").write_text(text.split("\n\n")[0])
    files = f"--file={tmp_path}/a.txt", f"--out={tmp_path}/a.en.txt"
    done = mmt_command("translate", f"--model={run}", "--context=1", "--from=de", *files)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "a.en.txt").read_text().splitlines() == [first, she]

    scores, results = {}, tmp_path / "results.jsonl"
    for flags in ((), ("--context=1",)):
        done = mmt_command(
            "evaluate", f"--model={run}", f"--testset={tmp_path}", f"--out={results}", *flags
        )
        assert done.returncode == 0, done.stderr.decode()
        scores[flags] = float(done.stdout.decode().split("\t")[2])  # chrF++: BLEU of 3 words is 0
    assert scores["--context=1",] > scores[()] + 2, scores
    assert b" different sentences had previous sentences" in done.stderr
    assert ["context:1" in row.decode for row in read_rows(results)] == [False, True]

    flags = "--context=1", "--contrastive"
    done = mmt_command(
        "evaluate", f"--model={run}", f"--testset={tmp_path}", f"--out={results}", *flags
    )
    assert done.returncode == 0, done.stderr.decode()
    (pronouns,) = (line.split() for line in done.stdout.decode().splitlines() if "pronouns" in line)
    rows = [row for row in analysis.read(tmp_path / "analysis.jsonl") if row.kind == "contrastive"]
    right = summaries(rows)["pronouns"]
    assert pronouns[:3] == ["deu_Latn", "pronouns", "30"] and right.examples == 30
    assert right.in_context == 30, done.stdout.decode()
    # The pronoun of another document is right as often as its noun is of the same gender.
    assert max(right.without_context, right.other_context) < 25, done.stdout.decode()
