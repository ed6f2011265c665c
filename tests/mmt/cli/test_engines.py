"""`--engine`: the flag and its binding, the search of the engine, and what is refused."""

import argparse
import io
import json
import shutil
import sys
import types
from pathlib import Path

import pytest

from mmt import config
from mmt.cli import engines
from mmt.cli.main import main
from mmt.model import inference
from mmt.run import Run
from mmt.translate import Decoding, Translator, placement
from tests.helpers import hf_runs

OLD = Path(__file__).resolve().parents[2] / "data/old_run"


@pytest.fixture
def bind():
    yield lambda *bindings: config.bind(list(bindings), [Translator.load, Decoding])
    config.bind([], [])


def flags(**given):
    return argparse.Namespace(**({"engine": None, "beam": None} | given))


def test_the_flag_wins_over_the_binding_and_chooses_the_search(bind):
    bind()
    assert engines.engine_of(flags()) == "jax"
    assert engines.decoding_of(flags(beam=2)) == Decoding(beam=2)
    assert engines.decoding_of(flags(), keep_placeholders=True) == Decoding(keep_placeholders=True)
    bind("Translator.load.engine=ctranslate2", "Decoding.alpha=1.0")
    assert engines.engine_of(flags()) == "ctranslate2"
    assert engines.decoding_of(flags()) == Decoding(alpha=1.0, search_style="hf")
    assert engines.engine_of(flags(engine="jax")) == "jax"
    assert engines.decoding_of(flags(engine="jax")) == Decoding(alpha=1.0)
    bind("Decoding.keep_placeholders=False")
    assert engines.decoding_of(flags(), keep_placeholders=True) == Decoding()
    bind("Decoding.search_style=t5x")  # for the search to refuse
    assert engines.decoding_of(flags(engine="ctranslate2")).search_style == "t5x"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--engine ctranslate2", "experts, which CTranslate2 does not have: distil it"),
        ("--gin.Translator.load.ensemble=other", "ensemble: 'other'; expected a list: ['other']"),
        ("--gin.Translator.load.engine=ctranslate", "nearest: ctranslate2; allowed: jax, ctrans"),
        (
            "--engine ctranslate2 --gin.device_mesh.axes={'data':1,'model':1}",
            "belongs to the engine jax",
        ),
    ],
)
def test_what_the_engine_cannot_do_is_named(line, message, tmp_path, monkeypatch, capsys):
    run = shutil.copytree(OLD / "toy", tmp_path / "toy")
    stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(b"eins")))
    monkeypatch.setattr(sys, "stdin", stream)
    try:
        assert main(["translate", "--model", str(run), *line.split()]) == 1
    finally:
        config.bind([], [])
    assert message in capsys.readouterr().err
    assert not Run(run).exports.exists()


def test_a_run_is_exported_and_translated_and_rows_name_the_engine(tmp_path, monkeypatch, capsys):
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    run = hf_runs.make_run(tmp_path / "run", **hf_runs.VARIANTS["t5, tied"])
    stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(b"eins\n\nzwei\n")))
    monkeypatch.setattr(sys, "stdin", stream)
    line = ["translate", "--model", str(run), "--engine", "ctranslate2", "--nbest", "2"]
    assert main(line) == 0
    out, err = capsys.readouterr()
    assert [row.split(" ||| ")[0] for row in out.splitlines()] == ["0", "0", "1", "2", "2"]
    assert "engine: ctranslate2, weights: int8 (--weights)" in err
    assert Run(run).ctranslate2([0]).is_dir()
    translator = Translator.load(run, engine="ctranslate2")
    text = engines.recorded(translator, translator.default_decoding)
    assert text == f"{translator.default_decoding}|engine:ctranslate2|weights:float32"


def test_rows_name_weights_that_are_not_those_of_the_training(bind):
    translator = types.SimpleNamespace(ctranslate2=None, layout=None)
    bind()
    assert engines.recorded(translator, Decoding()) == str(Decoding())
    bind("Translator.load.weights=int8")
    assert engines.recorded(translator, Decoding()) == f"{Decoding()}|weights:int8"
    translator.layout = object()  # which keeps the model as it was trained
    assert engines.recorded(translator, Decoding()) == str(Decoding())


@pytest.mark.parametrize(
    ("command", "stdin", "default"),
    [("translate --from de", b"a\n", "float32"), ("score", b"a\tb\n", "float32")],
)
def test_bound_weights_are_used_unless_the_flag_names_others(
    command, stdin, default, monkeypatch, tmp_path
):
    loaded = []

    def load(engine, run, steps, layout, weights):
        loaded.append(weights)
        raise ValueError("the weights are known")

    monkeypatch.setattr(placement, "load", load)
    monkeypatch.setattr(inference, "fastest_weights", lambda: "float32")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    line = [*command.split(), "--model", str(OLD / "toy")]
    bound = "--gin.Translator.load.weights=int8"
    try:
        assert main(line) == main([*line, bound]) == 1
        if line[0] == "translate":
            assert main([*line, bound, "--weights", "bfloat16"]) == 1
            (tmp_path / "a.de").write_text("a\n")
            bulk = ["--in", str(tmp_path / "a.de"), "--out", str(tmp_path / "en"), bound]
            assert main([*line, *bulk]) == 1
            recipe = json.loads((tmp_path / "en/translation.json").read_text())
            assert recipe["weights"] == "int8"
            assert loaded == [default, "int8", "bfloat16", "int8"]
        else:
            assert loaded == [default, "int8"]
    finally:
        config.bind([], [])


@pytest.mark.parametrize("flag", ["--weights", "--gin.Translator.load.weights"])
def test_weights_that_a_layout_does_not_have_are_named(flag, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"eins\n")))
    mesh = "--gin.device_mesh.axes={'data':1,'model':1}"
    try:
        run = ["translate", "--model", str(OLD / "toy"), "--beam", "1", mesh]
        assert main([*run, f"{flag}=int8"]) == 0
    finally:
        config.bind([], [])
    assert "weights: as trained; int8 is for one device" in capsys.readouterr().err


def test_only_weights_that_are_chosen_automatically_have_small_batches(bind, monkeypatch):
    """Batches in float32 are filled up where a user asks for float32, or for full batches."""
    fixed = []
    monkeypatch.setattr(
        Translator, "translate", lambda self, *_, **__: fixed.append(self.fixed_batch_size) or ()
    )
    run = ["translate", "--model", str(OLD / "toy"), "--from", "de"]
    for options in ([], ["--weights", "float32"], ["--gin.Translator.load.fixed_batch_size=True"]):
        monkeypatch.setattr(inference, "fastest_weights", lambda: "float32")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
        assert main([*run, *options]) == 0
    assert fixed == [False, True, True]
