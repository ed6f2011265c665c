"""T5X checkpoints in and out without T5X: both layouts, made by hand, and the errors."""

import msgpack
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore

from mmt import checkpoint
from mmt.convert import t5x
from mmt.data import vocabulary
from mmt.model import parameter_names
from mmt.model.transformer import parameter_shapes
from mmt.run import Run
from mmt.translate import Translator
from tests.helpers import hf_runs

LAYERS, WIDTH, HEADS, HEAD, HIDDEN, PIECES = 2, 8, 2, 3, 16, 300


def network(*, tied: bool = False) -> dict[str, np.ndarray]:
    """The parameters of t5x/examples/t5, as T5X names them."""
    joined = HEADS * HEAD
    shapes = {"token_embedder.embedding": (PIECES, WIDTH)}
    for stack, attentions in {
        "encoder": {"attention": "attention"},
        "decoder": {"self_attention": "self_attention",
                    "encoder_decoder_attention": "cross_attention"},
    }.items():  # fmt: skip
        shapes |= {f"{stack}.relpos_bias.rel_embedding": (HEADS, 32),
                   f"{stack}.{stack}_norm.scale": (WIDTH,)}  # fmt: skip
        for layer in range(LAYERS):
            at = f"{stack}.layers_{layer}"
            for attention, norm in attentions.items():
                kernels = dict.fromkeys(("query", "key", "value"), (WIDTH, joined))
                for name, shape in (kernels | {"out": (joined, WIDTH)}).items():
                    shapes[f"{at}.{attention}.{name}.kernel"] = shape
                shapes[f"{at}.pre_{norm}_layer_norm.scale"] = (WIDTH,)
            shapes[f"{at}.pre_mlp_layer_norm.scale"] = (WIDTH,)
            shapes |= {f"{at}.mlp.{name}.kernel": (WIDTH, HIDDEN) for name in ("wi_0", "wi_1")}
            shapes[f"{at}.mlp.wo.kernel"] = (HIDDEN, WIDTH)
    if not tied:
        shapes["decoder.logits_dense.kernel"] = (WIDTH, PIECES)
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def older(directory, arrays) -> None:
    """The layout of T5X before Orbax: tiny arrays lie in the msgpack file."""
    directory.mkdir(parents=True)
    target: dict = {}
    for name, array in arrays.items():
        at = target
        *path, leaf = name.split(".")
        for part in path:
            at = at.setdefault(part, {})
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"target.{name}/"}}
        if array.ndim == 1:
            packed = msgpack.packb((array.shape, array.dtype.name, array.tobytes()))
            at[leaf] = msgpack.ExtType(1, packed)
            continue
        at[leaf] = spec
        place = {"driver": "file", "path": f"{directory}/target.{name}/"}
        metadata = {"shape": list(array.shape), "dtype": "<f4", "compressor": {"id": "gzip"}}
        made = {"driver": "zarr", "kvstore": place, "metadata": metadata, "create": True}
        tensorstore.open(made).result().write(array).result()
    tree = {"version": 3, "optimizer": {"target": target, "state": {"param_states": {}}}}
    (directory / "checkpoint").write_bytes(msgpack.packb(tree))


def orbax(directory, arrays) -> None:
    """The layout of T5X today."""
    tree: dict = {"state": {"step": np.int32(3)}}
    for name, array in arrays.items():
        at = tree
        *path, leaf = ["target", *name.split(".")]
        for part in path:
            at = at.setdefault(part, {})
        at[leaf] = array
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as writer:
        writer.save((directory / "state").absolute(), tree)


WRITERS = {"older": older, "orbax": orbax}


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """A SentencePiece file of fewer than PIECES pieces."""
    path = tmp_path_factory.mktemp("pieces") / "own.model"
    texts = ["<2eng> ab ba", "abba baab", "aa bb ab"] * 50
    vocabulary.train(texts, path, size=270, tags=["<2eng>"])
    return path


@pytest.fixture
def leave(tmp_path, pieces):
    """A function that writes a checkpoint and imports it: leave(arrays, 'orbax')."""

    def run(arrays, layout="orbax", **options):
        directory = tmp_path / "theirs" / "checkpoint_3"
        WRITERS[layout](directory, arrays)
        t5x.import_t5x(directory.parent, tmp_path / "run", [pieces], **options)
        return tmp_path / "run"

    return run


def parameters(run) -> dict:
    model = Run(run).model()
    params = checkpoint.restore_params(run, parameter_shapes(model))
    flat = parameter_names.to_flat(params, model.config)
    return {name: np.asarray(leaf) for name, leaf in flat.items()}


@pytest.mark.parametrize("layout, tied", [("older", False), ("orbax", True)])
def test_every_array_is_imported_into_its_parameter(leave, layout, tied):
    arrays = network(tied=tied)
    run = leave(arrays, layout)
    imported, model = parameters(run), Run(run).model()
    assert sum(map(np.size, arrays.values())) == sum(map(np.size, imported.values()))
    assert model.config.tied_logits is tied
    head = imported["decoder/1/cross_attention/key"][:, 1]  # the second of them
    theirs = arrays["decoder.layers_1.encoder_decoder_attention.key.kernel"]
    np.testing.assert_array_equal(head, theirs[:, HEAD:])
    out = imported["encoder/0/self_attention/out"][1]
    theirs = arrays["encoder.layers_0.attention.out.kernel"]
    np.testing.assert_array_equal(out, theirs[HEAD:])
    bias = arrays["decoder.relpos_bias.rel_embedding"]
    np.testing.assert_array_equal(imported["decoder/relative_bias/embedding"][5], bias[:, 5])
    norm = arrays["decoder.layers_0.pre_cross_attention_layer_norm.scale"]
    np.testing.assert_array_equal(imported["decoder/0/cross_norm/scale"], norm)


def test_what_was_imported_translates(leave):
    translator = Translator.load(leave(network()))
    first, second = translator.translate(["ab", "ba ab"], target="eng")
    assert first.text != second.text


def test_export_equals_the_imported_checkpoint(leave, tmp_path):
    arrays = network()
    t5x.export_network(leave(arrays), tmp_path / "out")
    exported = t5x.Arrays(tmp_path / "out")
    assert {name.replace(".", "/") for name in arrays} == set(exported)
    for name, array in arrays.items():
        np.testing.assert_array_equal(exported[name.replace(".", "/")], array)


def test_our_own_names_round_trip(leave, tmp_path, pieces):
    run = leave(network())
    t5x.export_t5x(run, tmp_path / "out")
    with pytest.raises(ValueError, match="is of mmt.t5x_adapter.*--gin_file"):
        t5x.import_t5x(tmp_path / "out", tmp_path / "again", [pieces])
    t5x.import_t5x(tmp_path / "out", tmp_path / "again", [pieces], [str(run / "config.gin")])
    first, second = parameters(run), parameters(tmp_path / "again")
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_every_tensor_that_does_not_fit_is_named(leave, tmp_path):
    arrays = network()
    del arrays["encoder.layers_1.mlp.wi_1.kernel"]
    arrays["decoder.layers_0.pre_mlp_layer_norm.bias"] = np.zeros(WIDTH, np.float32)
    arrays["decoder.logits_dense.kernel"] = np.zeros((WIDTH, PIECES + 1), np.float32)
    with pytest.raises(ValueError) as raised:
        leave(arrays)
    for line in (
        "encoder/layers_1/mlp/wi_1/kernel: missing",
        "decoder/layers_0/pre_mlp_layer_norm/bias: not in the model",
        f"decoder/logits_dense/kernel: (8, {PIECES + 1}), in the model (8, {PIECES})",
    ):
        assert line in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_gin_file_of_another_model_is_refused(leave):
    with pytest.raises(ValueError, match=r"encoder_norm/scale: \(8,\), in the model \(128,\)"):
        leave(network(), gin_files=["gin_configs/models/tiny.gin"])


def test_faulty_files_are_named(leave, tmp_path, pieces):
    with pytest.raises(ValueError, match="a T5X checkpoint has no vocabulary: add --vocabulary"):
        t5x.import_t5x(tmp_path, tmp_path / "run", [])
    with pytest.raises(ValueError, match="is no T5X checkpoint"):
        t5x.import_t5x(tmp_path, tmp_path / "run", [pieces])
    run = leave(network(), "older")
    with pytest.raises(ValueError, match="exists"):
        t5x.import_t5x(tmp_path / "theirs", run, [pieces])
    with pytest.raises(ValueError, match="270 pieces.*has 265 embeddings"):
        small = network()
        small["token_embedder.embedding"] = small["token_embedder.embedding"][:265]
        small["decoder.logits_dense.kernel"] = small["decoder.logits_dense.kernel"][:, :265]
        orbax(tmp_path / "small" / "checkpoint_1", small)
        t5x.import_t5x(tmp_path / "small", tmp_path / "no", [pieces])
    last = tmp_path / "theirs" / "checkpoint_3"
    (last / "target.token_embedder.embedding" / "0.0").write_bytes(b"damage")
    with pytest.raises(ValueError, match="checkpoint_3 is damaged"):
        t5x.import_t5x(tmp_path / "theirs", tmp_path / "no", [pieces])
    (last / "checkpoint").write_bytes(b"damage")
    with pytest.raises(ValueError, match="checkpoint is damaged"):
        t5x.import_t5x(tmp_path / "theirs", tmp_path / "no", [pieces])
    assert not (tmp_path / "no").exists()


def test_routing_by_language_is_refused(tmp_path, pieces, toy_program, monkeypatch):
    model = toy_program(moe_period=2, routing="language").model
    monkeypatch.setattr(Run, "model", lambda _: model)
    monkeypatch.setattr(Run, "best_step", lambda _: 1)
    with pytest.raises(ValueError, match="routes by language .*allowed: token"):
        t5x.export_t5x(tmp_path, tmp_path / "no")
    orbax(tmp_path / "theirs" / "checkpoint_3", network())
    options = ("decoder_routing='language'", "languages=3")
    with pytest.raises(ValueError, match="routes by language .*allowed: token"):
        t5x.import_t5x(
            tmp_path / "theirs", tmp_path / "no", [pieces], ["gin_configs/models/tiny_moe.gin"],
            [f"transformer.Config.{option}" for option in options],
        )  # fmt: skip
    assert not (tmp_path / "no").exists()


def test_each_embedding_table_has_a_vocabulary(leave, tmp_path, pieces):
    orbax(tmp_path / "own" / "checkpoint_3", network())
    with pytest.raises(ValueError, match="^2 files of --vocabulary; allowed: 1, one for each"):
        t5x.import_t5x(tmp_path / "own", tmp_path / "no", [pieces, pieces])
    two = {"gin_files": ["gin_configs/models/tiny.gin"], "bindings": ["TARGET_VOCAB_SIZE=300"]}
    with pytest.raises(ValueError, match="^1 files of .* allowed: 2, .*target_vocab_size = 300"):
        leave(network(), **two)
    assert not list(tmp_path.glob("no")) and not list(tmp_path.glob("run"))


@pytest.mark.parametrize(
    ("writer", "name", "value"),
    [
        (t5x.export_network, "relative_buckets", 16),
        (t5x.export_network, "relative_max_distance", 256),
        (t5x.export_network, "pad_id", 2),
        (t5x.export_network, "start_id", 1),
        (t5x.export_t5x, "pad_id", 2),
        (t5x.export_t5x, "start_id", 1),
    ],
)
def test_what_t5x_computes_in_another_way_is_not_exported(writer, name, value, tmp_path):
    run = hf_runs.make_run(tmp_path / "run", **{name: value})
    with pytest.raises(ValueError, match=rf"^Config\.{name} = {value}; in .* allowed: \d+$"):
        writer(run, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_experts_are_refused(toy_program):
    with pytest.raises(ValueError, match="has no experts"):
        t5x.network_names(toy_program(moe_period=2).model)
