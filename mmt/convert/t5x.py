"""Converts between run directories and T5X checkpoints. T5X itself is not needed.

A T5X checkpoint is a tree of zarr arrays with names such as 'target.encoder.encoder_norm.scale'.
They are directories beside a msgpack file (the older layout), or Orbax's `state/`. A checkpoint
contains neither a vocabulary nor all options of a model. Two sets of names are known: those of
T5X's own network, t5x/examples/t5, and ours, which `mmt.t5x_adapter` trains.
"""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tensorstore
from flax import serialization, traverse_util

from mmt import checkpoint, config
from mmt.convert.hf import staged
from mmt.data.cache.manifest import Manifest
from mmt.data.vocabulary import Vocabulary
from mmt.model import parameter_names
from mmt.model.config import Config
from mmt.model.transformer import Transformer, parameter_shapes
from mmt.run import Run

Shapes = Mapping[str, tuple[int, ...]]
SIDES = ("source", "target")

# Flat name of our parameter -> name in t5x/examples/t5; {stack} is encoder or decoder.
_MODEL = {
    "source_embed/embedding": "token_embedder/embedding",
    "logits/kernel": "decoder/logits_dense/kernel",
    "{stack}/norm/scale": "{stack}/{stack}_norm/scale",
    "{stack}/relative_bias/embedding": "{stack}/relpos_bias/rel_embedding",
}
_ATTENTION: dict[str, dict[str, tuple[str, str]]] = {  # T5X's names of the sublayer and its norm
    "encoder": {"self": ("attention", "attention")},
    "decoder": {
        "self": ("self_attention", "self_attention"),
        "cross": ("encoder_decoder_attention", "cross_attention"),
    },
}
_IDS = {"pad_id": 0, "start_id": 0}  # T5X masks the ids that are not above 0, and starts with 0
_NETWORK = {"relative_buckets": 32, "relative_max_distance": 128}  # constants of t5x/examples/t5


def import_t5x(
    directory: str | Path,
    out: str | Path,
    vocabulary: Sequence[str | Path],
    gin_files: Sequence[str] = (),
    bindings: Sequence[str] = (),
) -> None:
    """Imports a T5X checkpoint, or the last one of a T5X model_dir, as the run directory `out`.

    Args:
        directory: the checkpoint or model_dir.
        out: the run directory to create.
        vocabulary: the SentencePiece file, or two files for a model with two embedding tables: the
            source's and the target's.
        gin_files: gin files that define MODEL, as they were given to `t5x.train`. Without any, the
            model is T5X's own network, T5 1.1 (or 1.0 if the MLP has one input projection), with
            sizes from the arrays.
        bindings: gin bindings, as they were given to `t5x.train`.

    Raises:
        ValueError: the directory holds no such checkpoint, parameters are missing, unused or of
            another shape (all are listed), the vocabulary does not fit, or `out` exists. No partial
            output is left.
    """
    if not 1 <= len(vocabulary) <= 2:
        raise ValueError(
            "a T5X checkpoint has no vocabulary: add --vocabulary FILE, its SentencePiece model "
            "(repeat it for a separate target vocabulary)"
        )
    arrays = Arrays(Path(directory))
    if not gin_files:
        gin_files, bindings = ["gin_configs/models/base.gin"], [*_sizes(arrays), *bindings]
    config.load(gin_files, bindings)
    model = config.macro("MODEL")
    if not isinstance(model, Transformer):
        raise ValueError(f"{', '.join(gin_files)}: no MODEL; name a file of gin_configs/models")
    _check_routing(model.config)
    files = _files(vocabulary, model.config)
    manifest = _manifest(arrays.directory, files, model.config)
    table = network_names(model) if arrays.network else {}
    expected = dict(table.values()) if table else _tree(parameter_shapes(model))
    check(arrays.shapes, expected, arrays.directory)
    our_shapes = parameter_names.shapes(model)

    def get(name: str) -> np.ndarray:
        return _reshaped(name, arrays[table[name][0]], our_shapes[name])

    def load(path: str, shape: jax.ShapeDtypeStruct) -> np.ndarray:
        return parameter_names.stack(path, shape, model.config, get) if table else arrays[path]

    with staged(Path(out)) as temporary:
        for side, file in files.items():
            shutil.copyfile(file, Run(temporary).vocabulary(side, shared=len(vocabulary) == 1))
        manifest.write(temporary)
        Run(temporary).config.write_text(config.complete(), encoding="utf-8")
        checkpoint.write_params(temporary, parameter_shapes(model), load)


def export_t5x(model_dir: str | Path, out: str | Path) -> None:
    """Exports a run directory's best checkpoint as the T5X model_dir `out`, for `mmt.t5x_adapter`.

    The checkpoint's `state/` is written by Orbax and holds parameters and step, but no optimizer
    state.

    Raises:
        ValueError: `out` exists, the model routes by language, or it has other special ids than
            T5X. No partial output is left.
    """
    model, step = Run(model_dir).model(), Run(model_dir).best_step()
    _check_routing(model.config)
    _check_constants(model.config, _IDS, "T5X")
    params = checkpoint.restore_params(model_dir, parameter_shapes(model), step=step)
    _write(_tree(params), step, Path(out))


def export_network(model_dir: str | Path, out: str | Path) -> None:
    """Exports as `export_t5x`, for T5X's own network: dense models with one vocabulary.

    Raises ValueError, too, for a model that this network computes in another way.
    """
    model, step = Run(model_dir).model(), Run(model_dir).best_step()
    table = network_names(model)
    _check_constants(model.config, _IDS | _NETWORK, "the network of t5x/examples/t5")
    params = checkpoint.restore_params(model_dir, parameter_shapes(model), step=step)
    flat = parameter_names.to_flat(params, model.config)
    arrays = {
        t5x_name: _reshaped(name, flat[name], shape) for name, (t5x_name, shape) in table.items()
    }
    _write(arrays, step, Path(out))


class Arrays(Mapping[str, np.ndarray]):
    """The parameters of a T5X checkpoint by path, such as 'encoder/encoder_norm/scale'.

    Each is read on access, as float32. Raises ValueError for a directory without parameters.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = _checkpoint(directory)
        inline = {}
        if (self.directory / "manifest.ocdbt").is_file():
            store = {"driver": "ocdbt", "base": self.directory.absolute().as_uri() + "/"}
            keys = tensorstore.KvStore.open(store).result().list().result()
            names = [key.decode() for key in keys]
        else:
            store = {"driver": "file", "path": f"{self.directory.absolute()}/"}
            names = [f"{path.parent.name}/.zarray" for path in self.directory.glob("*/.zarray")]
            inline = _inline(self.directory / "checkpoint")
        matches = [re.fullmatch(r"target\.(.+)/\.zarray", name) for name in names]
        self._stored: dict[str, Any] = inline | {
            match[1].replace(".", "/"): self._open(store, f"target.{match[1]}")
            for match in matches
            if match
        }
        if not self._stored:
            raise ValueError(f"{self.directory} holds no parameters (target.… arrays) of T5X")
        self.shapes = {name: tuple(array.shape) for name, array in self._stored.items()}

    @property
    def network(self) -> bool:
        """Returns whether the names are those of T5X's own network, not ours."""
        return "source_embed/embedding" not in self

    def __getitem__(self, name: str) -> np.ndarray:
        stored = self._stored[name]
        array = stored if isinstance(stored, np.ndarray) else self._read(stored)
        return np.asarray(array, np.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def _open(self, store: dict[str, str], path: str) -> Any:
        return self._result(tensorstore.open(
            {"driver": "zarr", "kvstore": store, "path": path}, open=True, read=True
        ))  # fmt: skip

    def _read(self, stored: Any) -> Any:
        return self._result(stored.read())

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except Exception as error:  # tensorstore's errors are of several types
            raise ValueError(f"{self.directory} is damaged: {error}") from error


def network_names(model: Transformer) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Returns {flat name: (name, shape) in T5X's own network} of every parameter of `model`.

    Raises:
        ValueError: T5X's own network has no equivalent of the model.
    """
    c = model.config
    for what, has in (
        ("experts", c.moe_period), ("two vocabularies", c.target_vocab_size),
        ("a bias per layer", c.relative_bias_per_layer),
    ):  # fmt: skip
        if has:
            raise ValueError(f"the network of t5x/examples/t5 has no {what}, this model has")
    shapes = parameter_names.shapes(model)
    return {name: _network_name(name, shape, c) for name, shape in shapes.items()}


def _check_routing(c: Config) -> None:
    if c.languages:
        raise ValueError(
            f"the model routes by language (Config.encoder_routing = {c.encoder_routing}, "
            f"decoder_routing = {c.decoder_routing}), and a T5X checkpoint names no languages; "
            "allowed: token"
        )


def _check_constants(c: Config, constants: Mapping[str, int], where: str) -> None:
    for name, value in constants.items():
        if getattr(c, name) != value:
            raise ValueError(f"Config.{name} = {getattr(c, name)}; in {where} allowed: {value}")


def _write(parameters: Mapping[str, Any], step: int, out: Path) -> None:
    """Writes a T5X model_dir with one checkpoint."""
    leaves = {f"target/{name}": leaf for name, leaf in parameters.items()}
    leaves["state/step"] = np.array(step, np.int32)
    shapes = {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in leaves.items()}
    with staged(out) as temporary:
        checkpoint.write_tree(
            temporary / f"checkpoint_{step}" / "state",
            traverse_util.unflatten_dict(shapes, sep="/"),
            lambda path, _: np.asarray(leaves[path]),
        )


def check(actual: Shapes, expected: Shapes, where: Path) -> None:
    """Raises ValueError, with all differences, unless `actual` equals `expected`."""
    parameter_names.check_names(actual, expected, f"the weights in {where}")


def _network_name(name: str, shape: tuple[int, ...], c: Config) -> tuple[str, tuple[int, ...]]:
    """Returns the name and shape in T5X's own network of our parameter `name`."""
    stack = name.split("/")[0]
    generic = name.replace(stack, "{stack}", 1) if stack in _ATTENTION else name
    if generic in _MODEL:
        transposed = name.endswith("relative_bias/embedding")
        return _MODEL[generic].format(stack=stack), shape[::-1] if transposed else shape
    _, layer, module, leaf = name.split("/")
    kind, _, rest = module.partition("_")
    if rest == "attention":
        joined = c.num_heads * c.head_dim
        t5x_name = f"{_ATTENTION[stack][kind][0]}/{leaf}/kernel"
        shape = (joined, shape[-1]) if leaf == "out" else (shape[0], joined)
    elif module == "mlp":
        alone = leaf == "wi_0" and len(c.mlp_activations) == 1
        t5x_name = f"mlp/{'wi' if alone else leaf}/kernel"
    else:
        what = "mlp" if kind == "mlp" else _ATTENTION[stack][kind][1]
        t5x_name = f"pre_{what}_layer_norm/scale"
    return f"{stack}/layers_{layer}/{t5x_name}", shape


def _reshaped(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    """Converts an array between T5X's layout and ours: transposes biases, joins or splits heads."""
    return array.T if name.endswith("relative_bias/embedding") else array.reshape(shape)


def _sizes(arrays: Arrays) -> list[str]:
    """Returns the sizes of a model of T5X's own network, from its arrays, as gin bindings."""
    if not arrays.network:
        raise ValueError(
            f"{arrays.directory} is of mmt.t5x_adapter: name its model by the --gin_file and "
            "--gin.… that t5x.train was given, such as --gin_file=gin_configs/models/base.gin"
        )
    shapes = arrays.shapes
    layer = "encoder/layers_0"
    names = (
        "token_embedder/embedding", "encoder/relpos_bias/rel_embedding",
        f"{layer}/attention/query/kernel", f"{layer}/mlp/wo/kernel",
    )  # fmt: skip
    for name in names:
        if len(shapes.get(name, ())) != 2:
            raise ValueError(
                f"{arrays.directory} has no matrix {name}, so it is not a model of "
                f"t5x/examples/t5; it has {', '.join(sorted(shapes)[:4])}, …"
            )
    (vocabulary, width), (heads, buckets), (_, joined), (hidden, _) = (shapes[n] for n in names)
    layers = {"/".join(name.split("/")[:2]) for name in shapes if "/layers_" in name}
    depth = {stack: sum(layer.startswith(stack) for layer in layers) for stack in _ATTENTION}
    activations = ("relu",) if f"{layer}/mlp/wi/kernel" in shapes else ("gelu", "linear")
    sizes = {
        "emb_dim": width, "num_heads": heads, "head_dim": joined // heads, "mlp_dim": hidden,
        "encoder_layers": depth["encoder"], "decoder_layers": depth["decoder"],
        "relative_buckets": buckets, "mlp_activations": activations, "dtype": "'float32'",
        "tied_logits": "decoder/logits_dense/kernel" not in shapes,
    }  # fmt: skip
    bindings = [f"transformer.Config.{name}={value}" for name, value in sizes.items()]
    print(f"sizes from the arrays: vocabulary {vocabulary}, {sizes}", file=sys.stderr)
    return [f"VOCAB_SIZE={vocabulary}", *bindings]


def _checkpoint(directory: Path) -> Path:
    """Returns the directory of the arrays: in a model_dir's last checkpoint, or in `directory`."""
    if not directory.is_dir():
        raise ValueError(f"no directory {directory}")
    steps = {
        int(match[1]): path
        for path in directory.iterdir()
        if (match := re.fullmatch(r"checkpoint_(\d+)", path.name)) and path.is_dir()
    }
    directory = steps[max(steps)] if steps else directory
    directory = directory / "state" if (directory / "state").is_dir() else directory
    if any((directory / name).is_file() for name in ("manifest.ocdbt", "_METADATA", "checkpoint")):
        return directory
    raise ValueError(
        f"{directory} is no T5X checkpoint: it has neither checkpoint_N, nor state (Orbax), nor a "
        "file checkpoint (the older layout)"
    )


def _inline(file: Path) -> dict[str, np.ndarray]:
    """Returns the small parameters, which the older layout keeps in its msgpack file."""
    if not file.is_file():
        return {}
    try:
        tree = serialization.msgpack_restore(file.read_bytes())["optimizer"]["target"]
    except Exception as error:  # msgpack's errors are of several types
        raise ValueError(f"{file} is damaged: {error or type(error).__name__}") from error
    leaves = traverse_util.flatten_dict(tree, sep="/")
    return {name: leaf for name, leaf in leaves.items() if isinstance(leaf, np.ndarray)}


def _files(vocabulary: Sequence[str | Path], c: Config) -> dict[str, Path]:
    """Returns the vocabulary of each side. Each embedding table has one."""
    allowed = 2 if c.target_vocab_size else 1
    if len(vocabulary) != allowed:
        raise ValueError(
            f"{len(vocabulary)} files of --vocabulary; allowed: {allowed}, one for each embedding "
            f"table of the model (Config.target_vocab_size = {c.target_vocab_size})"
        )
    return dict(zip(SIDES, map(Path, [*vocabulary, vocabulary[-1]]), strict=False))


def _manifest(directory: Path, files: Mapping[str, Path], c: Config) -> Manifest:
    """Returns a manifest without languages: the files do not name the training languages."""
    vocabularies = {side: Vocabulary.load(file) for side, file in files.items()}
    sizes = {"source": c.vocab_size, "target": c.target_vocabulary}
    for side, vocabulary in vocabularies.items():
        if vocabulary.size > sizes[side] or vocabulary.eos != c.eos_id:
            raise ValueError(
                f"{files[side]} is not the model's {side} vocabulary: it has {vocabulary.size} "
                f"pieces and ends texts with {vocabulary.eos}, the model has {sizes[side]} "
                f"embeddings and Config.eos_id {c.eos_id}"
            )
    return Manifest(
        name=directory.resolve().name, target="", languages=(), counts={}, corpus_hash="",
        vocabulary_hash={side: v.hash for side, v in vocabularies.items()},
        vocabulary_size={side: v.size for side, v in vocabularies.items()},
        pad=c.pad_id, eos=c.eos_id, start=c.start_id,
    )  # fmt: skip


def _tree(tree: Any) -> dict[str, Any]:
    """Flattens {'encoder': {'norm': {'scale': leaf}}} to {'encoder/norm/scale': leaf or shape}."""
    leaves = traverse_util.flatten_dict(tree, sep="/")
    return {
        name: leaf.shape if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
        for name, leaf in leaves.items()
    }
