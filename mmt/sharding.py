"""Sharding: a mesh, a table of logical-axis rules, and shardings for anything with shapes.

The model only names its axes ("embed", "mlp", "expert", ...). Which of them is cut over which mesh
axis is decided here, by a table bound in gin. One device is a mesh too.
"""

import contextlib
import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Rules = tuple[tuple[str, str | tuple[str, ...] | None], ...]

# Data and experts over one axis, as GShard lays them; heads, mlp and vocabulary over the other.
RULES: Rules = (
    ("batch", "data"),
    ("group", "data"),
    ("expert", "data"),
    ("vocab", "model"),
    ("heads", "model"),
    ("mlp", "model"),
    ("embed", None),
    ("kv", None),
    ("length", None),
    ("layers", None),
    ("relpos_buckets", None),
    ("expert_group", None),
    ("unmodeled", None),
)


def device_mesh(axes: Mapping[str, int] | None = None) -> Mesh:
    """A mesh over all devices of all processes; one axis may be -1: what the others leave.

    `device_mesh({"data": -1, "model": 2})` on 8 devices is 4 x 2. Raises ValueError where the
    sizes do not multiply to the number of devices.
    """
    sizes = dict(axes or {"data": -1, "model": 1})
    devices = jax.device_count()
    fixed = int(np.prod([size for size in sizes.values() if size != -1]))
    for name, size in sizes.items():
        if size == -1 and devices % fixed == 0:
            sizes[name] = devices // fixed
    if int(np.prod(list(sizes.values()))) != devices:
        raise ValueError(f"mesh {dict(axes or sizes)} does not fill the {devices} devices")
    return jax.make_mesh(
        tuple(sizes.values()),
        tuple(sizes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(sizes),
    )


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh and the rules that map the model's logical axes onto it."""

    mesh: Mesh = dataclasses.field(default_factory=device_mesh)
    rules: Rules = RULES

    def __post_init__(self) -> None:
        for logical, physical in self.rules:
            names = (physical,) if isinstance(physical, str) else tuple(physical or ())
            for name in names:
                if name not in self.mesh.axis_names:
                    near = difflib.get_close_matches(name, self.mesh.axis_names, n=1)
                    raise ValueError(
                        f"rule ({logical!r}, {physical!r}): the mesh has no axis {name!r}, only "
                        f"{self.mesh.axis_names}" + (f"; nearest: {near[0]}" if near else "")
                    )

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, the model's logical constraints are this layout's. Not to be entered in a trace.
        """
        with jax.set_mesh(self.mesh), nn.logical_axis_rules(self.rules):
            yield

    def replicated(self) -> NamedSharding:
        """Everything on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    def batch(self) -> NamedSharding:
        """Rows over the devices, for arrays [B, ...]."""
        spec = nn.logical_to_mesh_axes(("batch",), self.rules)
        return NamedSharding(self.mesh, spec or PartitionSpec())

    def parameters(self, boxed_shapes: Any) -> Any:
        """Shardings for a tree of parameters boxed with their logical axes (`jax.eval_shape` of
        `Transformer.init`). Raises ValueError that names a parameter whose axis does not divide.
        """
        specs = nn.get_partition_spec(boxed_shapes)
        shardings = nn.logical_to_mesh_sharding(specs, self.mesh, list(self.rules))
        jax.tree_util.tree_map_with_path(self._check, shardings, nn.meta.unbox(boxed_shapes))
        return shardings

    def _check(self, path: Any, sharding: NamedSharding, shape: jax.ShapeDtypeStruct) -> None:
        for dimension, names in zip(shape.shape, sharding.spec, strict=False):
            names = (names,) if isinstance(names, str) else tuple(names or ())
            parts = int(np.prod([self.mesh.shape[name] for name in names]))
            if dimension % parts:
                raise ValueError(
                    f"{jax.tree_util.keystr(path)} {shape.shape}: {dimension} is not divisible by "
                    f"mesh axes {names} of {parts} devices"
                )

    def optimizer_state(self, state_shapes: Any, parameter_shapes: Any, shardings: Any) -> Any:
        """Shardings for an optimizer's state, from those of the parameters it belongs to.

        A leaf's path begins with its parameter's: of the same shape (momenta) it is cut as the
        parameter is; with one axis fewer (Adafactor's factored moments) as the axes that remain;
        anything else (counters) is on every device.
        """
        known = {
            jax.tree_util.keystr(path): (shape.shape, sharding.spec)
            for (path, shape), sharding in zip(
                jax.tree_util.tree_leaves_with_path(parameter_shapes),
                jax.tree_util.tree_leaves(shardings),
                strict=True,
            )
        }

        def place(path: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
            for end in range(len(path), 0, -1):
                if found := known.get(jax.tree_util.keystr(path[:end])):
                    return NamedSharding(self.mesh, _matching_spec(leaf.shape, *found))
            return self.replicated()

        return jax.tree_util.tree_map_with_path(place, state_shapes)


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
