"""Hugging Face directories in and out without transformers: round trips, and bad ones."""

import dataclasses
import json
import logging
import re
import shutil

import jax
import numpy as np
import pytest

from mmt import checkpoint, config
from mmt.convert import hf, tensors
from mmt.data import pipeline
from mmt.data import vocabulary as vocab
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.model import moe, transformer
from mmt.model.transformer import Config, Transformer, parameter_shapes
from mmt.run import Run
from tests.helpers import hf_families

TEXTS = ["<2eng> Guten Tag, Welt", "Good day, world", "eins zwei drei", "one two three"]
SIZES = {
    "emb_dim": 16, "num_heads": 2, "head_dim": 4, "mlp_dim": 24, "encoder_layers": 2,
    "decoder_layers": 3,
}  # fmt: skip
SWITCH = {
    "moe_period": 2, "mlp_activations": ("relu",), "tied_logits": True,
    "moe": moe.MoeConfig(num_experts=3, router=moe.switch_top1, capacity_factor=1.25),
}  # fmt: skip
VARIANTS = {
    "t5": {},
    "t5, tied": {"tied_logits": True, "mlp_activations": ("relu",)},
    "umt5": {"relative_bias_per_layer": True, "relative_buckets": 16},
    "switch": SWITCH,
    "switch, own logits": SWITCH | {"tied_logits": False},
}


def make_run(directory, **options):
    """A run directory of a random model with a vocabulary of ours."""
    directory.mkdir()
    vocab.train(TEXTS, directory / "vocabulary.model", size=300, tags=["<2eng>"])
    vocabulary = vocab.Vocabulary.load(directory / "vocabulary.model")
    made = Config(vocabulary.size + 3, **(SIZES | options))
    (directory / "config.gin").write_text(hf.gin_text(made, "made"))
    sides = ("source", "target")
    Manifest(
        "made", "eng_Latn", ("deu_Latn",), {}, "",
        dict.fromkeys(sides, vocabulary.hash), dict.fromkeys(sides, vocabulary.size),
    ).write(directory)  # fmt: skip
    random = np.random.default_rng(0)
    checkpoint.write_params(
        directory, parameter_shapes(Transformer(made)),
        lambda path, shape: random.normal(size=shape.shape).astype(np.float32),
    )  # fmt: skip
    return directory


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """name -> (run directory, exported directory), made once each."""
    made = {}

    def get(name):
        if name not in made:
            run = make_run(tmp_path_factory.mktemp("hf") / "run", **VARIANTS[name])
            hf.export_hf(run, run.parent / "out")
            made[name] = run, run.parent / "out"
        return made[name]

    return get


@pytest.fixture
def directory(exported, tmp_path):
    """A good directory, to be broken."""
    shutil.copytree(exported("t5")[1], tmp_path / "t5")
    return tmp_path / "t5"


def parameters(run):
    return checkpoint.restore_params(run, parameter_shapes(Run(run).model()))


def edit(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("name", VARIANTS)
def test_round_trip_is_exact(exported, name, tmp_path):
    run, out = exported(name)
    hf.import_hf(out, tmp_path / "back")
    # Without what a Hugging Face file does not say of an expert layer, the same model.
    forget = lambda c: (c, None) if not c.moe_period else (c.moe_period, c.moe.num_experts)  # noqa: E731
    models = [Run(one).model().config for one in (run, tmp_path / "back")]
    assert forget(models[0]) == forget(models[1])
    jax.tree.map(np.testing.assert_array_equal, parameters(run), parameters(tmp_path / "back"))
    manifest = read_manifest(tmp_path / "back" / "manifest.json")
    assert (manifest.languages, manifest.eos, manifest.start) == ((), 1, 0)
    hf.export_hf(tmp_path / "back", tmp_path / "again")
    for path in out.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parity
@pytest.mark.parametrize("name", VARIANTS)
def test_transformers_loads_an_export_in_silence_and_whole(exported, name, caplog):
    """But for the message that `transformers` 5 has for every T5 and UMT5 with own logits, whatever
    their config.json says.
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
    said = [record.getMessage() for record in caplog.records]
    if name in ("t5", "umt5"):
        said = [message for message in said if "we will NOT tie them" not in message]
    assert said == []

    source, target = hf_families.batch(config.model_from(run).config)
    given = {"params": parameters(run)}, source, target
    ours = config.model_from(run).apply(*jax.tree.map(jax.numpy.asarray, given))
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
        own = safetensors.numpy.load_file(path)
        half = {name: array.astype(ml_dtypes.bfloat16) for name, array in own.items()}
        safetensors.numpy.save_file(half, path)
    hf.import_hf(tmp_path / "shards", tmp_path / "half")

    def rounded(found, exact):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, exact.astype(ml_dtypes.bfloat16).astype(np.float32))

    jax.tree.map(rounded, parameters(tmp_path / "half"), parameters(run))


def test_copies_of_the_embedding_are_one(directory, tmp_path):
    import safetensors.numpy

    path = directory / "model.safetensors"
    own = safetensors.numpy.load_file(path)
    copy = own.pop("shared.weight")
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    others = {"decoder.embed_tokens.weight": copy, "encoder.embed_tokens.weight": copy}
    safetensors.numpy.save_file({**own, **others, unused: np.ones((32, 2), np.float32)}, path)
    hf.import_hf(directory, tmp_path / "run")
    found = parameters(tmp_path / "run")["source_embed"]["embedding"]
    np.testing.assert_array_equal(found, copy)
    safetensors.numpy.save_file({**own, **others, "encoder.embed_tokens.weight": copy + 1}, path)
    with pytest.raises(ValueError, match=r"\w+.embed_tokens.weight differs from \w+.embed"):
        hf.import_hf(directory, tmp_path / "other")


def test_logits_without_a_tensor_are_the_embedding_only_where_config_says_so(directory, tmp_path):
    import safetensors.numpy

    path = directory / "model.safetensors"
    own = safetensors.numpy.load_file(path)
    del own["lm_head.weight"]
    safetensors.numpy.save_file(own, path)
    refused(directory, "lm_head.weight: missing")
    edit(directory, tie_word_embeddings=True, scale_decoder_outputs=False)
    hf.import_hf(directory, tmp_path / "tied")
    found = parameters(tmp_path / "tied")["logits"]["kernel"]
    np.testing.assert_array_equal(found.T, own["shared.weight"])


# ---------------------------------------------------------------- bad input


def refused(directory, message, **changes):
    if changes:
        edit(directory, **changes)
    before = sorted(directory.parent.iterdir())
    with pytest.raises(ValueError, match=message):
        hf.import_hf(directory, directory.parent / "run")
    assert sorted(directory.parent.iterdir()) == before  # nothing half-made


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
def test_a_config_that_does_not_fit(directory, changes, message):
    refused(directory, message, **changes)


def test_special_ids_come_from_the_files(directory):
    (directory / "generation_config.json").unlink()
    refused(directory, "no decoder_start_token_id", decoder_start_token_id=None)
    edit(directory, decoder_start_token_id=7, pad_token_id=9)
    hf.import_hf(directory, directory.parent / "run")
    found = Run(directory.parent / "run").model().config
    assert (found.start_id, found.pad_id, found.eos_id) == (7, 9, 1)
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


def test_files_that_are_missing_or_damaged(directory, monkeypatch, exported, tmp_path):
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


def test_nothing_is_written_over(exported, tmp_path):
    run, out = exported("t5")
    (tmp_path / "here").mkdir()
    for convert, source in ((hf.import_hf, out), (hf.export_hf, run)):
        with pytest.raises(ValueError, match="here exists; it is left as it is"):
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


def test_what_a_thread_still_writes_is_removed_too(tmp_path, monkeypatch):
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
        (SWITCH | {"moe_period": 3}, r"cannot have experts in layers \[2\] of 3"),
        ({"mlp_activations": ("gelu", "relu")}, r"Hugging Face's T5 has one, or one and 'linear'"),
    ],
)
def test_models_that_have_no_architecture_there(options, message, tmp_path, monkeypatch):
    made = Transformer(Config(40, **(SIZES | {"encoder_layers": 3} | options)))
    monkeypatch.setattr(Run, "model", lambda _: made)
    with pytest.raises(ValueError, match=message):
        hf.export_hf(tmp_path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_config_of_an_import_is_one_of_ours(exported):
    """A run file goes on from it, and its macros are those of gin_configs/models."""
    run, _ = exported("switch")
    config.load(
        [run / "config.gin", "gin_configs/runs/train.gin", "gin_configs/runs/finetune.gin"],
        [f"INITIAL_MODEL_DIR={run}", "CORPUS=cldr", "MIXTURE_OR_TASK_NAME=cldr_to_eng",
         "MODEL_DIR=child", "TRAIN_STEPS=1", "DROPOUT_RATE=0.3"],
    )  # fmt: skip
    made = config.configured(transformer.Transformer)()
    assert made.config.dropout_rate == made.config.moe.expert_dropout == 0.3
    assert made.config.tied_logits and made.config.moe.num_experts == 3


# ---------------------------------------------------------------- fine-tuning


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
