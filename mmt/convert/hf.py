"""Converts between run directories and directories that `transformers` saves.

It reads and writes files only; torch is not needed. Weights are converted one parameter at a time,
so memory is needed for the largest parameter (all layers of a scanned stack), not for the model.
Half-precision files become float32, as our checkpoints are.
"""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mmt import checkpoint
from mmt.convert import hf_config, names, tokenizer
from mmt.convert.tensors import Tensors, TensorWriter
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.vocabulary import Vocabulary
from mmt.model import parameter_names
from mmt.model.config import Config
from mmt.model.transformer import Transformer, parameter_shapes
from mmt.run import Run

KEPT = "hugging_face"  # folder of a run directory with the original tokenizer files


def import_hf(directory: str | Path, out: str | Path) -> None:
    """Imports a Hugging Face directory as the run directory `out`.

    Architectures: T5 1.0 and 1.1, mT5, MADLAD-400, UMT5 and Switch Transformers, in safetensors,
    with their SentencePiece model. `mmt translate --model OUT` and fine-tuning
    (gin_configs/runs/finetune.gin) use the result.

    Raises:
        ValueError: the directory is not such a model or is inconsistent, or `out` exists. The
            message lists all names that are missing, unused or of another shape. No partial output
            is left.
    """
    source = Path(directory)
    if not source.is_dir():
        raise ValueError(f"no directory {source}")
    hf_settings = _read_json(source / "config.json")
    model_config = hf_config.to_config(
        hf_settings,
        _read_json(source / "generation_config.json", optional=True),
        where=source / "config.json",
    )
    tensors = Tensors(source)
    model = Transformer(model_config)
    entries = names.table(model)
    sources = _sources(tensors, model_config, tied=hf_settings.get("tie_word_embeddings", True))
    names.check({name: tensors.shapes[at] for name, at in sources.items()}, entries, source)
    vocabulary_file = tokenizer.sentencepiece_file(source)
    vocabulary = Vocabulary.load(vocabulary_file)
    _check_vocabulary(vocabulary, model_config, vocabulary_file)

    def get(name: str) -> np.ndarray:
        return entries[name].to_ours(lambda theirs: tensors[sources[theirs]])

    with staged(Path(out)) as temporary:
        new_run = Run(temporary)
        shutil.copyfile(vocabulary_file, new_run.vocabulary(shared=True))
        _manifest(source.resolve().name, vocabulary, model_config).write(temporary)
        new_run.config.write_text(gin_text(model_config, source.resolve().name), "utf-8")
        (temporary / KEPT).mkdir()
        for path in (*tokenizer.kept_files(source), source / "generation_config.json"):
            if path.is_file():
                shutil.copyfile(path, temporary / KEPT / path.name)
        checkpoint.write_params(
            temporary,
            parameter_shapes(model),
            lambda path, shape: parameter_names.stack(path, shape, model_config, get),
        )


def export_hf(model_dir: str | Path, out: str | Path) -> None:
    """Exports a run directory's best checkpoint to the directory `out`, in float32 safetensors.

    `AutoTokenizer` and `T5ForConditionalGeneration` (`UMT5…`, `SwitchTransformers…`) load it. The
    files of an imported tokenizer are copied; a tokenizer of ours becomes a tokenizer.json that
    gives the same ids. If the logits have separate weights, `transformers` 5 warns that it does
    not tie them to the embedding ("we will NOT tie them"). The warning is correct; for T5 and UMT5
    no config.json avoids it.

    Raises:
        ValueError: the model has no such architecture (two vocabularies, GShard's experts), its
            vocabulary is not the one it was trained with, or `out` exists. No partial output is
            left.
    """
    run = Path(model_dir)
    model = Run(run).model()
    hf_settings = hf_config.from_config(model.config)
    entries = names.table(model)
    vocabulary_file = trained_vocabularies(Run(run), model.config)["source"]
    shapes = {
        copy: entry.their_shape
        for entry in entries.values()
        for name in entry.theirs
        for copy in _written_as(name, hf_settings)
    }  # in the order of our parameter tree, so that files are written sequentially
    with staged(Path(out)) as temporary:
        _write_json(temporary / "config.json", hf_settings)
        special = {name: hf_settings[name] for name in hf_config.SPECIAL_IDS}
        _write_json(
            temporary / "generation_config.json",
            _read_json(run / KEPT / "generation_config.json", optional=True) | special,
        )
        tokenizer.write(vocabulary_file, temporary, kept=run / KEPT, pad=model.config.pad_id)
        with TensorWriter(temporary, shapes) as writer:
            for path, leaf in checkpoint.read_params(run, parameter_shapes(model)):
                for name, array in parameter_names.unstack(path, leaf, model.config).items():
                    for theirs, tensor in entries[name].to_theirs(array):
                        for copy in _written_as(theirs, hf_settings):
                            writer[copy] = tensor
                del leaf, array, tensor  # release memory before the next parameter is read


@contextlib.contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Yields a temporary directory beside `out`, which is renamed to `out` on success.

    It is removed on an error and on SIGTERM. An OSError names `out`.

    Raises:
        ValueError: `out` exists or cannot be created.
    """
    check_new(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _ends_by_exception():
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            temporary.chmod(0o755)
            yield temporary
            os.rename(temporary, out)
        except BaseException as error:
            _remove(temporary)
            if isinstance(error, OSError):  # errors of file objects do not contain the path
                raise OSError(f"cannot write {out}: {error}") from error
            raise


def check_new(out: Path) -> None:
    """Raises ValueError if a directory exists or cannot be created."""
    if out.exists() or out.is_symlink():
        raise ValueError(f"{out} exists; it is not changed: name a new directory")
    for parent in out.parents:
        if parent.exists() and not parent.is_dir():
            raise ValueError(f"{parent} is a file, not a directory")


@contextlib.contextmanager
def _ends_by_exception() -> Iterator[None]:
    """Makes the first SIGTERM raise SystemExit, so that partial output can be removed.

    Outside the main thread, where signals cannot be handled, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def trained_vocabularies(run: Run, exported: Config) -> dict[str, Path]:
    """Returns the vocabulary files of 'source' and 'target' of a run with a model.

    Raises ValueError if training used another one, or it has more pieces than the model.
    """
    trained = read_manifest(run.manifest).vocabulary_hash
    embeddings = {"source": exported.vocab_size, "target": exported.target_vocabulary}
    for side, path in run.vocabularies().items():
        vocabulary = Vocabulary.load(path)
        if vocabulary.hash != trained[side]:
            raise ValueError(
                f"{path} is not the {side} vocabulary that the model was trained with: its hash is "
                f"{vocabulary.hash}, not {trained[side]} as in its manifest"
            )
        if vocabulary.size > embeddings[side]:
            raise ValueError(
                f"{path} has {vocabulary.size} pieces, the model only {embeddings[side]} embeddings"
            )
    return run.vocabularies()


def gin_text(model_config: Config, name: str) -> str:
    """Returns the configuration of an imported model, which gin_configs/runs/*.gin extend."""
    sizes = {
        field: getattr(model_config, field)
        for field in (
            "emb_dim", "num_heads", "head_dim", "mlp_dim", "encoder_layers", "decoder_layers",
            "mlp_activations", "tied_logits", "relative_buckets", "relative_max_distance",
            "relative_bias_per_layer", "pad_id", "eos_id", "start_id", "dtype",
        )
    }  # fmt: skip
    lines = [
        f"# {name}, imported from Hugging Face.",
        "from __gin__ import dynamic_registration",
        "",
        *(["from mmt.model import moe"] if model_config.moe_period else []),
        "from mmt.model import transformer",
        "",
        f"VOCAB_SIZE = {model_config.vocab_size}",
        "TARGET_VOCAB_SIZE = 0",
        f"DROPOUT_RATE = {model_config.dropout_rate}",
        "MODEL = @transformer.Transformer()",
        "",
        "transformer.Transformer.config = @transformer.Config()",
        "transformer.Config:",
        "  vocab_size = %VOCAB_SIZE",
        "  target_vocab_size = %TARGET_VOCAB_SIZE",
        "  dropout_rate = %DROPOUT_RATE",
        *(f"  {field} = {value!r}" for field, value in sizes.items()),
    ]
    if model_config.moe_period:
        lines += [
            f"  moe_period = {model_config.moe_period}",
            "  moe = @moe.MoeConfig()",
            "moe.MoeConfig:",
            f"  num_experts = {model_config.moe.num_experts}",
            "  router = @moe.switch_top1",
            f"  capacity_factor = {model_config.moe.capacity_factor}",
            f"  jitter = {model_config.moe.jitter}",
            "  expert_dropout = %DROPOUT_RATE",
            f"  router_dtype = {model_config.moe.router_dtype!r}",
        ]
    return "\n".join(lines) + "\n"


def _remove(directory: Path) -> None:
    """Deletes a directory. It retries for up to 5 s, while Orbax's threads still write files."""
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.1)
        if not directory.exists():
            return


def _sources(tensors: Tensors, model_config: Config, *, tied: bool) -> dict[str, str]:
    """Returns {Hugging Face name: name of the tensor in the files}.

    Copies of the embedding are one tensor. The logits use the embedding's tensor if the files have
    no other and config.json says that they are `tied`.
    """
    where = {name: name for name in tensors if name not in names.UNUSED}
    copies = [name for name in names.EMBEDDING_COPIES if where.pop(name, None)]
    if copies:
        where.setdefault(names.EMBEDDING, copies[0])
    head = where.pop(names.HEAD, None)
    embedding = where.get(names.EMBEDDING)
    if embedding is None:
        return where if head is None else {**where, names.HEAD: head}
    equal_tensors = [*copies, *([head] if head and model_config.tied_logits else [])]
    for name in equal_tensors:
        if not np.array_equal(tensors[name], tensors[embedding]):
            raise ValueError(
                f"{tensors.directory}: {name} differs from {embedding}, but config.json ties them "
                "(tie_word_embeddings). If the logits have separate weights and the "
                "decoder's output is not scaled, as in T5 1.1 and UMT5, write "
                '"tie_word_embeddings": false into config.json'
            )
    if model_config.tied_logits or not (head or tied):
        return where
    return {**where, names.HEAD: head or embedding}


def _written_as(name: str, hf_settings: dict[str, Any]) -> tuple[str, ...]:
    """Returns the names under which an exported file contains a tensor.

    A Switch Transformer whose logits have separate weights contains the embedding three times:
    `transformers` 5 then ties nothing, and initialises missing tables of the stacks at random.
    """
    untied = not hf_settings["tie_word_embeddings"]
    if name == names.EMBEDDING and hf_settings["model_type"] == "switch_transformers" and untied:
        return name, *names.EMBEDDING_COPIES
    return (name,)


def _check_vocabulary(vocabulary: Vocabulary, model_config: Config, path: Path) -> None:
    if vocabulary.eos != model_config.eos_id:
        raise ValueError(
            f"{path}: texts end with {vocabulary.eos}, by config.json with {model_config.eos_id}"
        )
    if vocabulary.size > model_config.vocab_size:
        raise ValueError(
            f"{path} has {vocabulary.size} pieces, config.json vocab_size {model_config.vocab_size}"
        )


def _manifest(name: str, vocabulary: Vocabulary, model_config: Config) -> Manifest:
    """Returns a manifest without languages: the files do not name the training languages."""
    sides = ("source", "target")
    return Manifest(
        name=name,
        target="",
        languages=(),
        counts={},
        corpus_hash="",
        vocabulary_hash=dict.fromkeys(sides, vocabulary.hash),
        vocabulary_size=dict.fromkeys(sides, vocabulary.size),
        pad=model_config.pad_id,
        eos=model_config.eos_id,
        start=model_config.start_id,
    )


def _read_json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if not path.is_file():
        if optional:
            return {}
        raise ValueError(f"{path.parent} is no Hugging Face model: it has no {path.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: broken JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object")
    return content


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
