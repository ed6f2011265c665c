"""`mmt plan --search`: ranks meshes for a model and a topology by the time of a training step.

Candidates are the layouts of gin_configs/meshes and every factorisation of the devices over the
axes data, expert and model, with and without parameters sharded over the batch's axes (FSDP). All
are estimated from shapes (`mmt.plan.mesh_cost`); then the best ones can be compiled.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jax.sharding import AbstractMesh, AxisType

from mmt import config, sharding
from mmt.plan import compile, estimate, mesh_cost, parameters, step_time, topology
from mmt.plan.estimate import TopologyPlan
from mmt.system.progress import track
from mmt.system.text_table import aligned

TABLE_ROWS = 5
_DIVIDED = {  # axis of `sharding.NotDivisible` -> the words of the table
    "batch": "BATCH_SIZE", "group": "the routing groups", "expert": "the experts",
    "heads": "the heads", "mlp": "mlp_dim", "vocab": "the vocabulary", "embed": "emb_dim",
}  # fmt: skip
_EXPERT_RULES = {"batch": ("data", "expert"), "group": ("data", "expert"), "expert": "expert",
            "expert_group": "data"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class MeshLayout:
    """A mesh and its rules, as gin binds them.

    Attributes:
        axes: `sharding.device_mesh.axes`.
        over: `sharding.Layout.over`.
        file: the file of gin_configs/meshes that has the same layout, or ''.
    """

    axes: Mapping[str, int]
    over: Mapping[str, Any]
    file: str = ""

    @property
    def name(self) -> str:
        """Returns 'data 4 x model 2, fully sharded'."""
        sizes = " x ".join(f"{axis} {size}" for axis, size in self.axes.items() if size > 1)
        return f"{sizes or 'data 1'}{', fully sharded' if 'embed' in self.over else ''}"

    @property
    def bindings(self) -> list[str]:
        """Returns the gin bindings that select this layout."""
        return [f"sharding.device_mesh.axes = {dict(self.axes)}",
                f"sharding.Layout.over = {dict(self.over)}"]  # fmt: skip

    def layout(self) -> sharding.Layout:
        """Returns the layout on a mesh without devices."""
        sizes, names = tuple(self.axes.values()), tuple(self.axes)
        mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))
        return sharding.Layout(mesh, over=self.over)


@dataclasses.dataclass(frozen=True)
class RankedMesh:
    """A layout with its plan, from shapes or from a compiled program."""

    layout: MeshLayout
    plan: TopologyPlan
    compiled: bool = False

    @property
    def step(self) -> step_time.StepTime:
        """Returns the forecast of a step."""
        return step_time.forecast(self.plan)


@dataclasses.dataclass(frozen=True)
class MeshSearch:
    """The result of a search.

    Attributes:
        ranked: the meshes that fit, the fastest first; compiled ones before others.
        refused: {reason: number of meshes} of those that do not divide or do not fit. The first
            array that a mesh does not divide is its reason.
        model_flops: FLOPs of a step on all devices, without recomputation and replication.
        errors: {mesh: message} of those that the compiler refused.
    """

    ranked: Sequence[RankedMesh]
    refused: Mapping[str, int]
    model_flops: float
    errors: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def mfu(self, row: RankedMesh) -> float:
        """Returns the share of the devices' peak that the model's FLOPs take in a step."""
        machine = row.plan.machine
        assert machine.chip.flops is not None
        return self.model_flops / (row.step.seconds * machine.devices * machine.chip.flops)

    def to_json(self) -> dict[str, Any]:
        """Returns all meshes that fit, the numbers of the others, and the best one's bindings."""
        return {
            "meshes": [self._json(row) for row in self.ranked],
            "refused": dict(self.refused),
            "errors": dict(self.errors),
            "best": self.ranked[0].layout.bindings if self.ranked else None,
        }

    def table(self) -> str:
        """Returns the five fastest meshes as a table, and the gin lines of the best one."""
        head = ("mesh", "step", "compute", "memory", "links", "GiB", "MFU", "from")
        rows: list[tuple[str, ...]] = [head]
        for row in self.ranked[:TABLE_ROWS]:
            step, size = row.step, row.plan.bytes_per_device["total"]
            assert size is not None
            shares = (f"{value / step.seconds:.0%}" for value in step.limits.values())
            rows.append((row.layout.name, estimate.readable_seconds(step.seconds), *shares,
                         f"{size / 2**30:.2f}", f"{self.mfu(row):.0%}",
                         "program" if row.compiled else "shapes"))  # fmt: skip
        lines = list(aligned(rows)) if self.ranked else ["no mesh fits"]
        total = len(self.ranked) + sum(self.refused.values()) + len(self.errors)
        lines += ["", f"{total} meshes; {len(self.ranked)} fit"]
        lines += [f"{count} left out: {reason}" for reason, count in self.refused.items()]
        lines += [f"{name}: {message}" for name, message in self.errors.items()]
        if self.ranked:
            best = self.ranked[0].layout
            lines += ["", f"# {best.name}{f': {best.file}' if best.file else ''}", *best.bindings]
        return "\n".join(lines)

    def _json(self, row: RankedMesh) -> dict[str, Any]:
        step, layout = row.step, row.layout
        return {
            "axes": dict(layout.axes), "over": dict(layout.over), "file": layout.file,
            "compiled": row.compiled, "seconds": step.seconds, "limits": dict(step.limits),
            "mfu": self.mfu(row), "bytes_per_device": row.plan.bytes_per_device,
        }  # fmt: skip


def search(
    files: Sequence[str], bindings: Sequence[str], name: str, *, compiled: int = 0
) -> MeshSearch:
    """Returns the meshes of a topology for a gin configuration, ranked. Its own mesh is ignored.

    Args:
        files: gin files, as for `plan`.
        bindings: gin bindings.
        name: name of the topology, such as 'v4:8x16x16'.
        compiled: number of meshes, the fastest by shapes, whose programs are compiled.

    Raises:
        ValueError: the topology or the configuration is wrong, or the machine is a CPU. An error of
            a mesh that is not about division is raised with its name.
    """
    machine = topology.parse(name)
    step_time.check(machine)
    if compiled < 0:
        raise ValueError(f"--search {compiled}; allowed: 0 or more meshes to compile")
    if compiled and (reason := compile.why_not(machine)):
        raise ValueError(f"--search {compiled}: {reason}; --search 0 ranks by shapes")
    estimated = _search_by_shapes(machine, files, bindings)
    ranked, errors = list(estimated.ranked), dict[str, str]()
    compiled_meshes = []
    for row in track(ranked[:compiled], "compiling the fastest meshes") if compiled else ():
        try:
            plan = estimate.plan([*files, compile.MESH], [*bindings, *row.layout.bindings], name)
        except ValueError as error:
            errors[row.layout.name] = str(error)
            continue
        if plan.fits:
            compiled_meshes.append(dataclasses.replace(row, plan=plan, compiled=True))
        else:
            errors[row.layout.name] = f"the program does not fit: {plan.notes[-1]}"
    compiled_meshes.sort(key=lambda row: row.step.seconds)
    return dataclasses.replace(
        estimated, ranked=[*compiled_meshes, *ranked[compiled:]], errors=errors
    )


def candidates(devices: int) -> list[MeshLayout]:
    """Returns all layouts for a number of devices, those of gin_configs/meshes first."""
    layouts = list(_configured_layouts(devices))
    known = {_key(layout) for layout in layouts}
    for layout in _factorised_layouts(devices):
        if _key(layout) not in known:
            known.add(_key(layout))
            layouts.append(layout)
    return layouts


def _search_by_shapes(
    machine: topology.Topology, files: Sequence[str], bindings: Sequence[str]
) -> MeshSearch:
    """Returns the search by shapes alone."""
    layouts = candidates(machine.devices)
    single_device = MeshLayout({"data": 1, "model": 1}, {})
    single_trainer, rows = compile.trainer_of(files, bindings, single_device.layout())
    shapes = mesh_cost.Shapes(single_trainer)
    single_cost = mesh_cost.MeshCost(single_trainer, shapes, rows)
    flops = 3 * sum(product.flops for product in single_cost.products())
    counts = vars(parameters.count(single_trainer.model).whole)
    ranked, refused = [], Counter[str]()
    for layout in layouts:
        try:
            trainer = dataclasses.replace(single_trainer, layout=layout.layout())
            cost = mesh_cost.MeshCost(trainer, shapes, rows)
        except sharding.NotDivisible as error:
            refused[f"the mesh does not divide {_DIVIDED.get(error.axis, error.axis)}"] += 1
            continue
        except ValueError as error:  # it would come again with `mmt train`
            raise ValueError(f"mesh {layout.name}: {error}") from error
        row = RankedMesh(layout, TopologyPlan(machine, _answer(machine, layout, cost, counts)))
        if row.plan.fits:
            ranked.append(row)
        else:
            refused[f"do not fit into {machine.chip.memory / 2**30:.2f} GiB per device"] += 1
    ranked.sort(key=lambda row: row.step.seconds)
    return MeshSearch(ranked, refused, flops)


def _answer(
    machine: topology.Topology,
    layout: MeshLayout,
    cost: mesh_cost.MeshCost,
    parameters: Mapping[str, int],
) -> dict[str, Any]:
    """Returns the estimate in the form of `compile.answer`."""
    work = cost.work()
    state = 3 * cost.parameter_bytes + 2 * cost.optimizer_bytes
    return {
        "devices": machine.devices, "mesh": dict(layout.axes), "notes": [],
        "parameters": parameters, "parameter_bytes": cost.parameter_bytes,
        "replicated_bytes": 0, "optimizer_bytes": cost.optimizer_bytes,
        "work": {"flops": machine.devices * sum(row.flops for row in work),
                 "bytes": machine.devices * sum(row.bytes for row in work)},
        "tokens_per_step": cost.rows * cost.source, "tokens": float(config.macro("TOKENS")),
        "memory": cost.memory(),
        "collectives": [dataclasses.asdict(row) for row in cost.collectives()],
        "profile": {"products": [dataclasses.asdict(row) for row in work], "cycles": {},
                    "bytes": {"optimizer": float(state)}},
    }  # fmt: skip


def _configured_layouts(devices: int) -> Iterator[MeshLayout]:
    """Yields the layouts of gin_configs/meshes that the number of devices admits."""
    for file in estimate.meshes():
        config.load([file])
        axes = config.value(sharding.device_mesh, "axes")
        over = config.value(sharding.Layout, "over", {})
        try:
            yield MeshLayout(sharding.mesh_sizes(axes, devices), over, Path(file).name)
        except sharding.NotDivisible:
            continue


def _factorised_layouts(devices: int) -> Iterator[MeshLayout]:
    """Yields every mesh of data x model and data x expert x model, also fully sharded."""
    for model in _divisors(devices):
        batch_devices = devices // model
        axes = {"data": batch_devices, "model": model}
        yield MeshLayout(axes, {})
        if batch_devices > 1:
            yield MeshLayout(axes, {"embed": ["data", None]})
        for expert in _divisors(batch_devices):
            if 1 < expert < batch_devices:
                axes = {"data": batch_devices // expert, "expert": expert, "model": model}
                yield MeshLayout(axes, _EXPERT_RULES)
                embed = [("data", "expert"), "data", None]
                yield MeshLayout(axes, {**_EXPERT_RULES, "embed": embed})


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _key(layout: MeshLayout) -> str:
    return repr((sorted((n, s) for n, s in layout.axes.items() if s > 1),
                 sorted(layout.over.items())))  # fmt: skip
