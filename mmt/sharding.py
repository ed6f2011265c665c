"""Sharding: a mesh, a table of logical-axis rules, and shardings for anything with shapes.

The model only names its axes ("embed", "mlp", "expert", ...). A table bound in gin maps each of
them to a mesh axis. One device is also a mesh.
"""

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from flax import linen as nn
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from mmt import suggest

Axes = str | tuple[str, ...] | None  # mesh axes; several stand for their product
Rules = tuple[tuple[str, Axes], ...]

# As in GShard, data and experts share a mesh axis; heads, mlp and vocabulary share the other.
# A logical axis may have several rows: the first whose mesh axes the array does not use applies.
RULES: Rules = (
    ("batch", "data"),
    ("group", "data"),
    ("expert", "data"),
    ("expert_group", None),  # the axis of the groups while experts are sharded
    ("vocab", "model"),
    ("heads", "model"),
    ("mlp", "model"),
    ("embed", None),
    ("activation_embed", None),
    ("kv", None),
    ("length", None),
    ("layers", None),
    ("relpos_buckets", None),
    ("unmodeled", None),
)

_DEVICES: contextvars.ContextVar[Sequence[Any] | None] = contextvars.ContextVar("devices")
_DEVICES.set(None)


class NotDivisible(ValueError):
    """A mesh does not divide an array, or its devices.

    axis: 'batch', 'group', the axis of a parameter, or 'devices'.
    """

    def __init__(self, message: str, axis: str) -> None:
        super().__init__(message)
        self.axis = axis


@contextlib.contextmanager
def devices(device_list: Sequence[Any]) -> Iterator[None]:
    """Makes `device_mesh` use `device_list` inside the `with` statement.

    These may be devices of a TPU topology without hardware.
    """
    token = _DEVICES.set(device_list)
    try:
        yield
    finally:
        _DEVICES.reset(token)


def device_mesh(axes: Mapping[str, int] | None = None) -> Mesh:
    """Returns a mesh over all devices of all processes.

    One axis may be -1: it gets the remaining devices. `device_mesh({"data": -1, "model": 2})` on 8
    devices is 4 x 2. Raises ValueError if the sizes do
    not multiply to the number of devices.
    """
    mesh_devices = _DEVICES.get()
    mesh_devices = jax.devices() if mesh_devices is None else mesh_devices
    sizes = mesh_sizes(axes or {"data": -1, "model": 1}, len(mesh_devices))
    automatic, shape = (jax.sharding.AxisType.Auto,) * len(sizes), tuple(sizes.values())
    try:
        return jax.make_mesh(shape, tuple(sizes), automatic, devices=mesh_devices)
    except NotImplementedError:  # on a TPU: 512 x 4 splits a side of a torus of 8 x 16 x 16
        device_array = mesh_utils.create_device_mesh(
            shape, mesh_devices, allow_split_physical_axes=True
        )
        return Mesh(device_array, tuple(sizes), axis_types=automatic)


def mesh_sizes(axes: Mapping[str, int], devices: int) -> dict[str, int]:
    """Returns the axes of `device_mesh` with a size in place of -1.

    Raises NotDivisible if the sizes do not multiply to the number of devices; another ValueError if
    that holds for any number.
    """
    sizes = dict(axes)
    fixed = math.prod(size for size in sizes.values() if size != -1)
    for name, size in sizes.items():
        if size == -1 and fixed > 0 and devices % fixed == 0:
            sizes[name] = devices // fixed
    if math.prod(sizes.values()) != devices or min(sizes.values()) < 1:
        message = (
            f"mesh {dict(axes)} does not fit {devices} devices: its sizes must multiply to "
            f"{devices}, one of them may be -1 (sharding.device_mesh.axes)"
        )
        if list(axes.values()).count(-1) > 1 or any(n < 1 and n != -1 for n in axes.values()):
            raise ValueError(message)
        raise NotDivisible(message, "devices")
    return sizes


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh and the rules that map the model's logical axes to mesh axes.

    over: rows that replace those of `rules`, for example {"expert": "expert", "batch": ("data",
        "expert")}. A list holds alternatives: {"embed": ["data", None]} shards the embed axis of a
        parameter over "data", unless another axis of the parameter already is.
    """

    mesh: Mesh | AbstractMesh = dataclasses.field(default_factory=device_mesh)
    rules: Rules = RULES
    over: Mapping[str, Axes | list[Axes]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        table: dict[str, list[Axes]] = {}
        for logical, physical in self.rules:
            table.setdefault(logical, []).append(physical)
        for logical, rows in self.over.items():
            if logical not in table:
                near = suggest.hint(logical, table)
                raise ValueError(
                    f"Layout.over: the model has no axis {logical!r}{near}; "
                    f"allowed: {', '.join(table)}"
                )
            table[logical] = rows if isinstance(rows, list) else [rows]
        rules = tuple((logical, axes) for logical, rows in table.items() for axes in rows)
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "over", {})
        for logical, physical in self.rules:
            for name in _names(physical):
                if name not in self.mesh.axis_names:
                    raise ValueError(
                        f"rule ({logical!r}, {physical!r}): the mesh has no axis {name!r}, only "
                        f"{self.mesh.axis_names}{suggest.hint(name, self.mesh.axis_names)}"
                    )

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Applies this layout's rules to logical constraints inside the `with` statement.

        Do not enter it inside a trace.
        """
        assert isinstance(self.mesh, Mesh)  # an abstract mesh only serves to compute shapes
        with jax.set_mesh(self.mesh), nn.logical_axis_rules(self.rules):
            yield

    def replicated(self) -> NamedSharding:
        """Returns the sharding of arrays that every device holds whole."""
        return NamedSharding(self.mesh, PartitionSpec())

    def batch(self) -> NamedSharding:
        """Returns the sharding of arrays [B, ...] with rows divided over the devices."""
        return NamedSharding(self.mesh, PartitionSpec(self._spec(("batch",))[0]))

    def rows(self, batch_size: int) -> tuple[range, ...]:
        """Returns the rows of a batch that the devices of this process hold, in order.

        Raises NotDivisible if the mesh does not divide `batch_size`.
        """
        parts = self.parts("batch")
        if batch_size % parts:
            raise NotDivisible(
                f"BATCH_SIZE {batch_size} is not divisible by {parts}, the number of parts into "
                f"which the mesh {dict(self.mesh.shape)} over {jax.process_count()} processes "
                "divides it",
                "batch",
            )
        indices = self.batch().addressable_devices_indices_map((batch_size,)).values()
        rows = {row for index in indices if index for row in range(batch_size)[index[0]]}
        starts = sorted(row for row in rows if row - 1 not in rows)
        ends = sorted(row + 1 for row in rows if row + 1 not in rows)
        return tuple(map(range, starts, ends))

    def parts(self, logical: str) -> int:
        """Returns the number of shards of a logical axis, the only sharded one of its array."""
        return self._size(self._spec((logical,))[0])

    def axes(self, logical: str) -> tuple[str, ...]:
        """Returns the mesh axes of a logical axis, the only sharded one of its array."""
        axes = self._spec((logical,))[0]
        return (axes,) if isinstance(axes, str) else axes or ()

    def parameters(self, boxed_shapes: Any) -> Any:
        """Returns the shardings of a tree of parameters, boxed with their logical axes.

        `jax.eval_shape` of `Transformer.init` gives such a tree. Raises NotDivisible with
        parameter, axis and sizes if an axis does not divide; another ValueError if two axes of a
        parameter map to one mesh axis.
        """
        return jax.tree_util.tree_map_with_path(
            self._parameter_sharding,
            nn.get_partition_spec(boxed_shapes),
            nn.meta.unbox(boxed_shapes),
        )

    def shapes(self, boxed_shapes: Any) -> Any:
        """Returns the unboxed shapes with the shardings of `parameters`, for restoring."""
        return jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            nn.meta.unbox(boxed_shapes), self.parameters(boxed_shapes),
        )  # fmt: skip

    def _parameter_sharding(
        self, path: Any, names: PartitionSpec, shape: jax.ShapeDtypeStruct
    ) -> NamedSharding:
        name = "/".join(str(key.key) for key in path)
        sizes = zip(names, shape.shape, strict=True)
        described = f"{name} [{', '.join(f'{axis} {size}' for axis, size in sizes)}]"
        try:
            spec = self._spec(tuple(names))
        except ValueError as error:
            raise ValueError(f"{described}: {error}") from None
        for logical, size, axes in zip(names, shape.shape, spec, strict=True):
            if size % self._size(axes):
                raise NotDivisible(
                    f"{described}: its axis {logical!r} of {size} is not divisible by mesh axes "
                    f"{_names(axes)} of {self._size(axes)} devices",
                    logical,
                )
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def _spec(self, names: Sequence[str | None]) -> list[Axes]:
        """Returns the mesh axes of each logical axis of an array, by the first row that applies.

        Flax's `logical_to_mesh_axes` does the same, but raises no error if no row of an axis
        applies.
        """
        chosen: dict[str | None, Axes] = {None: None}
        axis_owner: dict[str, str] = {}  # mesh axis -> logical axis
        for logical, physical in self.rules:
            if (
                logical in names
                and logical not in chosen
                and not axis_owner.keys() & _names(physical)
            ):
                chosen[logical] = physical
                axis_owner |= dict.fromkeys(_names(physical), logical)
        for name in names:
            if name not in chosen:
                row = next((row for row in self.rules if row[0] == name), None)
                if row is None:
                    raise ValueError(f"no rule for axis {name!r}")
                axis_users = {
                    axis: axis_owner[axis] for axis in _names(row[1]) if axis in axis_owner
                }
                raise ValueError(
                    f"rule {row}: mesh axis {', '.join(map(repr, axis_users))} already shards its "
                    f"axis {', '.join(map(repr, axis_users.values()))}; give {name!r} an "
                    f"alternative, as in Layout.over = {{{name!r}: [{row[1]!r}, None]}}"
                )
        return [chosen[name] for name in names]

    def _size(self, axes: Axes) -> int:
        return math.prod(self.mesh.shape[name] for name in _names(axes))

    def optimizer_state(self, state_shapes: Any, parameter_shapes: Any, shardings: Any) -> Any:
        """Returns the shardings of an optimizer's state, derived from its parameters' shardings.

        The path of a leaf begins with the path of its parameter. A leaf with the parameter's shape
        (momenta) has its sharding. With one axis fewer (Adafactor's factored moments), it has the
        sharding of the remaining axes. All other leaves (counters) are replicated.
        """
        parameter_by_path = {
            jax.tree_util.keystr(path): (shape.shape, sharding.spec)
            for (path, shape), sharding in zip(
                jax.tree_util.tree_leaves_with_path(parameter_shapes),
                jax.tree_util.tree_leaves(shardings),
                strict=True,
            )
        }

        def place(path: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
            for end in range(len(path), 0, -1):
                if parameter := parameter_by_path.get(jax.tree_util.keystr(path[:end])):
                    return NamedSharding(self.mesh, _matching_spec(leaf.shape, *parameter))
            return self.replicated()

        return jax.tree_util.tree_map_with_path(place, state_shapes)


def device_bytes(leaf: jax.ShapeDtypeStruct) -> int:
    """Returns the bytes of an array that one device holds, from its shape and sharding."""
    assert leaf.sharding is not None
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize


def _matching_spec(
    shape: tuple[int, ...], parameter: tuple[int, ...], spec: PartitionSpec
) -> PartitionSpec:
    axes = tuple(spec) + (None,) * (len(parameter) - len(spec))
    if shape == parameter:
        return PartitionSpec(*axes)
    for removed in reversed(range(len(parameter))):
        if shape == parameter[:removed] + parameter[removed + 1 :]:
            return PartitionSpec(*axes[:removed], *axes[removed + 1 :])
    return PartitionSpec()


def _names(axes: Axes) -> set[str]:
    return {axes} if isinstance(axes, str) else set(axes or ())
