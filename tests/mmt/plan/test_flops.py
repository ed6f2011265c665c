"""FLOPs counted from jaxprs, against arithmetic."""

import jax
import jax.numpy as jnp
import pytest

from mmt.plan import flops


def work(function, *shapes):
    return flops.count(jax.make_jaxpr(function)(*(jnp.zeros(shape) for shape in shapes)))


def test_a_product_of_batches():
    counted = work(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (3, 4, 5), (3, 5, 7))
    assert counted == flops.Work(2 * 3 * 4 * 5 * 7, 4 * (3 * 4 * 5 + 3 * 5 * 7 + 3 * 4 * 7))


def test_a_scan_counts_as_often_as_it_runs():
    def layers(x, w):
        return jax.lax.scan(lambda x, w: (x @ w, None), x, w)[0]

    assert work(layers, (2, 8), (6, 8, 8)).flops == 6 * 2 * 2 * 8 * 8


def test_recomputation_counts():
    """2 products forward; 3 backward, as x has no gradient; 2 more to repeat the forward."""

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x.sum()

    shapes = [(8, 8), (8, 8)], jnp.zeros((4, 8))
    weights = [jnp.zeros(shape) for shape in shapes[0]]
    product = 2 * 4 * 8 * 8
    plain = flops.count(jax.make_jaxpr(jax.grad(loss))(weights, shapes[1]))
    again = flops.count(jax.make_jaxpr(jax.grad(jax.checkpoint(loss)))(weights, shapes[1]))
    assert plain.flops == 5 * product
    assert again.flops == 7 * product


def test_branches_and_loops_without_a_fixed_end():
    def branch(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ w @ w, lambda: x @ w)

    def loop(x, w):
        return jax.lax.while_loop(lambda x: x[0, 0] > 0, lambda x: x @ w, x)

    assert work(branch, (2, 8), (8, 8)).flops == 2 * work(loop, (2, 8), (8, 8)).flops


def test_inside_what_is_compiled_or_has_its_own_gradient():
    product = jax.custom_vjp(lambda a, b: a @ b)
    product.defvjp(lambda a, b: (a @ b, (a, b)), lambda r, d: (d @ r[1].T, r[0].T @ d))
    assert work(jax.jit(product), (2, 3), (3, 5)).flops == 2 * 2 * 3 * 5


@pytest.mark.parametrize("groups", [2, 4])
def test_a_ragged_product_costs_its_rows(groups):
    sizes = jnp.array([6] + [0] * (groups - 1), jnp.int32)
    jaxpr = jax.make_jaxpr(lambda a, b: jax.lax.ragged_dot(a, b, sizes))(
        jnp.zeros((6, 3)), jnp.zeros((groups, 3, 5))
    )
    assert flops.count(jaxpr).flops == 2 * 6 * 3 * 5
