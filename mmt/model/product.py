"""`product`: the matrix product of every projection, with fast forms for bfloat16 and int8.

XLA's CPU backend computes a bfloat16 product quickly only where its result is float32, where no
operand is a transposed conversion, and where the contracted axis of the left operand is the
innermost one in memory. JAX's own gradient of a product meets none of them.
`benchmarks/train_step.py` measures the effect.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float, Int8

from mmt.system import environment


class Quantized(NamedTuple):
    """A matrix in int8: values * scale. Each output has a scale."""

    values: Int8[Array, "..."]
    scale: Float[Array, "..."]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def T(self) -> "Quantized":
        return Quantized(self.values.T, self.scale.T)

    def reshape(self, *shape: int) -> "Quantized":
        """Returns the kernel as a matrix [in out]."""
        return Quantized(self.values.reshape(*shape), self.scale.reshape(1, -1))


class SeparateExperts(NamedTuple):
    """The kernels of all experts, each an array of its own.

    From one array for all, XLA would copy the part of an expert before each product with it.
    """

    kernels: tuple[Array | Quantized, ...]


Kernel = Array | Quantized
BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}
# Names of results for rematerialisation: its policies see no product with a gradient of its own.
PRODUCT, BATCHED_PRODUCT = "product", "batched_product"


def product(
    x: Float[Array, "*B N in"], kernel: Kernel, dtype: Any = None
) -> Float[Array, "*B N out"]:
    """Returns x @ kernel [*B in out], with results of `dtype`; default: that of `x`.

    It is computed in the precision of `x`, or in a lower one that the kernel is stored in (bfloat16
    or int8, for inference), and accumulated in float32 or int32.

    For bfloat16 `x` on a CPU with bfloat16 instructions, all three products of the step accumulate
    in float32, and a float32 kernel has a float32 gradient. Elsewhere this is `jnp.matmul`.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype or x.dtype)
    if isinstance(kernel, Quantized):
        return _quantized_product(x, kernel).astype(dtype)
    if kernel.dtype == jnp.bfloat16 and x.dtype != jnp.bfloat16:
        return _dot(x.astype(jnp.bfloat16), kernel, -1, -2).astype(dtype)
    if x.dtype == jnp.bfloat16 and _has_fast_form():
        name = PRODUCT if x.ndim == 2 else BATCHED_PRODUCT
        return checkpoint_name(_product(x, kernel, dtype), name)
    return jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=dtype)


def quantize(kernel: Float[Array, "..."], axes: Sequence[int]) -> Quantized:
    """Returns the matrix in int8 with symmetric scales max|w| / 127 over the input `axes`."""
    scale = _scale(kernel, tuple(axes))
    return Quantized(jnp.rint(kernel / scale).astype(jnp.int8), scale)


def _scale(x: Float[Array, "..."], axes: tuple[int, ...]) -> Float[Array, "..."]:
    max_abs = jnp.max(jnp.abs(x), axis=axes, keepdims=True)
    return jnp.where(max_abs > 0, max_abs, 127.0) / 127


def _quantized_product(x: Float[Array, "N in"], kernel: Quantized) -> Float[Array, "N out"]:
    """Returns x @ kernel in int8; rows of `x` are quantized too, each with a scale of its own."""
    rows = quantize(x.astype(jnp.float32), (-1,))
    dimensions = (((1,), (0,)), ((), ()))
    y = jax.lax.dot_general(
        rows.values, kernel.values, dimensions, preferred_element_type=jnp.int32
    )
    return y.astype(jnp.float32) * rows.scale * kernel.scale


def _has_fast_form() -> bool:
    """Returns whether the fast form applies: to unpartitioned arrays on a CPU.

    A layout cannot be partitioned. Inside `jax.shard_map` arrays are unpartitioned.
    """
    mesh = jax.sharding.get_abstract_mesh()
    is_unpartitioned = mesh.size <= 1 or mesh.are_all_axes_manual
    on_cpu = environment.target_platform() == "cpu"
    return on_cpu and is_unpartitioned and has_bfloat16_instructions()


@functools.cache
def has_bfloat16_instructions() -> bool:
    """Returns whether the CPU multiplies bfloat16 numbers: AMX or AVX-512 (x86 on Linux)."""
    cpus = Path("/proc/cpuinfo")
    return cpus.exists() and not BFLOAT16_FLAGS.isdisjoint(cpus.read_text().split())


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(x: Array, kernel: Array, dtype: Any) -> Array:
    return _dot(x, kernel.astype(x.dtype), -1, -2).astype(dtype)


def _forward(x: Array, kernel: Array, dtype: Any) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, kernel, dtype), (x, kernel)


def _backward(dtype: Any, operands: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    x, kernel = operands
    dy = dy.astype(x.dtype)
    dx = _dot(dy, kernel.astype(x.dtype), -1, -1)
    # Also in memory: for a transposed kernel (tied logits) XLA would swap the operands, and fail.
    dkernel = _in_memory(_dot(_in_memory(jnp.swapaxes(x, -1, -2)), dy, -1, -2))
    return dx.astype(x.dtype), dkernel.astype(kernel.dtype)


_product.defvjp(_forward, _backward)


def _dot(x: Array, y: Array, x_axis: int, y_axis: int) -> Array:
    """Contracts one axis of each operand; the axes before the last two are batch axes."""
    batch = tuple(range(x.ndim - 2))
    dimensions = (((x.ndim + x_axis,), (y.ndim + y_axis,)), (batch, batch))
    return jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)


def _in_memory(x: Array) -> Array:
    """Lays out `x` in row-major order. XLA would keep a transpose as a layout."""
    return with_layout_constraint(x, Layout(major_to_minor=tuple(range(x.ndim))))
