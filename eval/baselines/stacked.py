"""Models of one shape, stacked in one array per parameter, and programs that train them in place.

Arrays are [slots, ...], sharded over the local devices. Each device steps its own models, without
communication. Filling a slot again does not recompile. simultaneous.py decides what is trained, and
how long.

On a GPU or TPU, all models of a device are mapped (`jax.vmap`): many small matrix products become
one large one. On a CPU, mapping gains nothing, because a small product occupies a core as well. But
training one model at a time leaves 17–33 % of two cores idle. So every core becomes a device
(`one_device_per_core`) and steps its models in turn (`together` = 1). Empty slots are skipped, and
one model's activations are in memory at a time. benchmarks/baselines.py measures the gain.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from mmt import sharding
from mmt.metrics import Meters
from mmt.system import environment
from mmt.trainer import Batch, Trainer, TrainState

_AXIS = "models"


def one_device_per_core() -> None:
    """Makes every CPU core a JAX device, unless XLA_FLAGS sets their number.

    Call it before JAX initialises its devices.
    """
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    jax.config.update("jax_num_cpu_devices", environment.cores())


def on_one_device(program: Trainer) -> Trainer:
    """Returns the program of a single model, for work outside the stack."""
    with sharding.devices(jax.local_devices()[:1]):
        return dataclasses.replace(program, layout=sharding.Layout())


def room(program: Trainer, batch: Batch, *, languages: int, memory: float, together: int) -> int:
    """Returns how many models fit in `memory` GiB.

    The memory holds all states, and the gradients and activations of the models that are mapped
    together on every device (0: all). Raises ValueError if no model fits.
    """
    state = program.shapes(languages)
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    step_bytes = program.step_bytes(languages, batch)
    free_bytes = memory * 2**30 - together * jax.local_device_count() * step_bytes
    count = int(free_bytes // (state_bytes + (0 if together else step_bytes)))
    if count < 1:
        gibibytes = (state_bytes + max(1, together * jax.local_device_count()) * step_bytes) / 2**30
        raise ValueError(
            f"memory for models side by side: {memory} GiB; one of them takes {gibibytes:.2f}"
        )
    return count


@dataclasses.dataclass(frozen=True)
class ModelStack:
    """`slots` models, a multiple of the local devices, and programs that change them in place.

    program: of one model. languages: number of languages of its meters. together: models of a
    device that are mapped at once, a divisor of their number; 0: all.
    """

    program: Trainer
    languages: int
    slots: int
    together: int = 0

    @functools.cached_property
    def placed(self) -> NamedSharding:
        """Returns the sharding of models over devices."""
        mesh = Mesh(np.array(jax.local_devices()), (_AXIS,))
        return NamedSharding(mesh, PartitionSpec(_AXIS))

    def empty(self) -> TrainState:
        """Returns a stack of zeros, to be filled by `put`."""
        shapes = self.program.shapes(self.languages)

        def zeros() -> Any:
            return jax.tree.map(lambda x: jnp.zeros((self.slots, *x.shape), x.dtype), shapes)

        return jax.jit(zeros, out_shardings=self.placed)()

    def put(self, states: TrainState, slot: int, state: TrainState) -> TrainState:
        """Returns the stack with `state` in a slot; the given stack is donated."""
        everywhere = NamedSharding(self.placed.mesh, PartitionSpec())
        return self._put(states, jnp.arange(self.slots) == slot, jax.device_put(state, everywhere))

    def take(self, states: TrainState, slot: int) -> TrainState:
        """Returns a copy of the state in a slot, as the state of a single model."""
        device, index = divmod(slot, self.slots // jax.local_device_count())
        local = jax.tree.map(lambda x: x.addressable_data(device), states)
        return jax.device_put(_select(local, index), self.program.shardings)

    def step(
        self, states: TrainState, batches: Sequence[Batch | None]
    ) -> tuple[TrainState, Float[Array, " slots"]]:
        """Steps each model that has a batch; returns (states, losses); the given states are
        donated.
        """
        losses = jax.device_put(np.zeros(self.slots, np.float32), self.placed)
        return self._step((states, losses), *self._stack_batches(batches))

    def evaluate(self, total: Any, params: Any, batches: Sequence[Batch | None]) -> Meters:
        """Adds the sums of batches, without dropout, to `total` (None: 0), which is donated."""
        stacked, active = self._stack_batches(batches)
        if not total:
            measure = jax.vmap(
                functools.partial(self.program.uncompiled()[1], languages=self.languages)
            )
            shapes = jax.eval_shape(measure, params, stacked)
            zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
            total = jax.device_put(zeros, self.placed)
        return self._evaluate(total, (params, stacked), active)

    def _stack_batches(self, batches: Sequence[Batch | None]) -> Any:
        """Stacks batches to arrays [slots, B, T], with zeros for None; returns them and a mask of
        slots that have a batch.
        """
        template = next(batch for batch in batches if batch is not None)
        empty = {name: np.zeros_like(array) for name, array in template.items()}
        rows = [batch or empty for batch in batches]
        stacked = {name: np.stack([batch[name] for batch in rows]) for name in template}
        active = np.array([batch is not None for batch in batches])
        return jax.device_put((stacked, active), self.placed)

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        step, _ = self.program.uncompiled()
        return self._in_place(lambda old, batch: step(old[0], batch))

    @functools.cached_property
    def _evaluate(self) -> Callable[..., Any]:
        _, evaluate = self.program.uncompiled()
        return self._in_place(
            lambda total, inputs: total.add(evaluate(*inputs, languages=self.languages))
        )

    @functools.cached_property
    def _put(self) -> Callable[..., TrainState]:
        def put(states: Any, in_slot: Array, state: Any) -> Any:
            def put_leaf(old: Array, new: Array) -> Array:
                return jnp.where(in_slot.reshape(-1, *[1] * new.ndim), new, old)

            return jax.tree.map(put_leaf, states, state)

        return jax.jit(put, donate_argnums=0, out_shardings=self.placed)

    def _in_place(self, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        """Returns a function (old, inputs) -> new of a stack, from that of one model.

        Inactive models are unchanged; groups mapped together are skipped if none is active.
        """
        local_slots = self.slots // jax.local_device_count()
        together = self.together or local_slots
        if self.slots % jax.local_device_count() or local_slots % together:
            raise ValueError(
                f"{self.slots} slots, {together} mapped together, on {jax.local_device_count()} "
                "devices; allowed: a multiple of devices times those together"
            )

        mapped = _map_one(function) if together == 1 else jax.vmap(function)

        def local(old: Any, inputs: Any, active: Array) -> Any:
            def part(i: Array, states: Any) -> Any:
                group = functools.partial(
                    jax.lax.dynamic_slice_in_dim, start_index=i * together, slice_size=together
                )
                group_inputs, is_active = jax.tree.map(group, (states, inputs)), group(active).any()
                new = jax.lax.cond(is_active, mapped, lambda old, _: old, *group_inputs)
                return jax.tree.map(
                    lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, i * together, 0),
                    states, new,
                )  # fmt: skip

            return jax.lax.fori_loop(0, local_slots // together, part, old)

        spec = self.placed.spec
        spread = jax.shard_map(
            local, mesh=self.placed.mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        return jax.jit(spread, donate_argnums=0)


def _map_one(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Maps a function over a stack of one model, without the batch dimension of `jax.vmap`.

    A matrix product with a batch dimension, even of size 1, takes a slow path on a CPU.
    """

    def mapped(*stacked: Any) -> Any:
        new = function(*jax.tree.map(lambda x: x[0], stacked))
        return jax.tree.map(lambda x: x[None], new)

    return mapped


@jax.jit
def _select(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, index, keepdims=False), tree)
