"""Balance by a bias in the choice: against loops, and over training steps."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt.model import balance, moe, routing

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
RATE = 0.05


@pytest.mark.parametrize("router, choices", [("gshard_top2", 2), ("switch_top1", 1)])
def test_the_bias_changes_the_choice_and_not_the_gates(router, choices):
    random = np.random.default_rng(0)
    logits, bias = random.normal(size=(2, 9, 5)), random.normal(size=5) * 0.2
    run = jit(functools.partial(getattr(routing, router), capacity_factor=5.0))
    arrays = jnp.asarray(logits, jnp.float32), jnp.ones((2, 9), bool)
    decided = run(*arrays, uniform=jnp.zeros((2, 9)), bias=jnp.asarray(bias, jnp.float32))
    changed = 0
    for group in range(2):
        for token in range(9):
            gates = np.exp(logits[group, token])
            gates /= gates.sum()
            chosen = np.argsort(-(gates + bias))[:choices]
            changed += set(chosen) != set(np.argsort(-gates)[:choices])
            np.testing.assert_array_equal(decided.expert[group, token], chosen)
            want = gates[chosen] / gates[chosen].sum() if choices == 2 else gates[chosen]
            np.testing.assert_allclose(decided.gate[group, token], want, rtol=1e-5)
    assert changed > 3


def test_excess_load_is_the_share_of_choices_above_the_even_share():
    expert = np.random.default_rng(1).integers(0, 4, (3, 5, 2))
    padding_mask = np.random.default_rng(2).random((3, 5)) > 0.3
    count = np.zeros(4)
    for chosen in expert[padding_mask]:
        for number in chosen:
            count[number] += 1
    excess = balance.excess_load(jnp.asarray(expert), jnp.asarray(padding_mask), 4)
    np.testing.assert_allclose(excess, count / count.sum() - 0.25, atol=1e-6)


@pytest.fixture(scope="module")
def balanced(toy_program):
    """The program with biases in place of the balancing loss."""
    program = toy_program(moe_period=2)
    config = program.model.config
    config = dataclasses.replace(config, moe=dataclasses.replace(config.moe, balance_rate=RATE))
    return dataclasses.replace(
        program,
        model=type(program.model)(config),
        objective=dataclasses.replace(program.objective, moe_aux=0.0),
    )


def biases(params):
    return {
        jax.tree_util.keystr(path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        if path[-1].key == balance.NAME
    }


def without_biases(params):
    """The same parameters as a model without biases has them."""
    return {
        name: without_biases(leaf) if isinstance(leaf, dict) else leaf
        for name, leaf in params.items()
        if name != balance.NAME
    }


@pytest.mark.parametrize("microbatches", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_moves_each_bias_by_the_rate_towards_even_load(balanced, toy_batches, microbatches):
    trainer = dataclasses.replace(balanced, microbatches=microbatches)
    state, loss = trainer.step(trainer.start(3), trainer.place(next(toy_batches())))
    assert np.isfinite(loss)
    moved = biases(state.params)
    assert len(moved) == 2  # encoder and decoder
    for leaf in moved.values():
        np.testing.assert_allclose(np.abs(leaf)[leaf != 0], RATE, rtol=1e-5)
        assert (leaf > 0).any() and (leaf < 0).any()


@pytest.mark.slow
def test_the_norm_of_the_gradient_does_not_count_the_load(balanced, toy_program, toy_batches):
    batch = next(toy_batches())
    plain = dataclasses.replace(toy_program(moe_period=2), objective=balanced.objective)
    params = without_biases(balanced.start(3).params)
    without = dataclasses.replace(plain.start(3), params=params)
    norms = []
    for program, state in ((balanced, balanced.start(3)), (plain, without)):
        state, _ = program.step(state, program.place(batch))
        norms.append(float(state.meters.sums["gradient_norm"]))
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_an_expert_that_is_overloaded_loses_its_advantage(balanced, toy_batches):
    """From a start where one expert's bias attracts all tokens, the load becomes even."""
    program = balanced
    state = program.start(3)

    def favour(path, leaf):
        return leaf.at[..., 0].set(1.0) if path[-1].key == balance.NAME else leaf

    state = dataclasses.replace(
        state, params=jax.tree_util.tree_map_with_path(favour, state.params)
    )
    batches = toy_batches()
    entropy = []
    for _ in range(40):
        state, _ = program.step(state, program.place(next(batches)))
        sums = state.meters.sums
        entropy.append(float(sums["moe_load_entropy"] / sums["steps"]))
    assert entropy[0] < 0.2 and entropy[-1] > 0.8


def test_without_a_rate_there_is_no_bias(toy_program):
    program = toy_program(moe_period=2)
    assert biases(program.start(3).params) == {}
    assert moe.measures(program.model.config.moe) == moe.MEASURES
