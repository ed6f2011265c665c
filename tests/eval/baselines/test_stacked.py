"""The stack: states go in and out unchanged, empty slots cost and change nothing, memory bounds."""

import jax
import numpy as np
import pytest

from eval.baselines import stacked
from eval.baselines.stacked import ModelStack
from tests.helpers.runs import equal_trees


@pytest.mark.slow  # by way of test_side_by_side's first it is tried always
@pytest.mark.parametrize("together", [1, 0])
def test_only_slots_with_a_batch_are_trained(toy_program, toy_batches, together):
    program, batches = toy_program(), toy_batches()
    stack = ModelStack(program, 3, slots=3, together=together)
    states, fresh = stack.empty(), program.init(3)
    for slot in range(3):
        states = stack.put(states, slot, fresh)
    assert all(equal_trees(stack.take(states, slot), fresh) for slot in range(3))
    first, second = next(batches), next(batches)
    states, losses = stack.step(states, [first, None, second])
    alone, loss = program.step(program.init(3), program.place(second))
    assert np.isclose(losses[2], loss, rtol=1e-5) and not np.isclose(losses[0], loss, rtol=1e-5)
    if together:  # those mapped together with others are garbage where they are empty
        assert equal_trees(stack.take(states, 1), fresh)
    taken = stack.take(states, 2)
    assert int(taken.step) == 1
    near = jax.tree.map(lambda x, y: np.allclose(x, y, atol=1e-4), taken.params, alone.params)
    assert jax.tree.all(near)
    states = stack.put(states, 0, alone)
    assert equal_trees(stack.take(states, 0), alone) and equal_trees(stack.take(states, 2), taken)


@pytest.mark.slow
def test_sums_of_held_out_batches(toy_program, toy_batches):
    program, batches = toy_program(), toy_batches()
    stack = ModelStack(program, 3, slots=2, together=1)
    fresh = program.init(3)
    states = stack.put(stack.put(stack.empty(), 0, fresh), 1, fresh)
    held_out = [next(batches), next(batches)]
    total = stack.evaluate(None, states.params, held_out)
    total = stack.evaluate(total, states.params, [held_out[1], None])
    first, second = (
        program.evaluate(fresh.params, program.place(batch), languages=3) for batch in held_out
    )
    for slot, alone in enumerate([first.add(second), second]):
        ours = jax.tree.map(lambda x, slot=slot: x[slot], total)
        assert jax.tree.all(jax.tree.map(lambda x, y: np.allclose(x, y, rtol=1e-5), ours, alone))


def test_as_many_as_memory_holds(toy_program, toy_batches):
    program, batch = toy_program(), next(toy_batches())

    def room(memory: float, together: int) -> int:
        return stacked.room(program, batch, languages=3, memory=memory, together=together)

    leaves = jax.tree.leaves(program.init(3))
    states = sum(leaf.nbytes for leaf in leaves)
    in_turn, mapped = room(0.01, 1), room(0.01, 0)
    assert 1 < mapped < in_turn < 0.01 * 2**30 / states
    assert abs(room(0.02, 0) - 2 * mapped) <= 1
    extra = room(0.02, 1) - in_turn  # activations are counted once, whatever the number of models
    assert abs(extra - 0.01 * 2**30 / states) <= 1
    with pytest.raises(ValueError, match=r"1e-05 GiB; one of them takes 0\.00"):
        room(0.00001, 0)


def test_slots_that_do_not_divide_are_errors(toy_program, toy_batches):
    with pytest.raises(ValueError, match="3 slots, 2 mapped together"):
        stack = ModelStack(toy_program(), 3, slots=3, together=2)
        stack.step(stack.empty(), [next(toy_batches())] * 3)
