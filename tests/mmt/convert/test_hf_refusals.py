"""Directories that cannot be converted are errors, which name the file and leave nothing behind."""

import dataclasses
import re
import shutil

import pytest

from mmt.convert import hf, tensors
from mmt.data.cache.manifest import read_manifest
from mmt.model import moe
from mmt.model.transformer import Config, Transformer
from mmt.run import Run
from tests.helpers.hf_runs import SIZES, SWITCH, edit, refused


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"d_ff": 32}, r"wi_0.weight: \[24, 16\] in the file, \[32, 16\] by config.json(\n.*)+wo"),
        ({"num_layers": 3}, r"encoder.block.2.layer.0.SelfAttention.q.weight: missing"),
        ({"num_decoder_layers": 2}, r"decoder.block.2.layer.2.layer_norm.weight: not in the model"),
        ({"model_type": "bart"}, r"model_type is 'bart'; allowed: t5, mt5, .*; nearest: mt5|t5"),
        ({"model_type": "llama"}, r"model_type is 'llama'"),
        ({"architectures": ["T5EncoderModel"]}, r"architecture T5EncoderModel; allowed: T5ForCond"),
        ({"dense_act_fn": "gelu"}, r"activation is 'gelu'; allowed: .*T5's 'gelu_new'"),
        ({"layer_norm_epsilon": 1e-5}, r"layer_norm_epsilon is 1e-05; allowed: 1e-06"),
        ({"d_model": "16"}, r"d_model is '16'; allowed: an integer"),
        ({"pad_token_id": 9999}, r"t5/config.json: pad_token_id is 9999; allowed: an integer"),
        ({"eos_token_id": 5}, r"eos_token_id is 5, in generation_config.json 1"),
        ({"tie_word_embeddings": True}, r"lm_head.weight differs from shared.weight"),
        ({"model_type": "umt5"}, r"block.1.layer.0.SelfAttention.relative_attention_bias.*missing"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(directory, changes, message):
    refused(directory, message, **changes)


def test_special_ids_come_from_the_files(directory):
    (directory / "generation_config.json").unlink()
    refused(directory, "no decoder_start_token_id", decoder_start_token_id=None)
    edit(directory, decoder_start_token_id=7, pad_token_id=9)
    hf.import_hf(directory, directory.parent / "run")
    config = Run(directory.parent / "run").model().config
    assert (config.start_id, config.pad_id, config.eos_id) == (7, 9, 1)
    manifest = read_manifest(directory.parent / "run" / "manifest.json")
    assert (manifest.start, manifest.pad, manifest.eos) == (7, 9, 1)
    shutil.rmtree(directory.parent / "run")
    refused(directory, "texts end with 1, by config.json with 2", eos_token_id=2)


def test_layers_with_experts_elsewhere_are_refused(exported, tmp_path):
    shutil.copytree(exported("switch")[1], tmp_path / "switch")
    refused(
        tmp_path / "switch", r"layers with experts are encoder \[1\]; decoder \[\]",
        decoder_sparse_step=0,
    )  # fmt: skip
    refused(tmp_path / "switch", "router_bias is True", router_bias=True)


def test_missing_or_damaged_files_are_named(directory, monkeypatch, exported, tmp_path):
    model = directory / "model.safetensors"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    refused(directory, "model.safetensors is damaged")
    model.unlink()
    refused(directory, "has no model.safetensors and no model.safetensors.index.json")
    (directory / "pytorch_model.bin").write_bytes(b"pickle")
    refused(directory, r"pytorch_model.bin but no .* safetensors only(.|\n)*save_pretrained")
    model.write_bytes(whole)
    (directory / "spiece.model").rename(directory / "gone")
    refused(directory, "has no spiece.model")
    for broken in ("{", '{"x": ' + "[" * 100_000):
        (directory / "config.json").write_text(broken)
        refused(directory, "config.json: broken JSON")
    (directory / "config.json").unlink()
    refused(directory, "is no Hugging Face model: it has no config.json")
    monkeypatch.setattr(tensors, "SHARD_BYTES", 20_000)
    hf.export_hf(exported("t5")[0], tmp_path / "shards")
    second = sorted((tmp_path / "shards").glob("*.safetensors"))[1]
    second.unlink()
    refused(tmp_path / "shards", f"1 of . files .* are missing: {second.name}")
    with pytest.raises(ValueError, match="no directory .*nowhere"):
        hf.import_hf(tmp_path / "nowhere", tmp_path / "run")


def test_no_existing_directory_is_overwritten(exported, tmp_path):
    run, out = exported("t5")
    (tmp_path / "here").mkdir()
    for convert, source in ((hf.import_hf, out), (hf.export_hf, run)):
        with pytest.raises(ValueError, match="here exists; it is not changed"):
            convert(source, tmp_path / "here")
    assert not list((tmp_path / "here").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="/file is a file, not a directory"):
        hf.import_hf(out, tmp_path / "file" / "x" / "y")


def test_only_the_vocabulary_of_the_training_is_exported(exported, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(exported("t5")[0], run)
    manifest, text = read_manifest(run / "manifest.json"), (run / "config.gin").read_text()
    (run / "config.gin").write_text(re.sub(r"(VOCAB_SIZE =) [1-9]\d*", r"\1 200", text))
    with pytest.raises(ValueError, match=r"has \d+ pieces, the model only 200 embeddings"):
        hf.export_hf(run, tmp_path / "out")
    dataclasses.replace(manifest, vocabulary_hash={"source": "x", "target": "x"}).write(run)
    with pytest.raises(ValueError, match="not the source vocabulary that the model was trained"):
        hf.export_hf(run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [run]


def test_files_that_a_thread_still_writes_are_removed(tmp_path, monkeypatch):
    remove, times = shutil.rmtree, []

    def early(place, **options):
        remove(place, **options)
        times.append(place)
        if len(times) < 3:
            place.mkdir()
            (place / ".o.1").touch()

    monkeypatch.setattr(shutil, "rmtree", early)
    with pytest.raises(KeyboardInterrupt), hf.staged(tmp_path / "out"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == [] and len(times) == 3


def test_a_full_disk_leaves_no_half_directory(exported, tmp_path, monkeypatch):
    run, out = exported("t5")
    written = []

    def full(writer, name, tensor):
        written.append(name)
        if len(written) == 10:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tensors.TensorWriter, "__setitem__", full)
        with pytest.raises(OSError, match="cannot write .*/export: .*No space left"):
            hf.export_hf(run, tmp_path / "export")
    read = tensors.Tensors.__getitem__

    def failing(self, name):
        if name == "lm_head.weight":
            raise OSError(28, "No space left on device")
        return read(self, name)

    monkeypatch.setattr(tensors.Tensors, "__getitem__", failing)
    with pytest.raises(OSError, match="No space left"):
        hf.import_hf(out, tmp_path / "import")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options, message",
    [
        ({"target_vocab_size": 10}, r"two vocabularies .*train with TARGET_VOCAB_SIZE = 0"),
        (
            {"moe_period": 2, "moe": moe.MoeConfig(num_experts=2)},
            r"router gshard_top2: only .* switch_top1 can be exported; distil .*`mmt distill`",
        ),
        (SWITCH | {"mlp_activations": ("gelu", "linear")}, r"have one activation"),
        (
            SWITCH | {"moe": dataclasses.replace(SWITCH["moe"], shared_mlp_dim=8)},
            r"shared_mlp_dim = 8: .* have no such thing; distil",
        ),
        (
            SWITCH | {"decoder_routing": "language", "languages": 3},
            r"decoder_routing = language: .* route by token only; distil",
        ),
        (SWITCH | {"moe_period": 3}, r"cannot have experts in layers \[2\] of 3"),
        ({"mlp_activations": ("gelu", "relu")}, r"Hugging Face's T5 has one, or one and 'linear'"),
    ],
)
def test_models_without_a_hugging_face_architecture_are_refused(
    options, message, tmp_path, monkeypatch
):
    made = Transformer(Config(40, **(SIZES | {"encoder_layers": 3} | options)))
    monkeypatch.setattr(Run, "model", lambda _: made)
    with pytest.raises(ValueError, match=message):
        hf.export_hf(tmp_path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
