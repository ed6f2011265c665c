"""Our model in a real T5X: its loss, its programs, its checkpoints. Run by `make test-t5x`."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt import losses
from mmt.convert import t5x
from mmt.model import moe, parameter_names, transformer

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.t5x, pytest.mark.timeout(1800)]

# What T5X imports of two more repositories and does not use here; see docs/t5x.md.
STAND_INS = {
    "airio/__init__.py": "",
    "airio/core.py": """
class DatasetProviderBase: pass
class Task(DatasetProviderBase): pass
class Mixture(DatasetProviderBase): pass
class AirIODatasetIterator: pass
""",
    "jestimator/__init__.py": "",
    "jestimator/amos.py": """
class ScaleByAmosState: pass
def amos(learning_rate): raise NotImplementedError
""",
    "jestimator/amos_helper.py": "state_partition_rule = None\n",
}


@pytest.fixture(scope="session")
def checkout(tmp_path_factory) -> str:
    """PYTHONPATH of T5X and its dependencies, also set in the test process."""
    if not os.environ.get("T5X"):
        pytest.skip("needs T5X=<a checkout of google-research/t5x>, see docs/t5x.md")
    path = Path(os.environ["T5X"]).absolute()
    assert (path / "t5x" / "train.py").is_file(), f"T5X={path} is no checkout of T5X"
    stand_ins, paths = tmp_path_factory.mktemp("stand_ins"), [str(ROOT), str(path)]
    for name in ("airio", "jestimator"):
        beside = path.parent / name
        for file in () if (beside / name).is_dir() else STAND_INS:
            if file.startswith(name):
                (stand_ins / file).parent.mkdir(exist_ok=True)
                (stand_ins / file).write_text(STAND_INS[file])
        paths.append(str(beside if (beside / name).is_dir() else stand_ins))
    sys.path += paths
    return os.pathsep.join(paths)


@pytest.fixture(scope="session")
def adapter(checkout):
    return importlib.import_module("mmt.t5x_adapter")


@pytest.fixture(scope="session")
def run_t5x(checkout, toy_corpus):
    """A function that runs t5x.train, t5x.eval or t5x.infer on the toy corpus; it gives the log."""

    def run(program: str, *arguments: str, **macros) -> str:
        macros = {
            "CORPUS": str(toy_corpus), "MIXTURE_OR_TASK_NAME": "numbers_to_eng",
            "TASK_FEATURE_LENGTHS": {"inputs": 32, "targets": 32},
        } | macros  # fmt: skip
        done = subprocess.run(
            [
                sys.executable, "-m", f"t5x.{program}", *arguments,
                f"--gin_file=gin_configs/t5x/{program}.gin",
                *(f"--gin.{name}={value!r}" for name, value in macros.items()),
            ],
            capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
            env={**os.environ, "PYTHONPATH": checkout, "MMT_DATA": str(toy_corpus.parent)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stderr

    return run


MODELS = {"dense": "gin_configs/models/tiny.gin", "moe": "gin_configs/models/tiny_moe.gin"}
SIZES = ("--gin.VOCAB_SIZE=340", "--gin.transformer.Config.emb_dim=32",
         "--gin.transformer.Config.mlp_dim=64")  # fmt: skip
# T5X's own network with our data; its vocabulary is that of the mixture.
NETWORK = (
    "--gin_file=t5x/examples/t5/t5_1_1/tiny.gin",
    "--gin.MODEL=@models.EncoderDecoderModel()", "--gin.VOCABULARY=@inputs/build.vocabulary()",
    "--gin.models.EncoderDecoderModel.decode_fn=@decoding.beam_search",
    "--gin.models.EncoderDecoderModel.default_decoder_params=@models.DecoderParams()",
    "--gin.VOCAB_SIZE=340", "--gin.TARGET_VOCAB_SIZE=0", "--gin.DROPOUT_RATE=0.1",
    "--gin.network.T5Config.vocab_size=340", "--gin.network.T5Config.dtype='float32'",
    "--gin.network.T5Config.emb_dim=32", "--gin.network.T5Config.mlp_dim=64",
    "--gin.network.T5Config.head_dim=8",
)  # fmt: skip


@pytest.fixture(scope="session")
def trained(run_t5x, tmp_path_factory):
    """A function that trains 20 steps: (model_dir, log)."""
    made = {}

    def train(kind: str) -> tuple[Path, str]:
        if kind not in made:
            directory = tmp_path_factory.mktemp("t5x") / kind
            log = run_t5x(
                "train", f"--gin_file={MODELS[kind]}", *SIZES, MODEL_DIR=str(directory),
                BATCH_SIZE=8, TRAIN_STEPS=20, EVAL_PERIOD=10, CHECKPOINT_PERIOD=10,
            )  # fmt: skip
            made[kind] = directory, log
        return made[kind]

    return train


def made_batch(rows: int = 6, length: int = 12) -> dict[str, jax.Array]:
    """Two examples a row, packed, as SeqIO gives them."""
    random = np.random.default_rng(0)
    tokens = random.integers(2, 40, (2, rows, length)).astype(np.int32)
    segments = np.repeat([1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0], rows).reshape(length, rows).T
    source, target = (side * (segments > 0) for side in tokens)
    shifted = np.pad(target, ((0, 0), (1, 0)))[:, :-1]
    starts = np.diff(segments, prepend=0) != 0
    batch = {
        "encoder_input_tokens": source, "decoder_input_tokens": shifted * ~starts,
        "decoder_target_tokens": target, "decoder_loss_weights": segments > 0,
        "encoder_segment_ids": segments, "decoder_segment_ids": segments,
        "encoder_positions": np.zeros_like(source), "decoder_positions": np.zeros_like(source),
    }  # fmt: skip
    return {name: jnp.asarray(rows, jnp.int32) for name, rows in batch.items()}


def made_model(adapter, *, period: int = 0, objective=None, **options):
    """(the model in T5X, our model) of the same configuration."""
    from seqio import PassThroughVocabulary

    config = transformer.Config(
        vocab_size=40, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, encoder_layers=2,
        decoder_layers=2, dropout_rate=0.1, moe_period=period,
        moe=moe.MoeConfig(num_experts=4, capacity_factor=0.5), **options,
    )  # fmt: skip
    vocabulary = PassThroughVocabulary(40, eos_id=1)
    made = adapter.Model(
        adapter.Module(config), vocabulary, vocabulary, None,
        objective=objective or losses.Objective(z_loss=1e-3, moe_z=1e-2),
    )  # fmt: skip
    return made, transformer.Transformer(config)


def initial(made) -> dict:
    shapes = {name: rows.shape for name, rows in made_batch().items()}
    return made.get_initial_variables(jax.random.key(0), shapes)["params"].unfreeze()


def furthest(first, second) -> float:
    """The largest ‖a - b‖ / ‖b‖ over the parameters."""
    apart = jax.tree.map(
        lambda a, b: float(jnp.linalg.norm(a - b) / (jnp.linalg.norm(b) + 1e-12)), first, second
    )
    return max(jax.tree.leaves(apart))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_loss_and_gradients_are_ours(adapter, kind, training, record_property):
    made, model = made_model(adapter, period=2 * (kind == "moe"))
    params, batch, key = initial(made), made_batch(), jax.random.key(1) if training else None

    def ours(params):
        logits, sown = model.apply(
            {"params": params},
            *(batch[f"{side}_input_tokens"] for side in ("encoder", "decoder")),
            **{name: rows for name, rows in batch.items() if name.endswith("segment_ids")},
            enable_dropout=training, rngs={"dropout": key} if training else None,
            mutable=["intermediates"],
        )  # fmt: skip
        weights = batch["decoder_loss_weights"].astype(jnp.float32)
        known = batch | {
            "decoder_language_ids": jnp.zeros_like(batch["decoder_target_tokens"]),
            "decoder_loss_weights": weights,
        }
        measured = losses.measure(made.objective, logits, known, languages=1)
        loss = measured.sums["loss"] / weights.sum()
        routing = moe.summarize(sown.get("intermediates", {}))
        assert bool(routing) == (kind == "moe")
        return loss + sum(
            weight * routing[f"moe_{name}_loss"]
            for name, weight in (("aux", made.objective.moe_aux), ("z", made.objective.moe_z))
            if routing
        )

    theirs = lambda params: made.loss_fn(params, batch, key)[0]  # noqa: E731
    (loss, gradient), (our_loss, our_gradient) = (
        jax.jit(jax.value_and_grad(f))(params) for f in (theirs, ours)
    )
    apart, gradients = abs(float(loss / our_loss) - 1), furthest(gradient, our_gradient)
    mode = "training" if training else "eval"
    record_property(f"T5X {kind}, {mode}: loss, relative difference", f"{apart:.1e}")
    record_property(f"T5X {kind}, {mode}: gradients, the furthest", f"{gradients:.1e}")
    assert apart < 1e-5 and gradients < 1e-4


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_those_of_t5x_own_loss(adapter, smoothing, record_property):
    """T5X spreads the smoothing over the other pieces, we over all: s (V - 1) / V is the same."""
    from t5x import models

    made, _ = made_model(adapter, objective=losses.Objective(smoothing, z_loss=1e-3))
    stock = models.EncoderDecoderModel(
        made.module, made.input_vocabulary, made.output_vocabulary, None,
        label_smoothing=smoothing * 39 / 40, z_loss=1e-3,
        loss_normalizing_factor="NUM_REAL_TARGET_TOKENS",
    )  # fmt: skip
    params, batch = initial(made), made_batch()
    (loss, gradient), (stock_loss, stock_gradient) = (
        jax.jit(jax.value_and_grad(lambda p, t5=network: t5.loss_fn(p, batch, None)[0]))(params)
        for network in (stock, made)
    )
    record_property(
        f"T5X's own loss, smoothing {smoothing}: gradients, the furthest",
        f"{furthest(stock_gradient, gradient):.1e}",
    )
    assert furthest(stock_gradient, gradient) < 1e-4
    if not smoothing:  # else T5X takes the targets' entropy off, a constant
        assert abs(float(loss / stock_loss) - 1) < 1e-5


@pytest.mark.parametrize(
    "options",
    [{}, {"tied_logits": True}, {"mlp_activations": ("relu",)}],
    ids=["T5 1.1", "tied", "T5 1.0"],
)
def test_logits_are_those_of_t5x_own_network(adapter, options, record_property):
    from t5x.examples.t5 import network

    made, model = made_model(adapter, **options)
    c = model.config
    theirs = network.Transformer(network.T5Config(
        vocab_size=c.vocab_size, dtype=jnp.float32, emb_dim=c.emb_dim, num_heads=c.num_heads,
        head_dim=c.head_dim, mlp_dim=c.mlp_dim, num_encoder_layers=2, num_decoder_layers=2,
        mlp_activations=c.mlp_activations, logits_via_embedding=c.tied_logits,
    ))  # fmt: skip
    params, named = initial(made), {}
    table = t5x.network_names(model)
    for name, leaf in parameter_names.to_flat(params, c).items():
        at, shape = table[name]
        named[at] = leaf.T if "relative_bias" in name else leaf.reshape(shape)
    batch = made_batch(length=12)
    tokens = [batch[f"{side}_tokens"] for side in
              ("encoder_input", "decoder_input", "decoder_target")]  # fmt: skip
    segments = {name: batch[name] for name in batch if name.endswith(("segment_ids", "positions"))}
    from flax.traverse_util import unflatten_dict

    tree = unflatten_dict(named, sep="/")
    logits = theirs.apply({"params": tree}, *tokens, **segments, enable_dropout=False)
    ours = model.apply(
        {"params": params}, *tokens[:2],
        **{name: rows for name, rows in segments.items() if name.endswith("ids")},
    )  # fmt: skip
    padding_mask = batch["decoder_segment_ids"] > 0
    apart = float(jnp.abs(logits - ours)[padding_mask].max())
    record_property(f"T5X's network, {options}: logits", f"{apart:.1e}")
    assert apart < 2e-4


def test_a_model_that_t5x_cannot_decode_is_refused(adapter):
    with pytest.raises(ValueError, match="start_id = 2.*allowed: 0"):
        made_model(adapter, start_id=2)


def test_guided_attention_is_refused(adapter):
    with pytest.raises(ValueError, match="guided_alignment = 0.1: .*no word alignments"):
        made_model(adapter, objective=losses.Objective(guided_alignment=0.1))


def predictions(directory: Path) -> dict[str, str]:
    """Source -> translation of all JSON lines in a directory that `t5x.infer` wrote."""
    rows = [
        json.loads(line)
        for file in sorted(directory.glob("*predict.jsonl-*-of-00001"))
        for line in file.read_text().splitlines()
    ]
    return {row["inputs"]["inputs_pretokenized"]: row["prediction"].strip() for row in rows}


@pytest.fixture(scope="session")
def translations(mmt_command):
    """A function that translates the sources of `predictions` by `mmt translate`."""

    def translate(run: Path, sources) -> dict[str, str]:
        lines = "\n".join(source.removeprefix("<2eng> ") for source in sources) + "\n"
        done = mmt_command("translate", "--model", run, "--to", "eng", stdin=lines.encode())
        assert done.returncode == 0, done.stderr.decode()
        out = done.stdout.decode().splitlines()
        return dict(zip(sources, map(str.strip, out), strict=True))

    return translate


@pytest.fixture(scope="session")
def imported(mmt_command, toy_corpus, tmp_path_factory):
    """A function that makes a run directory of a T5X model_dir by `mmt import t5x`."""

    def run(model_dir: Path, *arguments: str) -> Path:
        out = tmp_path_factory.mktemp("imported") / "run"
        (vocabulary,) = (toy_corpus.parent / "vocabularies").glob("*340.model")
        done = mmt_command(
            "import", "t5x", model_dir, "--out", out, "--vocabulary", vocabulary, *arguments
        )
        assert done.returncode == 0, done.stderr.decode()
        return out

    return run


@pytest.mark.parametrize("kind", MODELS)
def test_train_eval_infer_import_export(
    kind, trained, run_t5x, imported, translations, mmt_command, tmp_path
):
    directory, log = trained(kind)
    pattern = r"collection=training_eval/numbers_to_eng .*loss_per_nonpadding_target_token=([\d.]+)"
    loss = [float(value) for value in re.findall(pattern, log)]
    assert len(loss) == 2 and loss[1] < loss[0] < np.log(340)
    assert ("experts/moe_aux_loss=" in log) == (kind == "moe")

    model = f"--gin_file={MODELS[kind]}", *SIZES
    run_t5x("eval", *model, CHECKPOINT_PATH=str(directory / "checkpoint_20"),
            EVAL_OUTPUT_DIR=str(tmp_path / "eval"))  # fmt: skip
    scores = sorted((tmp_path / "eval" / "inference_eval").glob("*-metrics.jsonl"))
    assert len(scores) == 3
    assert all({"bleu", "chrf"} <= json.loads(file.read_text()).keys() for file in scores)

    run_t5x("infer", *model, CHECKPOINT_PATH=str(directory / "checkpoint_20"),
            INFER_OUTPUT_DIR=str(tmp_path / "infer"))  # fmt: skip
    predicted = predictions(tmp_path / "infer")
    assert len(set(predicted.values())) > 1
    run = imported(directory, *model)
    assert translations(run, predicted) == predicted

    assert mmt_command("export", "t5x", "--model", run, "--out", tmp_path / "out").returncode == 0
    run_t5x("infer", *model, CHECKPOINT_PATH=str(tmp_path / "out" / "checkpoint_0"),
            INFER_OUTPUT_DIR=str(tmp_path / "again"))  # fmt: skip
    assert predictions(tmp_path / "again") == predicted


def test_a_t5x_checkpoint_is_imported_and_exported(
    run_t5x, imported, translations, mmt_command, tmp_path
):
    """Trained by T5X in its older layout, imported, exported in Orbax's."""
    run_t5x("train", *NETWORK, "--gin.train.use_orbax=False", MODEL_DIR=str(tmp_path / "theirs"),
            BATCH_SIZE=8, TRAIN_STEPS=20, EVAL_PERIOD=20, CHECKPOINT_PERIOD=20)  # fmt: skip
    run_t5x("infer", *NETWORK, CHECKPOINT_PATH=str(tmp_path / "theirs" / "checkpoint_20"),
            INFER_OUTPUT_DIR=str(tmp_path / "infer"))  # fmt: skip
    predicted = predictions(tmp_path / "infer")
    run = imported(tmp_path / "theirs")
    assert len(set(predicted.values())) > 1
    assert translations(run, predicted) == predicted

    out = tmp_path / "out"
    assert mmt_command("export", "t5x_network", "--model", run, "--out", out).returncode == 0
    run_t5x("infer", *NETWORK, CHECKPOINT_PATH=str(out / "checkpoint_0"),
            INFER_OUTPUT_DIR=str(tmp_path / "again"))  # fmt: skip
    assert predictions(tmp_path / "again") == predicted
