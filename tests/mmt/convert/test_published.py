"""A published model: it translates as its run does, is small, and loads only if unchanged."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import sacrebleu

from mmt import checkpoint
from mmt.cli import main
from mmt.convert import average
from mmt.data.cache.manifest import read_manifest
from mmt.model.transformer import parameter_shapes
from mmt.run import Run
from mmt.translate import Decoding, Translator

ROOT = Path(__file__).resolve().parents[3]
OLD = ROOT / "tests/data/old_run"
CARD = ROOT / "benchmarks/mix150/card.toml"
RESULTS = OLD / "results.jsonl"


def export(
    out: Path, *, model: Path = OLD / "toy", dtype: str = "int8", card: Path = CARD,
    results: Path = RESULTS,
) -> int:  # fmt: skip
    arguments = ["export", "mmt", "--model", model, "--out", out, "--dtype", dtype]
    return main.main([*map(str, arguments), "--card", str(card), "--results", str(results)])


@pytest.fixture(scope="module")
def int8(tmp_path_factory):
    out = tmp_path_factory.mktemp("published") / "model"
    assert export(out) == 0
    return out


def parameters(run: Path) -> list[np.ndarray]:
    shapes = parameter_shapes(Run(run).model())
    return [np.asarray(leaf) for leaf in jax.tree.leaves(checkpoint.restore_params(run, shapes))]


@pytest.mark.parametrize(("dtype", "error"), [("int8", 1 / 254), ("bfloat16", 1 / 256)])
def test_weights_are_near_and_float32(tmp_path, dtype, error):
    assert export(tmp_path / "model", dtype=dtype) == 0
    run = Run(tmp_path / "model")
    theirs, ours = parameters(OLD / "toy"), parameters(run.directory)
    for old, new in zip(theirs, ours, strict=True):
        assert new.dtype == np.float32
        largest = np.abs(old).max(-1, keepdims=True)
        assert (np.abs(old - new) <= largest * error * 1.001).all()
    kinds = {array.dtype.name for array in np.load(run.weights(run.best_step())).values()}
    assert {"int8": "int8", "bfloat16": "uint16"}[dtype] in kinds


def test_translations_are_near_the_full_model(int8):
    lines = (OLD / "hypotheses/toy/numbers/deu_Latn.src").read_text().splitlines()
    texts = [
        [line.text for line in Translator.load(run).translate(lines, decoding=Decoding(beam=1))]
        for run in (OLD / "toy", int8)
    ]
    assert sacrebleu.corpus_chrf(texts[1], [texts[0]]).score > 90


def test_the_manifest_names_no_files(int8):
    manifest = read_manifest(Run(int8).manifest)
    assert not manifest.corpora and manifest.counts["train"]


def test_the_card_has_facts_and_scores(int8):
    text = Run(int8).card.read_text()
    for fact in ("CC BY-NC 4.0", "research", "deu_Latn", "## Risks", "target tokens", "sha256"):
        assert fact in text
    assert "deu_Latn" in text and not list(int8.glob("*.jsonl"))


def test_an_averaged_model_takes_what_it_has_not_measured_from_the_file(tmp_path, capsys):
    mean, results, card = (tmp_path / name for name in ("mean", "results.jsonl", "card.toml"))
    average.average([OLD / "toy", OLD / "toy"], mean)
    scores = RESULTS.read_text().replace('"system": "toy"', '"system": "mean"')
    results.write_text(scores.replace('"toy/80"', f'"mean/{Run(mean).best_step()}"'))
    assert export(tmp_path / "model", model=mean, results=results) != 0
    error = capsys.readouterr().err
    assert "card.toml: the card's facts are missing: trained_for, hardware; " in error
    assert "mean has no metrics.jsonl with environment.json" in error
    assert not (tmp_path / "model").exists()
    facts = 'trained_for = "2 × 80 steps"\nhardware = "one CPU, 1 hour"\n'
    card.write_text(facts + CARD.read_text())
    assert export(tmp_path / "model", model=mean, results=results, card=card) == 0
    text = Run(tmp_path / "model").card.read_text()
    assert "| trained for | 2 × 80 steps |\n| hardware | one CPU, 1 hour |\n" in text
    assert export(tmp_path / "other", card=card) != 0
    assert "remove trained_for and hardware, which the run has measured" in capsys.readouterr().err


def load(run: Path) -> None:
    checkpoint.restore_params(run, parameter_shapes(Run(run).model()))


def test_weights_without_their_card_are_refused(int8, tmp_path):
    copy = Path(shutil.copytree(int8, tmp_path / "copy"))
    Run(copy).card.unlink()
    with pytest.raises(ValueError, match="weights without their card: it has no README.md"):
        load(copy)


@pytest.mark.parametrize("name", ["weights.npz", "README.md", "vocabulary.model"])
def test_a_changed_file_is_named(int8, tmp_path, name):
    copy = Path(shutil.copytree(int8, tmp_path / "copy"))
    (file,) = copy.rglob(name)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} has other bytes: sha256"):
        load(copy)


def test_training_cannot_resume_from_it(int8):
    with pytest.raises(ValueError, match="holds a published model, which has no training state"):
        checkpoint.check_model(int8, {})


def test_nothing_is_written_without_a_card(tmp_path, capsys):
    out = tmp_path / "model"
    command = ["export", "mmt", "--model", str(OLD / "toy"), "--out", str(out)]
    assert main.main(command) != 0
    assert "a published model needs its card" in capsys.readouterr().err
    empty = tmp_path / "results.jsonl"
    empty.write_text("")
    assert export(out, results=empty) != 0
    assert "facts are missing: no score of toy" in capsys.readouterr().err
    assert not out.exists()
