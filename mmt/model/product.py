"""`product`: the matrix product of every projection, with a fast form for bfloat16 on CPUs.

XLA's CPU backend computes a bfloat16 product quickly only where its result is float32, where no
operand is a transposed conversion, and where the contracted axis of the left operand is the
innermost one in memory. JAX's own gradient of a product meets none of them.
`benchmarks/train_step.py` measures the effect.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}


def product(
    x: Float[Array, "*B N in"], kernel: Float[Array, "*B in out"], dtype: Any = None
) -> Float[Array, "*B N out"]:
    """Returns x @ kernel in the precision of `x`, with results of `dtype`; default: that of `x`.

    For bfloat16 on a CPU with bfloat16 instructions, all three products of the step accumulate in
    float32, and a float32 kernel has a float32 gradient. Elsewhere this is `jnp.matmul`.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype or x.dtype)
    if x.dtype == jnp.bfloat16 and _is_fast_here():
        return _product(x, kernel, dtype)
    return jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=dtype)


def _is_fast_here() -> bool:
    """Returns whether the fast form applies: to the whole arrays of one CPU device.

    A layout cannot be partitioned. Inside `jax.shard_map` nothing is left to partition.
    """
    mesh = jax.sharding.get_abstract_mesh()
    whole = mesh.size <= 1 or mesh.are_all_axes_manual
    return jax.default_backend() == "cpu" and whole and has_bfloat16_instructions()


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
    dkernel = _dot(_in_memory(jnp.swapaxes(x, -1, -2)), dy, -1, -2)
    return dx.astype(x.dtype), dkernel.astype(kernel.dtype)


_product.defvjp(_forward, _backward)


def _dot(x: Array, y: Array, x_axis: int, y_axis: int) -> Array:
    """Contracts one axis of each operand; the axes before the last two are batch axes."""
    batch = tuple(range(x.ndim - 2))
    dimensions = (((x.ndim + x_axis,), (y.ndim + y_axis,)), (batch, batch))
    return jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)


def _in_memory(x: Array) -> Array:
    """Lays out `x` as its shape says. XLA would keep a transpose as a layout."""
    return with_layout_constraint(x, Layout(major_to_minor=tuple(range(x.ndim))))
