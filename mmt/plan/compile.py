"""Compiles the program of a gin configuration for devices that need not exist.

`python -m mmt.plan.compile` runs as a separate process: an unsupported topology can end the
process, and the number of simulated devices is fixed at its start. It reads a `Request` as JSON
from stdin and writes its answer as JSON on the last line of stdout. `mmt.plan.estimate` interprets
the answer.
"""

import dataclasses
import importlib.util
import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from mmt import config, sharding
from mmt.decoding import DEFAULT
from mmt.model import moe
from mmt.model.transformer import Transformer
from mmt.plan import collectives, flops, instructions, parameters, topology
from mmt.trainer import FEATURES, Trainer
from mmt.translate import model_search

LANGUAGES = 100  # in the metrics; their number has no noticeable cost
RUN, MESH = "gin_configs/runs/train.gin", "gin_configs/meshes/data.gin"
AMOUNT = "gin_configs/runs/plan.gin"  # tokens of a whole training


@dataclasses.dataclass(frozen=True)
class Request:
    """A program to compile: gin files and bindings, a topology, a training or a decoding step."""

    files: Sequence[str]
    bindings: Sequence[str]
    topology: str
    decode: bool = False


def main() -> int:
    """Answers the request on stdin with a JSON object, or with {"error": message}."""
    request = Request(**json.load(sys.stdin))
    try:
        result = answer(request)
    except (ValueError, ImportError) as error:
        result = {"error": str(error).split("\n  In call to configurable")[0]}
    print(json.dumps(result))
    return 0


def answer(request: Request) -> dict[str, Any]:
    """Returns sizes, work and the compiler's results, or notes on why nothing was compiled."""
    machine = topology.parse(request.topology)
    reason = why_not(machine)
    compiles, notes = not reason, [reason] if reason else []
    devices = _devices(machine, compiles)
    with sharding.devices(devices):
        trainer, note = _program(request, machine.devices)
    batch = batch_shapes(trainer.layout)
    if trainer.objective.guided_alignment:
        batch["decoder_alignment"] = batch["decoder_target_tokens"]
    try:
        traced = _decoding(trainer, batch) if request.decode else trainer.trace(LANGUAGES, batch)
    except ValueError as error:
        raise ValueError(f"{error}{f' ({note})' if note else ''}") from None
    state = trainer.shapes(LANGUAGES)
    params = jax.tree.leaves(state.params)
    counts = parameters.count(trainer.model).whole
    rows, length = batch["encoder_input_tokens"].shape
    return {
        "devices": machine.devices,
        "mesh": dict(trainer.layout.mesh.shape),
        "notes": [*([note] if note else []), *notes],
        "parameters": vars(counts),
        "parameter_bytes": _device_bytes(params),
        "replicated_bytes": _device_bytes([p for p in params if p.sharding.is_fully_replicated]),
        "optimizer_bytes": 0 if request.decode else _device_bytes(jax.tree.leaves(state.opt_state)),
        "checkpoint_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
        "work": flops.count(traced.jaxpr)._asdict(),
        "tokens_per_step": None if request.decode else rows * length,
        "tokens": float(config.macro("TOKENS")),
        **(_compiled(traced) if compiles else {}),
    }


def batch_shapes(layout: sharding.Layout) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the global batch of the configuration: BATCH_SIZE rows of TASK_FEATURE_LENGTHS."""
    rows, source, target = _batch_sizes()

    def shape(side: str, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
        length = source if side == "encoder" else target
        return jax.ShapeDtypeStruct((rows, length), dtype, sharding=layout.batch())

    batch = {name: shape(name.split("_")[0]) for name in FEATURES}
    batch |= {name: shape("decoder") for name in ("decoder_target_tokens", "decoder_language_ids")}
    return {**batch, "decoder_loss_weights": shape("decoder", jnp.float32)}


def data_parts(devices: int, *, rows: int, lengths: Sequence[int], model: Transformer) -> int:
    """Returns the number of parts into which the default mesh divides batch, groups and experts.

    It is the largest divisor of `devices` that divides all of them. `rows` are those of a
    microbatch.
    """
    parts = math.gcd(devices, rows)
    if model.config.moe_period:
        experts = model.config.moe
        counts = [moe.groups(rows, length, size=experts.group_size) for length in lengths]
        parts = math.gcd(parts, experts.num_experts, *counts)
    return parts


def smaller_groups(
    devices: int, *, rows: int, lengths: Sequence[int], model: Transformer
) -> int | None:
    """Returns the group size that lets `data_parts` be as large as rows and experts allow.

    None if the number of groups does not limit it, or no size does.

    On 32 devices, 512 rows of 114 target tokens are 8 groups of at most 8,192 tokens, but 32 groups
    of 1,824.
    """
    c = model.config
    if not c.moe_period:
        return None
    most = math.gcd(devices, rows, c.moe.num_experts)
    size = rows // most * min(lengths)
    counts = [moe.groups(rows, length, size=size) for length in lengths]
    is_better = size < c.moe.group_size and math.gcd(most, *counts) == most
    return size if is_better else None


def with_run(files: Sequence[str]) -> list[str]:
    """Loads gin files; returns them, after gin_configs/runs/train.gin if they have no whole run.

    Files such as gin_configs/runs/finetune.gin bind a part of the trainer only.
    """
    config.load([AMOUNT, *files], may_leave_open=True)
    run = [RUN] if config.bound(Trainer, "model") is None else []
    return [*run, *files]  # the files override the run: papers' models have their own batch


def trainer_of(
    files: Sequence[str], bindings: Sequence[str], layout: sharding.Layout
) -> tuple[Trainer, tuple[int, int, int]]:
    """Returns the configuration's trainer on another layout, and the sizes of its batch.

    The sizes are those of `batch_shapes`. The mesh of the configuration is ignored.
    """
    files, bindings = _load(files, bindings)
    default_mesh = ["sharding.device_mesh.axes={'data': -1, 'model': 1}", "sharding.Layout.over={}"]
    config.load([AMOUNT, *files, MESH], [*bindings, *default_mesh], may_leave_open=True)
    trainer = dataclasses.replace(_trainer(), layout=layout)
    return trainer, _batch_sizes()


def _program(request: Request, devices: int) -> tuple[Trainer, str]:
    """Returns the configuration's trainer and a note on its mesh, if it was chosen here."""
    files, bindings = _load(request.files, request.bindings)
    trainer, note = _trainer(), ""
    if config.binds(sharding.device_mesh):
        return trainer, note
    rows, *lengths = _batch_sizes()
    # Where microbatches do not divide the rows, `Trainer.trace` raises the error.
    rows = max(rows // trainer.microbatches, 1)
    batch: Any = {"rows": rows, "lengths": lengths, "model": trainer.model}
    parts = data_parts(devices, **batch)
    if parts < devices:
        of_microbatch = " of a microbatch" if trainer.microbatches > 1 else ""
        note = (
            f"mesh chosen: {parts} x {devices // parts}; rows{of_microbatch}, groups and experts "
            f"divide by {parts}, not by {devices} devices, so a second axis of {devices // parts} "
            "divides heads, mlp and vocabulary"
        )
        if size := smaller_groups(devices, **batch):
            note += f"; moe.MoeConfig.group_size = {size} would make the first axis longer"
    axes = f"sharding.device_mesh.axes={{'data': {parts}, 'model': {devices // parts}}}"
    config.load([AMOUNT, *files, MESH], [*bindings, axes], may_leave_open=True)
    return _trainer(), note


def _load(files: Sequence[str], bindings: Sequence[str]) -> tuple[list[str], list[str]]:
    """Loads the configuration `with_run`; returns its files and bindings."""
    files_with_run, bindings = with_run(files), list(bindings)
    if config.macro("MODEL") is None:
        raise ValueError(f"{', '.join(files)}: no MODEL; add a --gin_file of gin_configs/models")
    config.load([AMOUNT, *files_with_run], bindings, may_leave_open=True)
    parameters.count(config.macro("MODEL"))  # or it is no model
    return files_with_run, bindings


def _trainer() -> Trainer:
    if config.bound(Trainer, "teacher") is not None:
        raise ValueError("mmt plan knows no teacher; omit the file that binds "
                         "train.Trainer.teacher, such as gin_configs/runs/distill.gin")  # fmt: skip
    return config.configured(Trainer)()


def _decoding(trainer: Trainer, batch: Any) -> jax.stages.Traced:
    """Traces the first segment of a search with the default options.

    A batch has one row per part of the mesh's batch axis. Of the loop one step is counted, because
    the number of steps depends on the translations.
    """
    rows, length = trainer.layout.parts("batch"), batch["encoder_input_tokens"].shape[1]
    row_sharding = trainer.layout.batch()

    def place(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        """Distributes rows of caches [L B H S K] and of arrays [B ...]; replicates counters."""
        spec = PartitionSpec(*[None] * (leaf.ndim == 5), *row_sharding.spec if leaf.ndim else ())
        leaf_sharding = NamedSharding(row_sharding.mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf_sharding)

    source = jax.ShapeDtypeStruct((rows, length), jnp.int32, sharding=row_sharding)
    params = trainer.shapes(LANGUAGES).params
    with trainer.layout.active():
        return model_search.trace(trainer.model, params, DEFAULT, source=source, place=place)


def _compiled(traced: jax.stages.Traced) -> dict[str, Any]:
    """Returns seconds, memory and collectives, or a message if it does not fit."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        compiled = traced.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            reason = str(error).splitlines()[0]
            raise ValueError(f"the compiler rejects the program: {reason}") from None
        return {"exhausted": str(error), **_cost(wall, cpu)}
    cost, memory = _cost(wall, cpu), compiled.memory_analysis()
    names = ("argument", "output", "alias", "temp", "generated_code")
    sizes = {name: getattr(memory, f"{name}_size_in_bytes") for name in names}
    try:
        text = compiled.as_text() or ""
        rows = [dataclasses.asdict(collective) for collective in collectives.read(text)]
        profile = dataclasses.asdict(instructions.read(text))
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # v5p and v6e print no text
        return {**cost, "memory": sizes, "collectives_unknown": str(error).splitlines()[0]}
    return {**cost, "memory": sizes, "collectives": rows, "profile": profile}


def _cost(wall: float, cpu: float) -> dict[str, float]:
    """Returns the seconds since two clock readings, and the process' peak memory."""
    return {
        "compile_seconds": time.perf_counter() - wall,
        "compile_cpu_seconds": time.process_time() - cpu,
        "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _batch_sizes() -> tuple[int, int, int]:
    """Returns the rows of a batch, and the tokens of a row's source and target."""
    rows, lengths = config.macro("BATCH_SIZE"), config.macro("TASK_FEATURE_LENGTHS")
    if not isinstance(rows, int) or rows < 1:
        raise ValueError(f"BATCH_SIZE = {rows!r}; allowed: 1 or more")
    if not isinstance(lengths, dict) or not {"inputs", "targets"} <= lengths.keys():
        raise ValueError(f"TASK_FEATURE_LENGTHS = {lengths!r}; allowed: "
                         "{'inputs': 128, 'targets': 128} and the like")  # fmt: skip
    return rows, lengths["inputs"], lengths["targets"]


def _device_bytes(leaves: Sequence[jax.ShapeDtypeStruct]) -> int:
    """Returns the bytes of these arrays that one device holds."""
    return sum(map(sharding.device_bytes, leaves))


def why_not(machine: topology.Topology) -> str:
    """Returns why nothing can be compiled for a machine; '' if it can."""
    if machine.kind == "cpu" or (machine.tpu and importlib.util.find_spec("libtpu")):
        return ""
    if machine.tpu:
        return "libtpu is not installed (pip install 'mmt[plan]'): shapes and arithmetic only"
    return "no compiler for GPUs that are not present: shapes and arithmetic only"


def _devices(machine: topology.Topology, compiles: bool) -> Sequence[Any]:
    """Returns the devices of a TPU topology, or as many simulated CPU devices for shapes."""
    # A cache would make the seconds of compilation meaningless.
    jax.config.update("jax_enable_compilation_cache", False)
    if machine.kind == "cpu" or not compiles:
        jax.config.update("jax_num_cpu_devices", machine.devices)
        return jax.devices("cpu")
    from jax.experimental import topologies

    options = {"chip_config_name": "megacore"} if machine.kind == "v4" else {}
    try:
        described_topology = topologies.get_topology_desc(
            platform="tpu", topology_name=machine.name, **options
        )
    except jax.errors.JaxRuntimeError as error:
        raise ValueError(
            f"libtpu knows no topology {machine.name!r}: {str(error).splitlines()[0]}"
        ) from None
    if len(described_topology.devices) != machine.devices:
        raise ValueError(
            f"{machine.name}: libtpu has {len(described_topology.devices)} devices for it"
        )
    return described_topology.devices


if __name__ == "__main__":
    sys.exit(main())
