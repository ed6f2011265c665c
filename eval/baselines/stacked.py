"""Models of one shape stacked in one array each, and the programs that train them in place.

[slots, ...], cut over the devices of this machine: each device steps its own models, and none of
them knows of the others. A slot is filled, trained and filled again without compiling anew. What is
trained on what, and for how long, simultaneous.py decides.

On a GPU or TPU all models of a device are mapped (`jax.vmap`): many small products become one large
one. On a CPU mapping gains nothing, for a small product fills a core as well as a large one, and
one program alone leaves cores idle: there every core is made a device (`one_device_per_core`) and
takes its models one after another (`together` = 1), which passes over empty slots and keeps one
model's activations at a time. What there is to win is the part of the cores that one program alone
leaves idle, a sixth to a third of two: benchmarks/baselines.py measures it.
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
    """Makes every core of a CPU a device of its own, unless XLA_FLAGS says how many there are. To
    be called before JAX finds its devices.
    """
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    jax.config.update("jax_num_cpu_devices", environment.cores())


def on_one_device(program: Trainer) -> Trainer:
    """The program of one of the models, for what is done with it outside of the stack."""
    with sharding.devices(jax.local_devices()[:1]):
        return dataclasses.replace(program, layout=sharding.Layout())


def room(program: Trainer, batch: Batch, *, languages: int, memory: float, together: int) -> int:
    """How many models `memory` GiB hold: all states, and the gradients and activations of as many
    as are mapped together on every device (0: of all). ValueError where it is none.
    """
    state = program.shapes(languages)
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    working = program.step_bytes(languages, batch)
    free = memory * 2**30 - together * jax.local_device_count() * working
    count = int(free // (each + (0 if together else working)))
    if count < 1:
        needed = (each + max(1, together * jax.local_device_count()) * working) / 2**30
        raise ValueError(
            f"memory for models side by side: {memory} GiB; one of them takes {needed:.2f}"
        )
    return count


@dataclasses.dataclass(frozen=True)
class ModelStack:
    """`slots` models, a multiple of the local devices, and the programs that change them in place.

    program: of one model. languages: as its meters count them. together: how many of a device are
    mapped at once, a divisor of those it has; 0: all.
    """

    program: Trainer
    languages: int
    slots: int
    together: int = 0

    @functools.cached_property
    def placed(self) -> NamedSharding:
        """Models over the devices."""
        mesh = Mesh(np.array(jax.local_devices()), (_AXIS,))
        return NamedSharding(mesh, PartitionSpec(_AXIS))

    def empty(self) -> TrainState:
        """A stack of nothing, to be filled by `put`."""
        shapes = self.program.shapes(self.languages)

        def zeros() -> Any:
            return jax.tree.map(lambda x: jnp.zeros((self.slots, *x.shape), x.dtype), shapes)

        return jax.jit(zeros, out_shardings=self.placed)()

    def put(self, states: TrainState, slot: int, state: TrainState) -> TrainState:
        """The stack with `state` in a slot; the stack given is used up."""
        everywhere = NamedSharding(self.placed.mesh, PartitionSpec())
        return self._put(states, jnp.arange(self.slots) == slot, jax.device_put(state, everywhere))

    def take(self, states: TrainState, slot: int) -> TrainState:
        """A copy of the state in a slot, as that of a model alone."""
        device, place = divmod(slot, self.slots // jax.local_device_count())
        local = jax.tree.map(lambda x: x.addressable_data(device), states)
        return jax.device_put(_pick(local, place), self.program.shardings)

    def step(
        self, states: TrainState, batches: Sequence[Batch | None]
    ) -> tuple[TrainState, Float[Array, " slots"]]:
        """A step of each model with a batch: (states, losses); the states given are used up."""
        losses = jax.device_put(np.zeros(self.slots, np.float32), self.placed)
        return self._step((states, losses), *self._gathered(batches))

    def evaluate(self, total: Any, params: Any, batches: Sequence[Batch | None]) -> Meters:
        """The sums of batches without dropout, added to `total` (None: 0), which is used up."""
        given, active = self._gathered(batches)
        if not total:
            measure = jax.vmap(functools.partial(self.program.plain()[1], languages=self.languages))
            shapes = jax.eval_shape(measure, params, given)
            zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
            total = jax.device_put(zeros, self.placed)
        return self._evaluate(total, (params, given), active)

    def _gathered(self, batches: Sequence[Batch | None]) -> Any:
        """[slots, B, T] of each array, zeros where there is no batch; and where there is one."""
        template = next(batch for batch in batches if batch is not None)
        empty = {name: np.zeros_like(array) for name, array in template.items()}
        rows = [batch or empty for batch in batches]
        stacked = {name: np.stack([batch[name] for batch in rows]) for name in template}
        active = np.array([batch is not None for batch in batches])
        return jax.device_put((stacked, active), self.placed)

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        step, _ = self.program.plain()
        return self._in_place(lambda old, batch: step(old[0], batch))

    @functools.cached_property
    def _evaluate(self) -> Callable[..., Any]:
        _, evaluate = self.program.plain()
        return self._in_place(
            lambda total, given: total.add(evaluate(*given, languages=self.languages))
        )

    @functools.cached_property
    def _put(self) -> Callable[..., TrainState]:
        def put(states: Any, where: Array, state: Any) -> Any:
            def put_leaf(old: Array, new: Array) -> Array:
                return jnp.where(where.reshape(-1, *[1] * new.ndim), new, old)

            return jax.tree.map(put_leaf, states, state)

        return jax.jit(put, donate_argnums=0, out_shardings=self.placed)

    def _in_place(self, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        """function(old, given) -> new, of one model, for each active one; those mapped together are
        passed over where none of them is.
        """
        each = self.slots // jax.local_device_count()
        together = self.together or each
        if self.slots % jax.local_device_count() or each % together:
            raise ValueError(
                f"{self.slots} slots, {together} mapped together, on {jax.local_device_count()} "
                "devices; allowed: a multiple of devices times those together"
            )

        def local(old: Any, given: Any, active: Array) -> Any:
            def part(i: Array, whole: Any) -> Any:
                at = functools.partial(
                    jax.lax.dynamic_slice_in_dim, start_index=i * together, slice_size=together
                )
                mine, on = jax.tree.map(at, (whole, given)), at(active).any()
                new = jax.lax.cond(on, jax.vmap(function), lambda old, _: old, *mine)
                return jax.tree.map(
                    lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, i * together, 0),
                    whole, new,
                )  # fmt: skip

            return jax.lax.fori_loop(0, each // together, part, old)

        spec = self.placed.spec
        spread = jax.shard_map(
            local, mesh=self.placed.mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        return jax.jit(spread, donate_argnums=0)


@jax.jit
def _pick(tree: Any, place: Any) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, place, keepdims=False), tree)
