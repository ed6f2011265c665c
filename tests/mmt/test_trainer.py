"""The training step: microbatches; what all layouts give alike stands in test_layouts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest

from mmt import losses, sharding, train
from mmt.model import moe, stack
from mmt.run import read_metrics
from mmt.trainer import FEATURES, Trainer


def by_language(logits, padding_mask, **options):
    """Switch's router, and room for all tokens."""
    return moe.switch_top1(logits, padding_mask, **options | {"capacity_factor": 4.0})


@pytest.mark.parametrize("routing", ["dense", pytest.param("language", marks=pytest.mark.slow)])
def test_microbatches_sum_to_the_same_gradient(toy_program, toy_batches, routing):
    """Without dropout a batch cut in 4 gives the same parameters up to rounding."""
    batch = next(toy_batches())
    batch["decoder_loss_weights"][3:, 2:] = 0.0  # parts of unequal token counts
    after = []
    program = toy_program() if routing == "dense" else toy_program(moe_period=2, routing=routing)
    quiet = dataclasses.replace(
        program.model.config, dropout_rate=0.0, moe=moe.MoeConfig(4, router=by_language)
    )
    for microbatches in (1, 4):
        program = Trainer(
            type(program.model)(quiet), optax.sgd(1.0), microbatches=microbatches,
            objective=losses.Objective(moe_aux=0.0),  # it is a mean over the tokens of a part
        )  # fmt: skip
        state, _ = program.step(program.init(3), program.place(batch))
        after.append(state)
    for other in after[1:]:
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, atol=2e-6),
            after[0].params, other.params,
        )  # fmt: skip
        assert after[0].meters.sums["target_tokens"] == other.meters.sums["target_tokens"]


def test_a_model_that_routes_by_language_learns_and_depends_on_the_language(
    toy_program, toy_batches
):
    program, batches, losses_of_steps = toy_program(moe_period=2, routing="language"), [], []
    batches = toy_batches()
    state = program.start(3)
    before = jax.tree.map(np.array, state.params)
    for _ in range(30):
        state, loss = program.step(state, program.place(next(batches)))
        losses_of_steps.append(float(loss))
    assert np.mean(losses_of_steps[-5:]) < np.mean(losses_of_steps[:5]) - 0.2
    for side in ("encoder", "decoder"):
        tables = [params[side]["blocks"]["layers_1"]["mlp"]["router"]
                  for params in (before, state.params)]  # fmt: skip
        assert tables[0].shape == (1, 3, 4) and np.abs(tables[0] - tables[1]).max() > 1e-3
    batch = next(batches)
    other = {**batch, "decoder_language_ids": (batch["decoder_language_ids"] + 1) % 3}
    sums = [program.evaluate(state.params, program.place(b), languages=3).sums["loss"]
            for b in (batch, other)]  # fmt: skip
    assert abs(float(sums[0]) - float(sums[1])) > 1e-2


def test_an_optimizer_that_keeps_a_copy_of_the_parameters_goes_on_from_the_initial_model(
    tmp_path, toy_program, toy_trained, toy_batches
):
    parent = toy_trained(toy_program(), tmp_path / "parent", steps=1)
    child = Trainer(
        toy_program().model, optax.contrib.schedule_free_adamw(1e-7), initial_model_dir=str(parent)
    )
    state = child.start(3)
    before = jax.tree.map(np.array, state.params)
    after, _ = child.step(state, child.place(next(toy_batches())))
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), before, after.params
    )  # fmt: skip
    plain = dataclasses.replace(child, optimizer=toy_program().optimizer)
    states = plain.start(3).opt_state, plain.init(3).opt_state
    jax.tree.map(np.testing.assert_array_equal, *states)
    assert jax.tree.map(lambda x: x.sharding, states[0]) == plain.shardings.opt_state


@pytest.mark.parametrize("name", ["log_every", "languages_every"])
def test_a_period_of_no_steps_is_an_error(toy_program, name):
    with pytest.raises(ValueError, match=f"Trainer.{name} = 0; allowed: 1 or more"):
        toy_program(**{name: 0})


def test_a_batch_that_cannot_be_cut_names_the_numbers(toy_program, toy_batches):
    program = toy_program(microbatches=3)
    with pytest.raises(ValueError, match="8 rows .* into 3 microbatches .* multiple of 3"):
        program.step(program.init(3), program.place(next(toy_batches())))


def test_groups_that_a_mesh_cannot_cut_name_the_size_that_can(toy_program):
    mesh = jax.sharding.AbstractMesh((8, 1), ("data", "model"))
    model = toy_program(moe_period=2).model
    program = Trainer(model, optax.sgd(1.0), layout=sharding.Layout(mesh))
    with pytest.raises(ValueError, match="16 x 6 tokens .* 1024: 1, which 8 .*group_size = 12 "):
        program.check_divisible(16, 6, side="encoder")
    with pytest.raises(ValueError, match="12 rows .* over 8 devices .* multiple of 8"):
        program.check_divisible(12, 6, side="encoder")
    program.check_divisible(128, 64, side="encoder")


@pytest.fixture(scope="module")
def aligned_batches(toy_batches):
    """The toy batches with their true alignments: targets are sources reversed."""

    class Aligned(toy_batches):
        def __next__(self):
            batch = super().__next__()
            aligned = np.full_like(batch["decoder_target_tokens"], -1)
            aligned[:, :-1] = np.arange(self.length)[::-1]
            return batch | {"decoder_alignment": aligned}

    return Aligned


@pytest.mark.slow
def test_guided_attention_is_learnt_fast(tmp_path, toy_program, toy_batches, aligned_batches):
    """The true alignments halve the alignment loss, and the model learns its task earlier."""
    rows = {}
    for weight, batches in ((0.0, toy_batches()), (1.0, aligned_batches())):
        program = toy_program(objective=losses.Objective(guided_alignment=weight))
        train.train(program, batches, model_dir=str(tmp_path / str(weight)), steps=120)
        rows[weight] = read_metrics(tmp_path / str(weight) / "metrics.jsonl")
    assert not any("align" in name for row in rows[0.0] for name in row)
    first, last = rows[1.0][0], rows[1.0][-1]
    assert first["alignment_loss"] == pytest.approx(np.log(6), abs=0.3)  # six tokens, evenly
    assert last["alignment_loss"] < 0.6 * first["alignment_loss"]
    assert last["nll"] < rows[0.0][-1]["nll"] - 0.2


def test_the_guided_loss_is_per_target_token_of_the_batch(toy_program, aligned_batches):
    """A step of SGD without dropout, in two microbatches of unequal alignments."""
    batch = next(aligned_batches())
    batch["decoder_alignment"][3:, 2:] = -1
    arrays = {name: jnp.asarray(batch[name]) for name in (*FEATURES, "decoder_alignment")}
    plain = toy_program().model
    model = type(plain)(type(plain.config)(**{**vars(plain.config), "dropout_rate": 0.0}))
    objective = losses.Objective(guided_alignment=0.7, guided_layer=0, label_smoothing=0.0)
    program = Trainer(model, optax.sgd(1.0), objective=objective, microbatches=2)
    before = jax.device_get(program.init(3).params)

    def loss(params):
        logits, sown = model.apply({"params": params}, **arrays, mutable=["intermediates"])
        nll = -jnp.take_along_axis(
            jax.nn.log_softmax(logits), batch["decoder_target_tokens"][..., None], axis=-1
        )
        return (nll.sum() + 0.7 * stack.alignment_nll(sown["intermediates"], 0).sum()) / (8 * 7)

    expected = jax.tree.map(jnp.subtract, before, jax.grad(loss)(before))
    state, _ = program.step(program.init(3), program.place(batch))
    assert float(state.meters.sums["aligned_tokens"]) == 3 * 6 + 5 * 2
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, atol=2e-6), state.params, expected
    )  # fmt: skip


def test_guidance_without_alignments_names_the_remedy(toy_program, toy_batches):
    program = toy_program(objective=losses.Objective(guided_alignment=0.1))
    batch = program.place(next(toy_batches()))
    message = "guided_alignment = 0.1 needs .* `mmt data align`, and set pipeline.train_batches.al"
    with pytest.raises(ValueError, match=message):
        program.step(program.shapes(3), batch)
    with pytest.raises(ValueError, match="guided_alignment = -1.0; allowed: 0 or more"):
        losses.Objective(guided_alignment=-1.0)
