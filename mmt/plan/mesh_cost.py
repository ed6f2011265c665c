"""Estimates a training step on a mesh from shapes alone: products, collectives and memory.

Nothing is traced or compiled, so hundreds of meshes take seconds. The partitioning is that of the
model's constraints: a product over heads, mlp or vocabulary ends in an all-reduce (Megatron),
experts exchange buffers by all-to-all (GShard), parameters that are sharded over the batch's axes
are gathered for use (ZeRO-3). `mmt.plan.mesh_search` ranks meshes by it; docs/planning.md says how
well it agrees with compiled programs.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import PartitionSpec

from mmt.model import moe, routing
from mmt.model.transformer import boxed_shapes
from mmt.plan import parameters
from mmt.plan.collectives import Collective
from mmt.plan.instructions import Products, padding
from mmt.sharding import device_bytes
from mmt.trainer import Trainer

Number = int | float
_FLOAT32_BYTES = 4  # bytes of parameters, gradients, logits and scores
_ELEMENTWISE_RATIO = 3  # what remat = 'none' keeps, per byte of the products' results


@dataclasses.dataclass(frozen=True)
class Product:
    """Equal matrix products [rows depth] x [depth columns] of a device in one forward pass.

    Attributes:
        part: as `instructions.PARTS`.
        count: the number of products in all layers and microbatches.
        batch: matrices per product; 0: one product without a batch axis, which remat = 'minimal'
            keeps.
        rows, depth, columns: sizes on the device.
        size: bytes of an element.
    """

    part: str
    count: int
    batch: int
    rows: Number
    depth: Number
    columns: Number
    size: int

    @property
    def flops(self) -> float:
        """Returns the FLOPs of all these products."""
        return 2.0 * self._times * self.rows * self.depth * self.columns

    @property
    def result(self) -> Number:
        """Returns the bytes of their results."""
        return self._times * self.rows * self.columns * self.size

    def work(self, passes: int) -> Products:
        """Returns the work of `passes` such products: 3 for forward and backward pass.

        The products of the backward pass exchange the roles of the sizes, so bytes and padding are
        means over all roles.
        """
        sizes = self.rows, self.depth, self.columns
        operand_axes = [(0, 1), (1, 2), (2, 0)]
        padding_factor = sum(padding(sizes[i]) * padding(sizes[j]) for i, j in operand_axes) / len(
            operand_axes
        )
        bytes_moved = self._times * self.size * sum(sizes[i] * sizes[j] for i, j in operand_axes)
        flops = passes * self.flops
        bytes_moved = float(passes * bytes_moved)
        return Products(self.part, flops, flops * padding_factor, bytes_moved, passes * self.count)

    @property
    def _times(self) -> int:
        return self.count * max(self.batch, 1)


class Shapes:
    """The shapes of a trainer's state on any mesh, computed once for all meshes.

    Attributes:
        state: as `Trainer.shapes` returns them.
        boxed: of the parameters, with their logical axes.
        choices: experts that a token is sent to.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.state, self.boxed = trainer.shapes(languages=1), boxed_shapes(trainer.model)
        self.choices = parameters.count(trainer.model).choices


class MeshCost:
    """The step of a trainer on the mesh of its layout, which may be abstract."""

    def __init__(self, trainer: Trainer, shapes: Shapes, batch: Sequence[int]) -> None:
        """Prepares the sizes.

        Args:
            trainer: the trainer.
            shapes: of the trainer's model and optimizer.
            batch: rows, and tokens of a row's source and target.

        Raises:
            sharding.NotDivisible: the mesh does not divide the batch or a parameter.
        """
        self.trainer, self.config, self.layout = trainer, trainer.model.config, trainer.layout
        self.rows, self.source, self.target = batch
        for side, length in (("encoder", self.source), ("decoder", self.target)):
            trainer.check_divisible(self.rows, length, side=side)
        self.choices = shapes.choices
        param_shardings = self.layout.parameters(shapes.boxed)
        state = shapes.state
        self.names = jax.tree.leaves(nn.get_partition_spec(shapes.boxed), is_leaf=_is_spec)
        self.params = _with_shardings(state.params, param_shardings)
        state_shardings = self.layout.optimizer_state(
            state.opt_state, state.params, param_shardings
        )
        self.states = _with_shardings(state.opt_state, state_shardings)
        self.size = jnp.dtype(self.config.dtype).itemsize
        self.local_rows = self.rows / trainer.microbatches / self.layout.parts("batch")  # rows

    def products(self) -> list[Product]:
        """Returns the products of a forward pass on one device."""
        c, parts = self.config, self.layout.parts
        products = []
        for stack, depth, length in self._stacks():
            products += self._attention(depth, length, length)
            if stack == "decoder":
                products += self._attention(depth, length, self.source)
            experts = self._expert_layers(stack, depth)
            products += self._mlp(depth - experts, self.local_rows * length, c.mlp_dim)
            if experts:
                products += self._experts(stack, experts, length)
        vocabulary = c.target_vocabulary / parts("vocab")
        products.append(
            self._product("logits and loss", 1, 0, self.local_rows * self.target, c.emb_dim,
                          vocabulary, _FLOAT32_BYTES)
        )  # fmt: skip
        return [product for product in products if product.count]

    def work(self) -> list[Products]:
        """Returns the products of a step: forward, backward, and recomputed ones."""
        return [product.work(3 + self._recomputed(product)) for product in self.products()]

    def collectives(self) -> list[Collective]:
        """Returns the collectives of a step, as `collectives.read` returns those of a program."""
        rows = [*self._activation_collectives(), *self._parameter_collectives()]
        return [row for row in rows if row.group > 1 and row.executed]

    def memory(self) -> dict[str, int]:
        """Returns the bytes of a device, by the names of XLA's memory analysis.

        Temporary memory holds the gradients, the activations that remat saves, and the larger of
        two buffers: the loss, or the results and gradients of one block of layers.
        """
        c, state = self.config, self.parameter_bytes + self.optimizer_bytes
        layer_products = [
            product for product in self.products() if product.part != "logits and loss"
        ]
        block_count = sum(depth for _, depth, _ in self._stacks()) / max(c.moe_period, 1)
        block_inputs = sum(
            depth / max(c.moe_period, 1) * self.local_rows * length * c.emb_dim * self.size
            for _, depth, length in self._stacks()
        )
        results = sum(product.result for product in layer_products) / self.trainer.microbatches
        saved = {
            "full": 0.0,
            "minimal": sum(product.result for product in layer_products if not product.batch)
            / self.trainer.microbatches,
            "dots": results,
            "none": _ELEMENTWISE_RATIO * results,
        }[c.remat]
        loss = 3 * self.local_rows * self.target * c.target_vocabulary / self.layout.parts("vocab")
        largest_buffer = max(loss * _FLOAT32_BYTES, 2 * results / max(block_count, 1))
        temporary: Number = self.parameter_bytes * (2 if self.trainer.microbatches > 1 else 1)
        temporary += block_inputs + saved + largest_buffer
        return {"argument": state, "output": state, "alias": state, "temp": round(temporary),
                "generated_code": 0}  # fmt: skip

    @property
    def parameter_bytes(self) -> int:
        """Returns the bytes of a device's parameters."""
        return sum(map(device_bytes, self.params))

    @property
    def optimizer_bytes(self) -> int:
        """Returns the bytes of a device's optimizer state."""
        return sum(map(device_bytes, self.states))

    def _stacks(self) -> Iterator[tuple[str, int, int]]:
        """Yields name, depth and row length of the encoder and the decoder."""
        yield "encoder", self.config.encoder_layers, self.source
        yield "decoder", self.config.decoder_layers, self.target

    def _expert_layers(self, stack: str, depth: int) -> int:
        return depth // self.config.moe_period if self.config.has_experts(stack) else 0

    def _product(self, part: str, layers: int, batch: Number, rows: Number, depth: Number,
                 columns: Number, size: int = 0) -> Product:  # fmt: skip
        count = layers * self.trainer.microbatches
        return Product(part, count, math.ceil(batch), rows, depth, columns, size or self.size)

    def _attention(self, layers: int, queries: int, keys: int) -> list[Product]:
        """Returns the products of the attention of `layers` layers.

        queries, keys: lengths of the rows; equal in self-attention.
        """
        c, heads = self.config, self.config.num_heads / self.layout.parts("heads")
        inner, rows = heads * c.head_dim, self.local_rows
        sizes = (rows * queries, rows * keys, rows * keys)  # of query, key and value
        products: list[tuple[Number, Number, Number, Number]]
        products = [(0, size, c.emb_dim, inner) for size in sizes]
        products += [
            (rows * heads, queries, c.head_dim, keys), (rows * heads, queries, keys, c.head_dim),
            (0, rows * queries, inner, c.emb_dim),
        ]  # fmt: skip
        return [self._product("attention", layers, *sizes) for sizes in products]

    def _mlp(self, layers: int, tokens: Number, hidden: int) -> list[Product]:
        c, local_hidden = self.config, hidden / self.layout.parts("mlp")
        up = self._product("MLPs and experts", layers, 0, tokens, c.emb_dim, local_hidden)
        down = self._product("MLPs and experts", layers, 0, tokens, local_hidden, c.emb_dim)
        return [*[up] * len(c.mlp_activations), down]

    def _experts(self, stack: str, layers: int, length: int) -> list[Product]:
        """Returns the products of layers with experts: router, experts, combination, shared MLP.

        Mesh axes that shard only heads, mlp and vocabulary do not shard routing.
        """
        c, options, parts = self.config, self.config.moe, self.layout.parts
        count, tokens, capacity, choices = self._groups(length)
        local_tokens = count * tokens / parts("group")
        hidden = (options.mlp_dim or c.mlp_dim) / parts("mlp")
        experts = options.num_experts / parts("expert")
        rows = count * capacity / parts("expert_group")
        up = self._product("MLPs and experts", layers, experts, rows, c.emb_dim, hidden)
        down = self._product("MLPs and experts", layers, experts, rows, hidden, c.emb_dim)
        products = [*[up] * len(c.mlp_activations), down]
        products.append(self._product("routing", layers, local_tokens, 1, choices, c.emb_dim))
        if not c.routing_table(stack):
            products.append(
                self._product("routing", layers, 0, local_tokens, c.emb_dim, options.num_experts,
                              _FLOAT32_BYTES)
            )  # fmt: skip
        if options.shared_mlp_dim:
            products += self._mlp(layers, self.local_rows * length, options.shared_mlp_dim)
        return products

    def _groups(self, length: int) -> tuple[int, int, int, int]:
        """Returns groups of a microbatch, tokens of a group, capacity, choices of a token."""
        options, rows = self.config.moe, self.rows // self.trainer.microbatches
        count = moe.groups(rows, length, size=options.group_size)
        tokens = -(-rows * length // count)
        capacity = routing.capacity(
            tokens, options.num_experts, self.choices, options.capacity_factor
        )
        return count, tokens, capacity, self.choices

    def _recomputed(self, product: Product) -> int:
        """Returns 1 if remat recomputes a product in the backward pass, else 0."""
        is_recomputed = {"full": True, "minimal": bool(product.batch)}.get(self.config.remat, False)
        return int(is_recomputed and product.part != "logits and loss")

    def _activation_collectives(self) -> Iterator[Collective]:
        """Yields the collectives of activations: of layers, embeddings and logits."""
        c, parts, times = self.config, self.layout.parts, self.trainer.microbatches
        is_recomputed = c.remat == "full"
        for stack, depth, length in self._stacks():
            residual = self.local_rows * length * c.emb_dim  # elements of a residual
            experts = self._expert_layers(stack, depth)
            attentions = depth * (2 if stack == "decoder" else 1)
            all_reduces = [("attention", parts("heads"), attentions, residual)]
            all_reduces.append(("MLPs and experts", parts("mlp"), depth - experts, residual))
            if experts:
                count, _, capacity, _ = self._groups(length)
                buffers = c.moe.num_experts * count * capacity * c.emb_dim
                expert_buffers = buffers / parts("expert") / parts("expert_group")
                all_reduces.append(("MLPs and experts", parts("mlp"), experts, expert_buffers))
                yield self._collective(
                    "all-to-all", "routing", parts("expert"),
                    (4 if c.remat == "none" else 6) * experts * times,
                    buffers / parts("group") * self.size,
                )  # fmt: skip
            for part, group, layers, elements in all_reduces:
                executed = (2 + is_recomputed) * layers * times
                yield self._collective("all-reduce", part, group, executed, elements * self.size)
            if stack == "decoder":  # gradients of the source, and of the logits' input
                source = self.local_rows * self.source * c.emb_dim * self.size
                yield self._collective("all-reduce", "attention", parts("heads"), depth * times,
                                       source)  # fmt: skip
                yield self._collective("all-reduce", "logits and loss", parts("vocab"), times,
                                       residual * _FLOAT32_BYTES)  # fmt: skip
            yield self._collective("all-reduce", "embeddings", parts("vocab"), times,
                                   residual * _FLOAT32_BYTES)  # fmt: skip

    def _parameter_collectives(self) -> Iterator[Collective]:
        """Yields the reductions of gradients over the batch's axes, and FSDP's all-gathers."""
        times, mesh = self.trainer.microbatches, self.layout.mesh.shape
        for names, leaf in zip(self.names, self.params, strict=True):
            is_layer = "layers" in names
            batch_axes = self.layout.axes("expert_group" if "expert" in names else "batch")
            embed = [axes for name, axes in zip(names, leaf.sharding.spec, strict=True)
                     if name == "embed"]  # fmt: skip
            gathered_axes = [axis for axes in embed for axis in _axes(axes) if axis in batch_axes]
            group = math.prod(mesh[axis] for axis in gathered_axes)
            remaining_group = math.prod(
                mesh[axis] for axis in batch_axes if axis not in gathered_axes
            )
            size = (
                device_bytes(leaf)
                / leaf.dtype.itemsize
                * (self.size if is_layer else _FLOAT32_BYTES)
            )
            source = "/".join(filter(None, names))
            yield self._collective("all-gather", source, group, 2 * times, size * group)
            yield self._collective("reduce-scatter", source, group, times, size * group)
            yield self._collective("all-reduce", source, remaining_group, times, size)

    def _collective(
        self, kind: str, source: str, group: int, executed: int, size: Number
    ) -> Collective:
        return Collective(kind, round(size), round(size), executed, group, source)


def _with_shardings(shapes: Any, shardings: Any) -> list[jax.ShapeDtypeStruct]:
    leaves = zip(jax.tree.leaves(shapes), jax.tree.leaves(shardings), strict=True)
    return [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding) for leaf, sharding in leaves
    ]


def _axes(axes: Any) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes or ())


def _is_spec(value: Any) -> bool:
    return isinstance(value, PartitionSpec)
