"""A stand-in for COMET's command, and checkpoints as COMET's authors lay them out."""

import os
import stat
import sys

# The interface of unbabel-comet 2.2.7's comet-score; the score of a sentence is the share of its
# reference's characters that the translation has, or without references `quality`.
STAND_IN = """
import argparse, json, os
parser = argparse.ArgumentParser()
for name in ("-s", "-r", "--model", "--to_json"):
    parser.add_argument(name)
parser.add_argument("-t", nargs="+")
parser.add_argument("--only_system", action="store_true")
asked = parser.parse_args()
assert os.environ["HF_HUB_OFFLINE"] == "1" and "PYTHONPATH" not in os.environ
assert asked.model.endswith(".ckpt") and os.path.exists(asked.model)
read = lambda name: [line.strip() for line in open(name, encoding="utf-8").readlines()]
sources, translations = read(asked.s), read(asked.t[0])
if asked.r:
    pairs = zip(translations, read(asked.r), strict=True)
    scores = [len(set(hyp) & set(ref)) / len(set(ref)) for hyp, ref in pairs]
else:
    pairs = zip(sources, translations, strict=True)
    scores = [sum(map(ord, src + hyp)) % 97 / 97 for src, hyp in pairs]
if os.environ.get("LESS"):
    scores.pop()
with open(asked.to_json, "w") as file:
    json.dump({asked.t[0]: [{"COMET": score} for score in scores]}, file)
with open(os.environ["CALLS"], "a") as file:
    print(len(scores) + bool(os.environ.get("LESS")), file=file)
raise SystemExit(int(os.environ.get("STATUS", 0)))
"""


def quality(source, translation):
    """The score that the stand-in gives without a reference."""
    return sum(map(ord, source.strip() + translation)) % 97 / 97


def install(folder, monkeypatch):
    """Puts the stand-in on the PATH; returns a function that lists the lines scored per start."""
    command = folder / "bin/comet-score"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\n{STAND_IN}")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    log = folder / "calls"
    monkeypatch.setenv("CALLS", str(log))
    monkeypatch.setenv("PYTHONPATH", str(folder))  # the command must not get it
    return lambda: [int(line) for line in log.read_text().split()] if log.exists() else []


def write_model(folder, kind="regression_metric", encoder="xlm-roberta-large"):
    """Writes a checkpoint without weights; returns its file."""
    path = folder / "checkpoints/model.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    settings = f"pretrained_model: {encoder}\nclass_identifier: {kind}\n"
    (folder / "hparams.yaml").write_text(settings)
    return path
