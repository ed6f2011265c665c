"""`product`: its fast form equals a float64 product, in values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.model import product as module
from mmt.model.product import product

# [*B N in] and [in out]; batched products are those of experts.
SHAPES = [((24, 8), (8, 5)), ((3, 16, 8), (3, 8, 5)), ((1, 7), (7, 3))]


@pytest.fixture
def fast(monkeypatch):
    """The fast form, also on a CPU without bfloat16 instructions."""
    monkeypatch.setattr(module, "has_bfloat16_instructions", lambda: True)


def arrays(x_shape, kernel_shape, dtype):
    random = np.random.default_rng(0)
    x, kernel = random.normal(size=x_shape), random.normal(size=kernel_shape)
    dy = random.normal(size=(*x_shape[:-1], kernel_shape[-1]))
    # Values of the dtype, so that a float64 product of them is the exact answer.
    return tuple(jnp.asarray(a, dtype) for a in (x, kernel, dy))


def exact(x, kernel, dy):
    """y, dx, dkernel in float64."""
    x, kernel, dy = (np.asarray(a, np.float64) for a in (x, kernel, dy))
    return x @ kernel, dy @ np.swapaxes(kernel, -1, -2), np.swapaxes(x, -1, -2) @ dy


@pytest.mark.parametrize(("x_shape", "kernel_shape"), SHAPES)
def test_products_of_bfloat16_accumulate_in_float32(x_shape, kernel_shape, fast):
    """With float32 results, all three products are exact to float32 rounding."""
    x, kernel, dy = arrays(x_shape, kernel_shape, jnp.bfloat16)
    kernel = kernel.astype(jnp.float32)

    @jax.jit
    def products(x, kernel, dy):
        y, back = jax.vjp(lambda x, kernel: product(x, kernel, jnp.float32), x, kernel)
        return y, *back(dy.astype(jnp.float32))

    y, dx, dkernel = products(x, kernel, dy)
    assert (y.dtype, dx.dtype, dkernel.dtype) == (jnp.float32, jnp.bfloat16, jnp.float32)
    want = exact(x, kernel, dy)
    np.testing.assert_allclose(y, want[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dkernel, want[2], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx.astype(np.float32), want[1], rtol=2**-8, atol=1e-5)


def test_a_transposed_kernel_has_both_gradients(fast):
    """The kernel of tied logits is the transposed table of embeddings."""
    x, kernel, dy = arrays((24, 8), (8, 5), jnp.bfloat16)
    table = kernel.T.astype(jnp.float32)

    @jax.jit
    def gradients(x, table):
        return jax.vjp(lambda x, table: product(x, table.T, jnp.float32), x, table)[1](
            dy.astype(jnp.float32)
        )

    dx, dtable = gradients(x, table)
    _, exact_dx, exact_dkernel = exact(x, kernel, dy)
    np.testing.assert_allclose(np.asarray(dx, np.float64), exact_dx, rtol=2**-8, atol=2**-8)
    np.testing.assert_allclose(dtable, exact_dkernel.T, rtol=1e-5, atol=1e-5)


def test_the_kernel_gradient_is_not_rounded_to_bfloat16(fast):
    """JAX's own gradient of x @ kernel.astype(bfloat16) is a rounded one."""
    x, kernel, dy = arrays((512, 8), (8, 8), jnp.bfloat16)
    kernel = kernel.astype(jnp.float32)

    def gradient(function):
        return jax.jit(jax.grad(lambda k: (function(x, k) * dy).astype(jnp.float32).sum()))(kernel)

    want = exact(x, kernel, dy)[2]
    ours, plain = gradient(product), gradient(lambda x, k: x @ k.astype(x.dtype))
    assert np.abs(ours - want).max() < np.abs(plain - want).max() / 10


def test_float32_is_the_plain_product(fast):
    """The jaxpr of a float32 product is that of `jnp.matmul`."""
    x, kernel, _ = arrays((24, 8), (8, 5), jnp.float32)
    plain = jax.make_jaxpr(lambda x, k: jnp.matmul(x, k, preferred_element_type=jnp.float32))(
        x, kernel
    )
    traced = jax.make_jaxpr(lambda x, k: product(x, k))(x, kernel)
    assert str(traced) == str(plain)


@pytest.mark.parametrize("instructions", [True, False])
def test_the_fast_form_needs_bfloat16_instructions(instructions, monkeypatch):
    monkeypatch.setattr(module, "has_bfloat16_instructions", lambda: instructions)
    x, kernel, _ = arrays((24, 8), (8, 5), jnp.bfloat16)
    traced = str(jax.make_jaxpr(lambda x, kernel: product(x, kernel))(x, kernel))
    assert ("custom_vjp" in traced) is instructions


def test_the_fast_form_is_not_used_on_a_mesh(fast):
    """XLA cannot partition a layout constraint."""
    x, kernel, _ = arrays((24, 8), (8, 5), jnp.bfloat16)
    mesh = jax.sharding.AbstractMesh((2,), ("data",))
    with jax.sharding.use_abstract_mesh(mesh):
        traced = str(jax.make_jaxpr(lambda x, kernel: product(x, kernel))(x, kernel))
    assert "custom_vjp" not in traced


def test_the_fast_form_is_that_of_a_cpu(fast):
    """A program for one TPU may be compiled on a CPU."""
    x, kernel, _ = arrays((24, 8), (8, 5), jnp.bfloat16)
    device = jax.sharding.AbstractDevice("TPU v5 lite", None, "tpu")
    mesh = jax.sharding.AbstractMesh((1,), ("data",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        traced = str(jax.make_jaxpr(lambda x, kernel: product(x, kernel))(x, kernel))
    assert "custom_vjp" not in traced


def test_the_fast_form_is_used_inside_shard_map(fast):
    """There each device has whole arrays. Baselines trained simultaneously are such programs."""
    x, kernel, _ = arrays((24, 8), (8, 5), jnp.bfloat16)
    mesh = jax.sharding.AbstractMesh((2,), ("models",))
    each = jax.sharding.PartitionSpec("models")

    def local(x, kernel):
        return product(x[0], kernel[0])[None]

    spread = jax.shard_map(local, mesh=mesh, in_specs=each, out_specs=each)
    traced = str(jax.make_jaxpr(spread)(jnp.stack([x, x]), jnp.stack([kernel, kernel])))
    assert "custom_vjp" in traced
