"""Exports dense models to CTranslate2: to a directory of one's own, or once beside the checkpoint.

The arrays of a run are written as CTranslate2's `TransformerSpec`, in float32; CTranslate2 converts
them when it loads them. torch and transformers are not needed.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mmt import checkpoint
from mmt.checkpoint import digests
from mmt.convert import hf, tokenizer
from mmt.data.vocabulary import Vocabulary
from mmt.model import parameter_names
from mmt.model.config import Config
from mmt.model.transformer import Transformer, parameter_shapes
from mmt.run import SIDES, Run

_VERSION = 1  # of what is written; others are written again
_IDENTITY = "mmt.json"  # in an export beside a checkpoint: what it was made of
_PER_LAYER = (4, 8, 5)  # earlier versions use the bias of the first layer in all layers
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELUTanh", "silu": "SWISH"}  # ours: CTranslate2's

Arrays = Mapping[str, np.ndarray]  # by flat name


def export(model_dir: str | Path, out: str | Path) -> None:
    """Exports a run directory's best checkpoint to the directory `out`, in float32.

    `ctranslate2.Translator(out, compute_type="int8")` loads it, with any compute type. Tokens are
    the pieces of the SentencePiece model `spiece.model` in `out` (`source.spm` and `target.spm` of
    a model with two vocabularies); a source ends with the end piece.

    Raises:
        ValueError: CTranslate2 does not have such a model (experts, some activations), it is not
            installed, the vocabulary is not the one of the training, or `out` exists. No partial
            output is left.
    """
    run = Run(model_dir)
    files = _checked(run)
    with hf.staged(Path(out)) as temporary:
        vocabularies = _write(run, [run.best_step()], files, temporary)
        if len(set(files.values())) == 1:
            shutil.copyfile(files["source"], temporary / tokenizer.MODEL)
        else:
            for side in vocabularies:
                shutil.copyfile(files[side], temporary / f"{side}.spm")


def exported(model_dir: str | Path, steps: Sequence[int]) -> Path:
    """Returns the export of a checkpoint in its run directory, and makes it if it is missing.

    It is made again if the checkpoint, the vocabulary or the configuration has changed. Exports of
    checkpoints that the run no longer has are removed.

    Args:
        model_dir: the run directory.
        steps: step of the checkpoint, or steps of the averaged checkpoints.

    Raises:
        ValueError: as `export`, or the checkpoint is missing.
        OSError: the run directory cannot be written.
    """
    run = Run(model_dir)
    files = _checked(run)
    folder = run.ctranslate2(steps)
    identity = _identity(run, steps, files)
    if _is_export_of(folder, identity):
        return folder
    try:
        if folder.exists():  # of another state of the run
            shutil.rmtree(folder)
        with hf.staged(folder) as temporary:
            _write(run, steps, files, temporary)
            (temporary / _IDENTITY).write_text(json.dumps({"identity": identity}) + "\n", "utf-8")
    except OSError as error:
        if not _is_export_of(folder, identity):  # else another process has made it meanwhile
            raise OSError(
                f"the engine ctranslate2 translates an export of the checkpoint, made once in the "
                f"run directory: {error}. Run the same command where {folder.parent} can be "
                "written, or translate with the engine jax"
            ) from error
    _remove_old(run)
    return folder


def check(config: Config, where: str | Path) -> None:
    """Raises ValueError for a model that CTranslate2 does not have. where: its run directory."""
    if config.moe_period:
        raise ValueError(
            f"{where} is a model with experts, which CTranslate2 does not have: distil it into "
            "a dense one (`mmt distill`) and take that, or translate with the engine jax"
        )
    activations = [name for name in config.mlp_activations if name != "linear"]
    if len(activations) != 1 or len(config.mlp_activations) > 2:
        raise ValueError(
            f"{where} has Config.mlp_activations = {config.mlp_activations}, which CTranslate2 "
            f"does not have; it has one of {', '.join(_ACTIVATIONS)}, alone or with linear: "
            "translate with the engine jax"
        )
    for stack in ("encoder", "decoder"):
        if not getattr(config, f"{stack}_layers"):
            raise ValueError(
                f"{where} has Config.{stack}_layers = 0; CTranslate2 needs 1 or more: translate "
                "with the engine jax"
            )


def _checked(run: Run) -> dict[str, Path]:
    """Returns the vocabulary files of 'source' and 'target' of a run that can be exported."""
    config = run.model().config
    check(config, run.directory)
    version = tuple(map(int, _library().__version__.split(".")[:3]))
    if config.relative_bias_per_layer and version < _PER_LAYER:
        raise ValueError(
            f"{run.directory} has a relative position bias in each layer (Config."
            f"relative_bias_per_layer), which needs ctranslate2 {'.'.join(map(str, _PER_LAYER))} "
            f"or later; installed: {_library().__version__}"
        )
    files = hf.trained_vocabularies(run, config)
    pieces = Vocabulary.load(files["target"]).size
    for name in ("pad_id", "eos_id", "start_id"):
        if (number := getattr(config, name)) >= pieces:
            raise ValueError(
                f"{run.directory} has Config.{name} = {number}, for which {files['target']} has no "
                f"piece; CTranslate2 needs one: allowed: 0 to {pieces - 1}"
            )
    return files


def _library() -> Any:
    """Returns CTranslate2. Raises ValueError if it is not installed."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 is not installed: pip install 'mmt[ctranslate2]' ({error})"
        ) from error
    return ctranslate2


def _write(
    run: Run, steps: Sequence[int], files: Mapping[str, Path], out: Path
) -> dict[str, Vocabulary]:
    """Writes the model of checkpoints to an empty directory, and returns its vocabularies."""
    model = run.model()
    vocabularies = {side: Vocabulary.load(files[side]) for side in SIDES}
    spec = _spec(model.config, _arrays(run, model, steps), vocabularies)
    pieces = {
        side: [vocabulary.piece(i) for i in range(vocabulary.size)]
        for side, vocabulary in vocabularies.items()
    }
    spec.register_source_vocabulary(pieces["source"])
    spec.register_target_vocabulary(pieces["target"])
    target = vocabularies["target"]
    spec.config.bos_token = target.piece(model.config.pad_id)
    spec.config.eos_token = target.piece(model.config.eos_id)
    spec.config.unk_token = target.piece(target.unk)
    spec.config.decoder_start_token = target.piece(model.config.start_id)
    spec.validate()
    spec.optimize()
    spec.save(str(out))
    return vocabularies


def _arrays(run: Run, model: Transformer, steps: Sequence[int]) -> Arrays:
    """Returns the parameters of a checkpoint, or their mean over several, by flat name."""
    shapes = parameter_shapes(model)
    if len(steps) > 1:
        mean = checkpoint.average(run.directory, shapes, last=len(steps), step=steps[-1])
        flat = parameter_names.to_flat(jax.tree.map(np.asarray, mean), model.config)
    else:
        flat = {}
        for path, leaf in checkpoint.read_params(run.directory, shapes, step=steps[0]):
            flat |= parameter_names.unstack(path, leaf, model.config)
    return {name: np.asarray(array, np.float32) for name, array in flat.items()}


def _spec(config: Config, arrays: Arrays, vocabularies: Mapping[str, Vocabulary]) -> Any:
    """Returns the specification of a model. Embeddings without a piece are left out."""
    specs = _library().specs
    (activation,) = (name for name in config.mlp_activations if name != "linear")
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=True,
        activation=getattr(specs.Activation, _ACTIVATIONS[activation]),
        ffn_glu=len(config.mlp_activations) == 2,
        relative_attention_bias=True,
        rms_norm=True,
    )
    sizes = {side: vocabulary.size for side, vocabulary in vocabularies.items()}
    source = arrays["source_embed/embedding"]
    target = arrays["target_embed/embedding"] if config.target_vocab_size else source
    spec.encoder.embeddings[0].weight = source[: sizes["source"]]
    spec.decoder.embeddings.weight = target[: sizes["target"]]
    logits = target if config.tied_logits else arrays["logits/kernel"].T
    spec.decoder.projection.weight = np.ascontiguousarray(logits[: sizes["target"]])
    if config.tied_logits:
        spec.decoder.scale_outputs = np.float32(config.emb_dim**-0.5)
    for stack in ("encoder", "decoder"):
        _set_stack(getattr(spec, stack), stack, config, arrays)
    return spec


def _set_stack(spec: Any, stack: str, config: Config, arrays: Arrays) -> None:
    spec.scale_embeddings = False
    spec.layer_norm.gamma = arrays[f"{stack}/norm/scale"]
    for number, layer in enumerate(spec.layer):
        prefix = f"{stack}/{number}"
        attention = layer.self_attention
        _set_attention(attention, f"{prefix}/self", arrays, [("query", "key", "value")])
        bias = prefix if config.relative_bias_per_layer else stack
        attention.relative_attention_bias = arrays[f"{bias}/relative_bias/embedding"]
        attention.relative_attention_max_distance = np.int32(config.relative_max_distance)
        if stack == "decoder":
            _set_attention(
                layer.attention, f"{prefix}/cross", arrays, [("query",), ("key", "value")]
            )
        layer.ffn.layer_norm.gamma = arrays[f"{prefix}/mlp_norm/scale"]
        # The product of both does not depend on their order.
        active, *linear = sorted(
            range(len(config.mlp_activations)), key=lambda i: config.mlp_activations[i] == "linear"
        )
        layer.ffn.linear_0.weight = _matrix(arrays[f"{prefix}/mlp/wi_{active}"])
        for i in linear:
            layer.ffn.linear_0_noact.weight = _matrix(arrays[f"{prefix}/mlp/wi_{i}"])
        layer.ffn.linear_1.weight = _matrix(arrays[f"{prefix}/mlp/wo"])


def _set_attention(spec: Any, name: str, arrays: Arrays, inputs: Sequence[Sequence[str]]) -> None:
    """Sets an attention layer. inputs: the kernels that each of its input projections joins."""
    spec.queries_scale = np.float32(1)  # T5 does not scale
    spec.layer_norm.gamma = arrays[f"{name}_norm/scale"]
    for projection, kernels in zip(spec.linear, inputs, strict=False):
        joined = [_matrix(arrays[f"{name}_attention/{kernel}"]) for kernel in kernels]
        projection.weight = np.concatenate(joined)
    out = arrays[f"{name}_attention/out"]
    spec.linear[-1].weight = _matrix(out.reshape(-1, out.shape[-1]))


def _matrix(kernel: np.ndarray) -> np.ndarray:
    """Returns a kernel [inputs ... outputs] as the matrix [outputs inputs]."""
    return np.ascontiguousarray(kernel.reshape(kernel.shape[0], -1).T)


def _identity(run: Run, steps: Sequence[int], files: Mapping[str, Path]) -> str:
    """Returns a hash of everything that an export is made of."""
    made_of = [
        _VERSION,
        repr(run.model().config),
        [Vocabulary.load(files[side]).hash for side in SIDES],
        digests.of_steps(run, steps),
    ]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


def _is_export_of(folder: Path, identity: str) -> bool:
    try:
        content = json.loads((folder / _IDENTITY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("identity") == identity


def _remove_old(run: Run) -> None:
    """Removes exports of checkpoints that the run no longer has."""
    current = set(map(str, run.checkpoint_steps()))
    for path in run.exports.iterdir():
        steps = set(path.name.split("-"))
        if all(map(str.isdigit, steps)) and not steps <= current:
            with contextlib.suppress(OSError):  # another process may remove it too
                shutil.rmtree(path)
