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

from mmt import config, sharding, trainer
from mmt.decoding import DEFAULT
from mmt.model import moe
from mmt.model.transformer import Transformer
from mmt.plan import collectives, flops, instructions, parameters, topology
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
        made, note = _program(request, machine.devices)
    batch = batch_shapes(made.layout)
    if made.objective.guided_alignment:
        batch["decoder_alignment"] = batch["decoder_target_tokens"]
    try:
        traced = _decoding(made, batch) if request.decode else made.trace(LANGUAGES, batch)
    except ValueError as error:
        raise ValueError(f"{error}{f' ({note})' if note else ''}") from None
    state = made.shapes(LANGUAGES)
    params = jax.tree.leaves(state.params)
    whole = parameters.count(made.model).whole
    rows, length = batch["encoder_input_tokens"].shape
    return {
        "devices": machine.devices,
        "mesh": dict(made.layout.mesh.shape),
        "notes": [*([note] if note else []), *notes],
        "parameters": vars(whole),
        "parameter_bytes": _on_a_device(params),
        "replicated_bytes": _on_a_device([p for p in params if p.sharding.is_fully_replicated]),
        "optimizer_bytes": 0 if request.decode else _on_a_device(jax.tree.leaves(state.opt_state)),
        "checkpoint_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
        "work": flops.count(traced.jaxpr)._asdict(),
        "tokens_per_step": None if request.decode else rows * length,
        "tokens": float(config.macro("TOKENS")),
        **(_compiled(traced) if compiles else {}),
    }


def batch_shapes(layout: sharding.Layout) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the global batch of the configuration: BATCH_SIZE rows of TASK_FEATURE_LENGTHS."""
    rows, source, target = _batch_sizes()

    def of(side: str, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
        length = source if side == "encoder" else target
        return jax.ShapeDtypeStruct((rows, length), dtype, sharding=layout.batch())

    batch = {name: of(name.split("_")[0]) for name in trainer.FEATURES}
    batch |= {name: of("decoder") for name in ("decoder_target_tokens", "decoder_language_ids")}
    return {**batch, "decoder_loss_weights": of("decoder", jnp.float32)}


def data_parts(devices: int, *, rows: int, lengths: Sequence[int], model: Transformer) -> int:
    """Returns the number of parts into which the default mesh divides batch, groups and experts.

    It is the largest divisor of `devices` that divides all of them.
    """
    parts = math.gcd(devices, rows)
    if model.config.moe_period:
        experts = model.config.moe
        counts = [moe.groups(rows, length, size=experts.group_size) for length in lengths]
        parts = math.gcd(parts, experts.num_experts, *counts)
    return parts


def trainer_of(
    files: Sequence[str], bindings: Sequence[str], layout: sharding.Layout
) -> tuple[trainer.Trainer, tuple[int, int, int]]:
    """Returns the configuration's trainer on another layout, and the sizes of its batch.

    The sizes are those of `batch_shapes`. The mesh of the configuration is ignored.
    """
    files, bindings = _load(files, bindings)
    anywhere = ["sharding.device_mesh.axes={'data': -1, 'model': 1}", "sharding.Layout.over={}"]
    config.load([AMOUNT, *files, MESH], [*bindings, *anywhere], may_leave_open=True)
    made = dataclasses.replace(_trainer(), layout=layout)
    return made, _batch_sizes()


def _program(request: Request, devices: int) -> tuple[trainer.Trainer, str]:
    """Returns the configuration's trainer and a note on its mesh, if it was chosen here."""
    files, bindings = _load(request.files, request.bindings)
    note = ""
    if not config.binds(sharding.device_mesh):
        rows, *lengths = _batch_sizes()
        parts = data_parts(devices, rows=rows, lengths=lengths, model=config.macro("MODEL"))
        if parts < devices:
            note = (
                f"mesh chosen: {parts} x {devices // parts}; rows, groups and experts divide by "
                f"{parts}, not by {devices} devices, so a second axis of {devices // parts} "
                "divides heads, mlp and vocabulary"
            )
        axes = f"sharding.device_mesh.axes={{'data': {parts}, 'model': {devices // parts}}}"
        config.load([AMOUNT, *files, MESH], [*bindings, axes], may_leave_open=True)
    return _trainer(), note


def _load(files: Sequence[str], bindings: Sequence[str]) -> tuple[list[str], list[str]]:
    """Loads the configuration, with gin_configs/runs/train.gin if it has no run.

    Returns its files and bindings.
    """
    files, bindings = list(files), list(bindings)
    config.load([AMOUNT, *files], may_leave_open=True)
    if config.macro("MODEL") is None:
        raise ValueError(f"{', '.join(files)}: no MODEL; add a --gin_file of gin_configs/models")
    if not config.binds(trainer.Trainer):
        files = [RUN, *files]  # first, so that the papers' models override the batch
    config.load([AMOUNT, *files], bindings, may_leave_open=True)
    parameters.count(config.macro("MODEL"))  # or it is no model
    return files, bindings


def _trainer() -> trainer.Trainer:
    made = config.configured(trainer.Trainer)()
    if made.teacher is not None:
        raise ValueError("mmt plan knows no teacher; omit gin_configs/runs/distill.gin")
    return made


def _decoding(made: trainer.Trainer, batch: Any) -> jax.stages.Traced:
    """Traces the first segment of a search with the default options.

    A batch has one row per part of the mesh's batch axis. Of the loop one step is counted, because
    the number of steps depends on the translations.
    """
    rows, length = made.layout.parts("batch"), batch["encoder_input_tokens"].shape[1]
    by_row = made.layout.batch()

    def place(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        """Distributes rows of caches [L B H S K] and of arrays [B ...]; replicates counters."""
        spec = PartitionSpec(*[None] * (leaf.ndim == 5), *by_row.spec if leaf.ndim else ())
        at = NamedSharding(by_row.mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=at)

    source = jax.ShapeDtypeStruct((rows, length), jnp.int32, sharding=by_row)
    params = made.shapes(LANGUAGES).params
    with made.layout.active():
        return model_search.trace(made.model, params, DEFAULT, source=source, place=place)


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


def _on_a_device(leaves: Sequence[jax.ShapeDtypeStruct]) -> int:
    """Returns the bytes that the fullest device holds of these arrays."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves
    )


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
        described = topologies.get_topology_desc(
            platform="tpu", topology_name=machine.name, **options
        )
    except jax.errors.JaxRuntimeError as error:
        raise ValueError(
            f"libtpu knows no topology {machine.name!r}: {str(error).splitlines()[0]}"
        ) from None
    if len(described.devices) != machine.devices:
        raise ValueError(f"{machine.name}: libtpu has {len(described.devices)} devices for it")
    return described.devices


if __name__ == "__main__":
    sys.exit(main())
