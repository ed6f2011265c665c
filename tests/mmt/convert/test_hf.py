"""Hugging Face directories in and out: round trips, and fine-tuning of an imported model."""

import dataclasses
import json
import logging
import shutil

import jax
import numpy as np
import pytest

from mmt import checkpoint, config
from mmt.convert import hf, tensors
from mmt.data import pipeline
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import read_manifest
from mmt.model import transformer
from mmt.model.transformer import Config, parameter_shapes
from mmt.run import Run
from tests.helpers import hf_families
from tests.helpers.hf_runs import SIZES, VARIANTS, edit, make_run, parameters, refused


@pytest.mark.parametrize(
    "name",
    ["t5, tied", "umt5", "switch",
     *(pytest.param(name, marks=pytest.mark.slow) for name in ("t5", "switch, own logits"))],
)  # fmt: skip
def test_round_trip_is_exact(exported, name, tmp_path):
    run, out = exported(name)
    hf.import_hf(out, tmp_path / "back")
    # Without what a Hugging Face file does not say of an expert layer, the same model.
    forget = lambda c: (c, None) if not c.moe_period else (c.moe_period, c.moe.num_experts)  # noqa: E731
    models = [Run(directory).model().config for directory in (run, tmp_path / "back")]
    assert forget(models[0]) == forget(models[1])
    jax.tree.map(np.testing.assert_array_equal, parameters(run), parameters(tmp_path / "back"))
    manifest = read_manifest(tmp_path / "back" / "manifest.json")
    assert (manifest.languages, manifest.eos, manifest.start) == ((), 1, 0)
    hf.export_hf(tmp_path / "back", tmp_path / "again")
    for path in out.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parity
@pytest.mark.parametrize("name", VARIANTS)
def test_transformers_loads_an_export_completely_without_warnings(exported, name, caplog):
    """Except for the message that `transformers` 5 prints for every T5 and UMT5 with untied logits.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    run, out = exported(name)
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
        transformers.AutoTokenizer.from_pretrained(out)
    finally:
        logger.removeHandler(caplog.handler)
    messages = [record.getMessage() for record in caplog.records]
    if name in ("t5", "umt5"):
        messages = [message for message in messages if "we will NOT tie them" not in message]
    assert messages == []

    model = Run(run).model()
    source, target = hf_families.batch(model.config)
    given = {"params": parameters(run)}, source, target
    ours = model.apply(*jax.tree.map(jax.numpy.asarray, given))
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.as_tensor(source).long(),
            attention_mask=torch.as_tensor(source != 0),
            decoder_input_ids=torch.as_tensor(target).long(),
        ).logits  # fmt: skip
    np.testing.assert_allclose(ours, logits.numpy(), rtol=1e-3, atol=1e-3 * np.abs(ours).max())


def test_shards_and_half_precision(exported, tmp_path, monkeypatch):
    run, _ = exported("t5")
    monkeypatch.setattr(tensors, "SHARD_BYTES", 20_000)
    hf.export_hf(run, tmp_path / "shards")
    files = sorted(path.name for path in (tmp_path / "shards").glob("*.safetensors"))
    assert len(files) > 2 and files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    hf.import_hf(tmp_path / "shards", tmp_path / "back")
    jax.tree.map(np.testing.assert_array_equal, parameters(run), parameters(tmp_path / "back"))

    import ml_dtypes
    import safetensors.numpy

    for path in (tmp_path / "shards").glob("*.safetensors"):
        arrays = safetensors.numpy.load_file(path)
        half = {name: array.astype(ml_dtypes.bfloat16) for name, array in arrays.items()}
        safetensors.numpy.save_file(half, path)
    hf.import_hf(tmp_path / "shards", tmp_path / "half")

    def rounded(imported, exact):
        assert imported.dtype == np.float32
        np.testing.assert_array_equal(imported, exact.astype(ml_dtypes.bfloat16).astype(np.float32))

    jax.tree.map(rounded, parameters(tmp_path / "half"), parameters(run))


def test_copies_of_the_embedding_must_be_equal(directory, tmp_path):
    import safetensors.numpy

    path = directory / "model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    copy = arrays.pop("shared.weight")
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    others = {"decoder.embed_tokens.weight": copy, "encoder.embed_tokens.weight": copy}
    safetensors.numpy.save_file({**arrays, **others, unused: np.ones((32, 2), np.float32)}, path)
    hf.import_hf(directory, tmp_path / "run")
    embedding = parameters(tmp_path / "run")["source_embed"]["embedding"]
    np.testing.assert_array_equal(embedding, copy)
    safetensors.numpy.save_file({**arrays, **others, "encoder.embed_tokens.weight": copy + 1}, path)
    with pytest.raises(ValueError, match=r"\w+.embed_tokens.weight differs from \w+.embed"):
        hf.import_hf(directory, tmp_path / "other")


def test_logits_without_a_tensor_are_the_embedding_only_where_config_says_so(directory, tmp_path):
    import safetensors.numpy

    path = directory / "model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    del arrays["lm_head.weight"]
    safetensors.numpy.save_file(arrays, path)
    refused(directory, "lm_head.weight: missing")
    edit(directory, tie_word_embeddings=True, scale_decoder_outputs=False)
    hf.import_hf(directory, tmp_path / "tied")
    kernel = parameters(tmp_path / "tied")["logits"]["kernel"]
    np.testing.assert_array_equal(kernel.T, arrays["shared.weight"])


def test_the_config_of_an_import_has_the_macros_of_gin_configs_models(exported):
    """A run file extends it, and its macros are those of gin_configs/models."""
    run, _ = exported("switch")
    config.load(
        [run / "config.gin", "gin_configs/runs/train.gin", "gin_configs/runs/finetune.gin"],
        [f"INITIAL_MODEL_DIR={run}", "CORPUS=cldr", "MIXTURE_OR_TASK_NAME=cldr_to_eng",
         "MODEL_DIR=child", "TRAIN_STEPS=1", "DROPOUT_RATE=0.3"],
    )  # fmt: skip
    made = config.configured(transformer.Transformer)()
    assert made.config.dropout_rate == made.config.moe.expert_dropout == 0.3
    assert made.config.tied_logits and made.config.moe.num_experts == 3


@pytest.mark.slow
def test_a_madlad_shaped_model_is_fine_tuned_with_its_own_ids_and_tag(
    mmt_command, toy_corpus, tmp_path
):
    pytest.importorskip("seqio")
    theirs, run, child = (tmp_path / name for name in ("theirs", "run", "child"))
    made = make_run(tmp_path / "made", pad_id=1, eos_id=2)
    made.joinpath("vocabulary.model").write_bytes(hf_families.sentencepiece_model("MADLAD-400"))
    pieces = vocab.Vocabulary.load(made / "vocabulary.model")
    text = hf.gin_text(Config(pieces.size, pad_id=1, eos_id=2, **SIZES), "made")
    (made / "config.gin").write_text(text)
    random = np.random.default_rng(0)
    sides = ("source", "target")
    dataclasses.replace(
        read_manifest(made / "manifest.json"), vocabulary_hash=dict.fromkeys(sides, pieces.hash),
        vocabulary_size=dict.fromkeys(sides, pieces.size),
    ).write(made)  # fmt: skip
    shutil.rmtree(made / "checkpoints")
    checkpoint.write_params(
        made, parameter_shapes(Run(made).model()),
        lambda path, shape: random.normal(size=shape.shape).astype(np.float32),
    )  # fmt: skip
    hf.export_hf(made, theirs)
    hf.import_hf(theirs, run)
    flags = [
        f"--gin_file={run}/config.gin", "--gin_file=gin_configs/runs/train.gin",
        "--gin_file=gin_configs/runs/finetune.gin", f"--gin.INITIAL_MODEL_DIR={run}",
        f"--gin.CORPUS={toy_corpus}", "--gin.MIXTURE_OR_TASK_NAME=numbers_to_eng",
        f"--gin.MODEL_DIR={child}", "--gin.TRAIN_STEPS=2", "--gin.BATCH_SIZE=8",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 64}",
    ]  # fmt: skip
    done = mmt_command("train", *flags, MMT_DATA=str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr.decode()
    manifest = read_manifest(child / "manifest.json")
    assert (manifest.pad, manifest.eos, manifest.start) == (1, 2, 0)
    place = next((tmp_path / "data" / "caches").iterdir())
    batch = next(pipeline.train_batches(
        place, feature_lengths={"inputs": 64, "targets": 64}, batch_size=2
    ))  # fmt: skip
    first = batch["encoder_input_tokens"][batch["encoder_positions"] == 1]
    assert pieces.id("<2en>") in first  # after the space that this model puts in front
    ends = batch["encoder_input_tokens"] == 2
    padding = batch["encoder_input_tokens"][batch["encoder_segment_ids"] == 0]
    assert ends.any() and (padding == 1).all()
    done = mmt_command("translate", "--model", child, "--to", "en", stdin=b"eins zwei\n")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1, done.stderr.decode()
    wrong = [flag for flag in flags if "INITIAL" not in flag and "finetune" not in flag]
    done = mmt_command("train", *wrong, MMT_DATA=str(tmp_path / "other"))
    assert done.returncode == 1
    assert b"VOCABULARY_FROM" in done.stderr  # a vocabulary of ours does not end texts with 2
    hf.export_hf(child, tmp_path / "out")
    tokens = json.loads((tmp_path / "out" / "tokenizer.json").read_text())
    assert tokens["model"]["type"] == "Unigram" and len(tokens["model"]["vocab"]) == pieces.size
