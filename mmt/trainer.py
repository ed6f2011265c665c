"""`Trainer`: the compiled functions of one model on one mesh, above all the training step.

It knows neither data, directories nor the training loop: `mmt.train` calls its step.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Float

from mmt import initial, losses, optimizer, sharding
from mmt.metrics import Meters
from mmt.model import balance, moe, stack
from mmt.model.expert_load import expert_load
from mmt.model.transformer import Transformer

Batch = Mapping[str, Any]  # the FEATURES, and the arrays that the loss needs
FEATURES = (
    "encoder_input_tokens", "decoder_input_tokens", "encoder_segment_ids", "decoder_segment_ids",
)  # fmt: skip


def features(model: Transformer, batch: Batch) -> dict[str, Any]:
    """Returns the keyword arguments of the model from a batch."""
    languages = ("decoder_language_ids",) if model.config.languages else ()
    return {name: batch[name] for name in (*FEATURES, *languages)}


@flax.struct.dataclass
class TrainState:
    """The state that a training step changes: arrays, or shapes or shardings of these arrays."""

    step: Any  # int32 []
    params: Any
    opt_state: Any  # the optimizer state of every parameter
    meters: Any  # Meters since the last logged row

    def items(self) -> dict[str, Any]:
        """Returns the items of a checkpoint."""
        progress = {"step": self.step, "meters": self.meters}
        return {"params": self.params, "optimizer": self.opt_state, "progress": progress}


@runtime_checkable
class TeacherModel(Protocol):
    """A trained model that a student learns from, such as `mmt.distill.Teacher`."""

    @property
    def model_dir(self) -> str: ...
    def check(self, model: Transformer, manifest: Any) -> None: ...
    def parameters(self, layout: sharding.Layout) -> Any: ...
    def logits(self, params: Any, batch: Batch) -> Float[Array, "B T V"]: ...


@dataclasses.dataclass(frozen=True)
class Trainer:
    """The compiled functions of one model on one mesh; reusable for runs of the same shapes.

    model: the Transformer.
    optimizer: an optax transformation. It is applied to one layer and one expert at a time, so that
        scanned layers are treated like separate ones (Adafactor's factored moments, parameter scale
        and update clipping). `clip_norm` clips the norm of all gradients together.
    microbatches: the number of parts of a batch whose gradients are summed.
    initial_model_dir: a run whose best parameters a new run starts from.
    initial_rule: selects those parameters; of `mmt.initial`: same (fine-tuning), upcycled, shared.
    teacher: a model whose logits are part of the loss, with weight `objective.teacher`.
    log_every: the steps between training rows. languages_every: see `language_period`.
    """

    model: Transformer
    optimizer: optax.GradientTransformation
    objective: losses.Objective = losses.Objective()
    layout: sharding.Layout = dataclasses.field(default_factory=sharding.Layout)
    clip_norm: float | None = None
    microbatches: int = 1
    initial_model_dir: str = ""
    initial_rule: initial.Rule = initial.same
    teacher: TeacherModel | None = None
    seed: int = 0
    log_every: int = 10
    languages_every: int = 100

    def __post_init__(self) -> None:
        for name in ("log_every", "languages_every"):
            if (steps := getattr(self, name)) < 1:
                raise ValueError(f"train.Trainer.{name} = {steps}; allowed: 1 or more")

    @property
    def language_period(self) -> int:
        """Returns the steps between logged sums by language, which are a part of training rows."""
        return math.lcm(self.log_every, self.languages_every)

    def shapes(self, languages: int) -> TrainState:
        """Returns the shapes of the state with their shardings; allocates nothing."""
        shapes = jax.eval_shape(functools.partial(self._init, languages=languages))
        add_sharding = lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s)  # noqa: E731
        return jax.tree.map(add_sharding, shapes, self.shardings)

    @functools.cached_property
    def shardings(self) -> TrainState:
        """Returns the sharding of every part of the state."""
        boxed = jax.eval_shape(self._init_params, jax.random.key(self.seed))
        params = self.layout.parameters(boxed)
        shapes = jax.eval_shape(functools.partial(self._init, languages=1))
        return TrainState(
            step=self.layout.replicated(),
            params=params,
            opt_state=self.layout.optimizer_state(shapes.opt_state, shapes.params, params),
            meters=jax.tree.map(lambda _: self.layout.replicated(), shapes.meters),
        )

    def init(self, languages: int) -> TrainState:
        """Returns a fresh state, each part created on its devices."""
        init = functools.partial(self._init, languages=languages)
        # It runs once, but compiles slowly on a CPU: 10 s at the default level, 4 s at this one.
        compiler_options = (
            {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
        )
        return self._on_mesh(
            init, out_shardings=self.shardings, compiler_options=compiler_options
        )()

    def start(self, languages: int) -> TrainState:
        """Returns the state of a new run: that of `init`, with the parameters of the initial model.

        The optimizer state is made from these parameters, since some optimizers keep a copy.
        """
        state = self.init(languages)
        if not self.initial_model_dir:
            return state
        fresh, state = state.params, dataclasses.replace(state, params=None, opt_state=None)
        params = initial.parameters(
            self.initial_rule, self.initial_model_dir,
            fresh=fresh, model=self.model, layout=self.layout,
        )  # fmt: skip
        init = functools.partial(optimizer.init, self.optimizer, self._stack_axes)
        opt_state = self._on_mesh(init, out_shardings=self.shardings.opt_state)(params)
        return dataclasses.replace(state, params=params, opt_state=opt_state)

    def place(self, batch: Mapping[str, np.ndarray]) -> dict[str, Array]:
        """Puts the rows of this process on its devices, as part of the global batch.

        Raises ValueError where the mesh cannot divide them.
        """
        parts, local_parts = self._parts
        for side in ("encoder", "decoder"):
            rows, length = batch[f"{side}_input_tokens"].shape
            self.check_divisible(rows * parts // local_parts, length, side=side)
        return {
            name: jax.make_array_from_process_local_data(self.layout.batch(), rows)
            for name, rows in batch.items()
        }

    @functools.cached_property
    def _parts(self) -> tuple[int, int]:
        """The number of shards of a batch, on the mesh and in this process."""
        parts = self.layout.parts("batch")
        return parts, sum(map(len, self.layout.rows(parts)))

    @functools.cached_property
    def step(self) -> Callable[[TrainState, Batch], tuple[TrainState, Float[Array, ""]]]:
        """(state, batch) -> (state, loss per target token); the given state is donated.

        If loss or gradient is not finite, the step is skipped: parameters, optimizer and meters
        stay unchanged, `step` advances, and the loss is NaN.
        """
        function = functools.partial(self._step, shardings=self.shardings)
        step = self._on_mesh(function, donate_argnums=0)
        if self.teacher is None:
            return step
        teacher = self.teacher.parameters(self.layout)
        return lambda state, batch: step(state, batch, teacher)

    def trace(self, languages: int, batch: Batch) -> jax.stages.Traced:
        """Traces the step for the shapes of a global batch, to be compiled ahead of time.

        Needs no devices. Raises ValueError where the batch does not divide over the mesh.
        """
        for side in ("encoder", "decoder"):
            self.check_divisible(*batch[f"{side}_input_tokens"].shape, side=side)
        function = functools.partial(self._step, shardings=self.shardings)
        with self.layout.active():
            return jax.jit(function, donate_argnums=0).trace(self.shapes(languages), batch)

    @functools.cached_property
    def evaluate(self) -> Callable[..., Meters]:
        """(params, batch, languages) -> sums over the batch without dropout, for validation."""
        return self._on_mesh(
            self._evaluate, static_argnames="languages", out_shardings=self.layout.replicated()
        )

    @functools.cached_property
    def expert_load(self) -> Callable[..., dict[str, Array]]:
        """(params, batch, languages) -> `mmt.model.expert_load` of the batch."""

        def load(params: Any, batch: Batch, languages: int) -> dict[str, Array]:
            ids, inputs = batch["decoder_language_ids"], features(self.model, batch)
            return expert_load(self.model, params, inputs, ids, languages=languages)

        return self._on_mesh(
            load, static_argnames="languages", out_shardings=self.layout.replicated()
        )

    def uncompiled(self) -> tuple[Callable[..., Any], Callable[..., Meters]]:
        """Returns `step` and `evaluate` not compiled and without a mesh, for `jax.vmap`."""
        return self._step, self._evaluate

    def step_bytes(self, languages: int, batch: Batch) -> int:
        """Returns the bytes that a step needs besides the state: gradients, saved activations.

        It is computed from shapes; temporary buffers are not counted.
        """

        def saved_for_backward(params: Any, batch: Batch) -> Any:
            def loss(params: Any) -> Any:
                return self._loss(
                    params, batch, jax.random.key(0), tokens=jnp.ones(()), languages=languages
                )

            return params, jax.vjp(loss, params, has_aux=True)[1]

        shapes = jax.eval_shape(saved_for_backward, self.shapes(languages).params, dict(batch))
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))

    def check_divisible(self, rows: int, length: int, *, side: str) -> None:
        """Raises sharding.NotDivisible where rows or routing groups do not divide over the mesh."""
        parts, moe_config = self.layout.parts("batch"), self.model.config.moe
        if rows % (parts * self.microbatches):
            raise sharding.NotDivisible(
                f"a batch of {rows} rows does not divide into {self.microbatches} microbatches "
                f"over {parts} devices of the mesh; BATCH_SIZE must be a multiple of "
                f"{parts * self.microbatches}",
                "batch",
            )
        rows //= self.microbatches
        group_count = moe.groups(rows, length, size=moe_config.group_size)
        group_shards = self.layout.parts("group")
        if self.model.config.moe_period and group_count % group_shards:
            raise sharding.NotDivisible(
                f"the {side}'s {rows} x {length} tokens make groups of at most "
                f"{moe_config.group_size}: {group_count}, which {group_shards} devices of the mesh "
                f"cannot divide; MoeConfig.group_size = {rows * length // group_shards} makes "
                f"{group_shards} groups",
                "group",
            )

    def _on_mesh(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Returns `function` compiled, with the rules of the layout for its logical axes."""
        compiled = jax.jit(function, **options)

        def call(*arguments: Any, **keywords: Any) -> Any:
            with self.layout.active():
                return compiled(*arguments, **keywords)

        return call

    def _init_params(self, key: Array) -> Any:
        tokens = jnp.zeros((1, 8), jnp.int32)
        return self.model.init(key, tokens, tokens)["params"]

    def _init(self, languages: int) -> TrainState:
        params = nn.meta.unbox(self._init_params(jax.random.key(self.seed)))
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=params,
            opt_state=optimizer.init(self.optimizer, self._stack_axes, params),
            meters=self._empty_meters(languages),
        )

    def _empty_meters(self, languages: int) -> Meters:
        names = ["loss", "nll", "accuracy", "target_tokens", "tokens", "steps", "gradient_norm"]
        if self.model.config.moe_period:
            names += moe.measures(self.model.config.moe)
        if self.teacher is not None:
            names.append("teacher_loss")
        if self.objective.guided_alignment:
            names += ["alignment_loss", "aligned_tokens"]
        return Meters(
            {name: jnp.zeros(()) for name in names}, jnp.zeros(languages), jnp.zeros(languages)
        )

    def _step(
        self, state: TrainState, batch: Batch, teacher: Any = None,
        *, shardings: TrainState | None = None,
    ) -> tuple[TrainState, Float[Array, ""]]:  # fmt: skip
        if self.teacher is not None:
            batch = {**batch, "teacher_logits": self.teacher.logits(teacher, batch)}
        tokens = jnp.maximum(batch["decoder_loss_weights"].sum(), 1.0)
        gradients, measured = self._gradients(state, batch, tokens)
        balance_rate = self.model.config.moe.balance_rate if self.model.config.moe_period else 0.0
        if balance_rate:
            gradients, excess_load = balance.split(gradients)
        norm = optax.global_norm(gradients)
        measured.sums.update(gradient_norm=norm, steps=jnp.ones(()))
        if self.clip_norm:
            scale = jnp.minimum(1.0, self.clip_norm / (norm + 1e-9))
            gradients = jax.tree.map(lambda g: g * scale, gradients)
        updates, opt_state = optimizer.update(
            self.optimizer, self._stack_axes,
            gradients=gradients, state=state.opt_state, params=state.params,
        )  # fmt: skip
        if balance_rate:
            updates = balance.update(updates, excess_load, balance_rate)
        meters = state.meters.restarted(
            sums=state.step % self.log_every == 0,
            languages=state.step % self.language_period == 0,
        )
        loss = measured.sums["loss"] / tokens
        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        new_state = TrainState(
            step=state.step + 1,
            params=_select(is_finite, optax.apply_updates(state.params, updates), state.params),
            opt_state=_select(is_finite, opt_state, state.opt_state),
            meters=_select(is_finite, meters.add(measured), meters),
        )
        if shardings is not None:
            new_state = jax.lax.with_sharding_constraint(new_state, shardings)
        return new_state, jnp.where(is_finite, loss, jnp.nan)

    def _gradients(
        self, state: TrainState, batch: Batch, tokens: Float[Array, ""]
    ) -> tuple[Any, Meters]:
        """Returns gradients and sums of the whole batch; microbatches run one after another."""
        key = jax.random.fold_in(jax.random.key(self.seed), state.step)
        gradient = functools.partial(
            jax.grad(self._loss, has_aux=True),
            tokens=tokens, languages=len(state.meters.language_loss),
        )  # fmt: skip
        if self.microbatches == 1:
            return gradient(state.params, batch, key)
        split_batch = jax.tree.map(self._split, dict(batch))
        keys = jax.random.split(key, self.microbatches)

        def add(total: Any, microbatch: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, gradient(state.params, *microbatch)), None

        shapes = jax.eval_shape(
            gradient, state.params, jax.tree.map(lambda x: x[0], split_batch), key
        )
        zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return jax.lax.scan(add, zero, (split_batch, keys))[0]

    def _split(self, rows: Array) -> Array:
        """Reshapes [B, ...] to [microbatches, B / microbatches, ...]; every device keeps its rows.
        """
        return jnp.moveaxis(rows.reshape(-1, self.microbatches, *rows.shape[1:]), 1, 0)

    def _loss(
        self, params: Any, batch: Batch, key: Array, *, tokens: Array, languages: int
    ) -> tuple[Float[Array, ""], Meters]:
        """Returns a microbatch's part of the loss per target token of the batch, and its sums."""
        logits, sown = self.model.apply(
            {"params": params},
            **features(self.model, batch),
            **losses.alignments(self.objective, batch),
            enable_dropout=True,
            rngs={"dropout": key},
            mutable=["intermediates"],
        )
        measured = losses.measure(self.objective, logits, batch, languages=languages)
        total = measured.sums["loss"] / tokens
        if self.objective.guided_alignment:
            nll = stack.alignment_nll(sown["intermediates"], self.objective.guided_layer)
            aligned = (batch["decoder_alignment"] >= 0).sum().astype(float)
            measured.sums.update(alignment_loss=nll.sum(), aligned_tokens=aligned)
            total += self.objective.guided_alignment * nll.sum() / tokens
        if self.model.config.moe_period:
            routing = moe.summarize(sown["intermediates"])
            penalty = self.objective.moe_aux * routing["moe_aux_loss"]
            penalty += self.objective.moe_z * routing["moe_z_loss"]
            if "moe_budget_loss" in routing:
                penalty += self.objective.moe_budget * routing["moe_budget_loss"]
            total += penalty / self.microbatches
            measured.sums.update(jax.tree.map(lambda x: x / self.microbatches, routing))
        return total, measured

    def _evaluate(self, params: Any, batch: Batch, *, languages: int) -> Meters:
        logits: Any = self.model.apply({"params": params}, **features(self.model, batch))
        return losses.measure(self.objective, logits, batch, languages=languages)

    @functools.cached_property
    def _stack_axes(self) -> Any:
        """For every parameter, the number of leading axes that index layers or experts."""
        return optimizer.stack_axes(jax.eval_shape(self._init_params, jax.random.key(0)))


Program = Trainer  # the name in older configs: train.Program


def _select(condition: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), new, old)
