"""COMET models: which are found and refused, and scores by the command."""

import dataclasses
import shutil

import pytest

from mmt.translate.comet import CometModel
from mmt.translate.comet.model import COMMAND
from tests.helpers import comet_checkpoint, comet_command


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A stand-in for the command; returns a function that lists the lines scored per start."""
    return comet_command.install(tmp_path, monkeypatch)


def test_scores_are_in_order_and_line_breaks_end_no_text(tmp_path, calls):
    model = CometModel.find(comet_command.write_model(tmp_path / "kiwi"))
    sources, translations = ["ein\rZug", "zwei\nZüge", ""], ["a train", "\ud800", "x"]
    expected = [
        comet_command.quality(source, translation)
        for source, translation in zip(
            ("ein Zug", "zwei Züge", ""), ("a train", "?", "x"), strict=True
        )
    ]
    assert model.scores(sources, translations) == pytest.approx(expected)
    assert model.scores(["a", "b"], ["xy", "x"], ["xz", "x"]) == [0.5, 1.0]
    assert calls() == [3, 2]


def test_a_model_is_a_folder_or_its_checkpoint_also_in_the_cache_of_hugging_face(tmp_path, calls):
    file = comet_command.write_model(tmp_path / "wmt99-kiwi")
    by_file, by_folder = CometModel.find(file), CometModel.find(tmp_path / "wmt99-kiwi")
    assert by_file == by_folder and by_file.name.startswith("wmt99-kiwi:")
    snapshot = tmp_path / "models--Unbabel--wmt99-kiwi/snapshots/1f2e"
    link = comet_command.write_model(snapshot)
    blob = tmp_path / "models--Unbabel--wmt99-kiwi/blobs/2d"
    blob.parent.mkdir()
    shutil.move(link, blob)
    link.symlink_to(blob)
    cached = CometModel.find(snapshot)
    assert cached.name == by_file.name and cached.scores(["a"], ["b"])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("regression_metric", "'regression_metric', a model that needs references"),
        ("ranking_metric", "a model that needs references"),
        ("unified_metric\ninput_segments: [mt, ref]", "a model that needs references"),
        ("unified_metrics", "allowed: .*; nearest: unified_metric"),
        ("unified_metric\ninput_segments: [mt, src]", None),
        ("referenceless_regression_metric", None),
        ("xcomet_metric", None),
    ],
)
def test_models_that_need_references_are_refused_by_name(kind, message, tmp_path, calls):
    model = CometModel.find(comet_command.write_model(tmp_path / "a", kind).parent.parent)
    if message is None:
        return model.check_reference_free()
    with pytest.raises(ValueError, match=rf"a/hparams\.yaml: class_identifier is .*{message}"):
        model.check_reference_free()


def test_languages_that_the_encoder_does_not_know_are_refused_by_name(tmp_path, calls):
    model = CometModel.find(comet_command.write_model(tmp_path / "a"))
    model.check_languages(["de", "Swahili", "zh", "eng_Latn"])
    with pytest.raises(ValueError, match=r"no neural scores for sag_Latn \(Sango\), because.*xlm-"):
        model.check_languages(["de", "Sango"])
    assert model.unknown(["deu_Latn", "cak_Latn", "sag_Latn"]) == {"cak_Latn", "sag_Latn"}


def test_a_failure_of_the_command_is_an_error_with_its_messages(tmp_path, calls, monkeypatch):
    model = CometModel.find(comet_command.write_model(tmp_path / "a"))
    monkeypatch.delenv("CALLS")
    with pytest.raises(ValueError, match=r"(?s)tokenizer of xlm-roberta-large.*KeyError: 'CALLS'"):
        model.scores(["a"], ["b"], messages=False)


def test_another_command_of_the_same_name_is_an_error(tmp_path, calls, monkeypatch):
    model = CometModel.find(comet_command.write_model(tmp_path / "a"))
    script = tmp_path / "other"
    model = dataclasses.replace(model, command=str(script))
    for text in ("[]", '{"hyp": [{"score": 0.5}]}', '{"hyp": [{"COMET": null}]}', "half"):
        script.write_text(f"#!/bin/sh\necho '{text}' > scores.json\n")
        script.chmod(0o755)
        with pytest.raises(ValueError, match="other wrote no scores by sentence"):
            model.scores(["a"], ["b"])
    script.write_text("#!/bin/sh\nprintf 'caf\\351' >&2; exit 3\n")  # Latin-1
    with pytest.raises(ValueError, match="ended with status 3.*: caf"):
        model.scores(["a"], ["b"], messages=False)


@pytest.mark.parity
@pytest.mark.parametrize("kind", comet_checkpoint.HYPER_PARAMETERS)
def test_the_real_command_scores_each_sentence_by_itself(kind, tmp_path):
    """With an environment of its own for unbabel-comet, whose folder `bin` is on the PATH."""
    pytest.importorskip("torch", reason="extra [parity]")
    if shutil.which(COMMAND) is None:
        pytest.skip(f"{COMMAND} is not on the PATH")
    model = CometModel.find(comet_checkpoint.write(tmp_path, kind))
    lines = [("ein haus", "a house", "the house"), ("zwei hunde", "two dogs", "two dogs"),
             ("ein haus", "fußball", "the house"), ("der baum", "", "the tree")]  # fmt: skip
    columns = [list(column) for column in zip(*lines, strict=True)]
    scores = model.scores(*columns)
    backwards = model.scores(*(column[::-1] for column in columns))
    assert len({round(score, 2) for score in scores}) > 2  # the command computes in float16
    assert scores == pytest.approx(backwards[::-1], abs=5e-3)
    if kind != "regression_metric":
        model.check_reference_free()
        assert model.scores(*columns[:2], messages=False) == pytest.approx(scores, abs=5e-3)
        return
    with pytest.raises(ValueError, match="(?s)status 2: .*requires -r/--references"):
        model.scores(*columns[:2], messages=False)


def test_what_is_missing_is_named(tmp_path, monkeypatch, calls):
    file = comet_command.write_model(tmp_path / "a")
    with pytest.raises(ValueError, match="Unbabel/wmt22-comet-da is no COMET model"):
        CometModel.find(tmp_path / "Unbabel/wmt22-comet-da")
    settings = tmp_path / "a/hparams.yaml"
    for text, message in (
        ("pretrained_model: bert-base\n", "'bert-base'; allowed: encoders"),
        ("pretrained_model: /xlm-r/bert\n", "'/xlm-r/bert'; allowed: encoders"),
        ("- a list\n", r"hparams\.yaml"),
    ):
        settings.write_text(text)
        with pytest.raises(ValueError, match=message):
            CometModel.find(file)
    settings.unlink()
    with pytest.raises(ValueError, match=r"no .*hparams\.yaml"):
        CometModel.find(file)
    comet_command.write_model(tmp_path / "b")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="comet-score is not on the PATH.*pip install"):
        CometModel.find(tmp_path / "b")
