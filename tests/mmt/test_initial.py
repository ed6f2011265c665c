"""Initial weights: exact logits after upcycling, what a student takes, errors that name all."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt import checkpoint, initial, train
from mmt.data.cache.manifest import Manifest
from mmt.model import moe, parameter_names

MANIFEST = Manifest(
    name="toy", target="eng_Latn", languages=("aaa_Latn", "bbb_Latn", "ccc_Latn"), counts={},
    corpus_hash="", vocabulary_hash={"source": "aaaa", "target": "aaaa"},
    vocabulary_size={"source": 20, "target": 20},
)  # fmt: skip


def started(program, model_dir, rule) -> dict:
    """The flat parameters that a new run of `program` starts from."""
    program = dataclasses.replace(program, initial_model_dir=str(model_dir), initial_rule=rule)
    return parameter_names.to_flat(program.start(3).params, program.model.config)


def logits(model, params, batch, **options):
    tokens = [jnp.asarray(batch[f"{stack}coder_input_tokens"]) for stack in ("en", "de")]
    return jax.jit(lambda params: model.apply({"params": params}, *tokens, **options))(params)


def parents(model_dir, program) -> dict:
    params = checkpoint.restore_params(model_dir, program.shapes(3).params)
    return parameter_names.to_flat(params, program.model.config)


def test_the_same_model_starts_from_its_parent_bit_for_bit(tmp_path, toy_program, toy_trained):
    program = toy_program(moe_period=2)
    parent = toy_trained(program, tmp_path / "parent")
    child = started(program, parent, initial.same)
    expected = parents(parent, program)
    assert child.keys() == expected.keys()
    assert all(np.array_equal(child[name], expected[name]) for name in expected)


@pytest.mark.slow
@pytest.mark.parametrize("moe_period", [1, 2])
def test_upcycled_gives_the_dense_models_logits(
    tmp_path, toy_program, toy_trained, toy_batches, moe_period
):
    dense, sparse = toy_program(), toy_program(moe_period=moe_period)
    parent = toy_trained(dense, tmp_path / "parent")
    child = dataclasses.replace(
        sparse, initial_model_dir=str(parent), initial_rule=initial.upcycled
    )
    params = child.start(3).params
    batch = next(toy_batches())
    old = checkpoint.restore_params(parent, dense.shapes(3).params)
    expected = logits(dense.model, old, batch)
    np.testing.assert_allclose(logits(sparse.model, params, batch), expected, atol=1e-5)
    # in training, too, where there is room for all and no second expert is left out at random
    config = dataclasses.replace(
        sparse.model.config, dropout_rate=0.0,
        moe=moe.MoeConfig(num_experts=4, capacity_factor=4.0, router=without_noise),
    )  # fmt: skip
    model = type(sparse.model)(config)
    trained = logits(model, params, batch, enable_dropout=True, rngs={"dropout": jax.random.key(0)})
    np.testing.assert_allclose(trained, expected, atol=1e-5)
    # routers are no copies, and the experts go apart
    routers = [name for name in parameter_names.shapes(sparse.model) if name.endswith("router")]
    assert len(routers) == 4 // moe_period
    after, _ = child.step(child.start(3), child.place(batch))
    weights = parameter_names.to_flat(after.params, sparse.model.config)["encoder/1/mlp/wi_0"]
    assert np.abs(weights[0] - weights[1]).max() > 1e-4


@pytest.mark.slow
def test_upcycling_with_a_shared_mlp_gives_the_dense_models_logits(
    tmp_path, toy_program, toy_trained, toy_batches
):
    """Experts and the shared MLP are copies: whatever the gate is, their mix is the dense MLP."""
    dense = toy_program()
    parent = toy_trained(dense, tmp_path / "parent")
    experts = moe.MoeConfig(4, shared_mlp_dim=32, gate_budget=0.8, balance_rate=0.01)
    config = dataclasses.replace(toy_program(moe_period=2).model.config, moe=experts)
    sparse = dataclasses.replace(
        dense, model=type(dense.model)(config),
        initial_model_dir=str(parent), initial_rule=initial.upcycled,
    )  # fmt: skip
    batch = next(toy_batches())
    old = checkpoint.restore_params(parent, dense.shapes(3).params)
    upcycled = logits(sparse.model, sparse.start(3).params, batch)
    np.testing.assert_allclose(upcycled, logits(dense.model, old, batch), atol=1e-5)


def test_a_shared_mlp_without_a_gate_cannot_be_upcycled(toy_program):
    experts = moe.MoeConfig(4, shared_mlp_dim=32)
    config = dataclasses.replace(toy_program(moe_period=2).model.config, moe=experts)
    dense = parameter_names.shapes(toy_program().model)
    with pytest.raises(ValueError, match="shared_mlp_dim = 32 and no gate.*gate_budget above 0"):
        initial.upcycled(dense, type(toy_program().model)(config))


def without_noise(logits, padding_mask, *, capacity_factor, uniform):
    uniform = 0 * uniform
    return moe.gshard_top2(logits, padding_mask, capacity_factor=capacity_factor, uniform=uniform)


def test_a_student_takes_all_but_the_experts(tmp_path, toy_program, toy_trained, capfd):
    teacher, student = toy_program(moe_period=2), toy_program()
    parent = toy_trained(teacher, tmp_path / "teacher")
    params = started(student, parent, initial.shared)
    assert "fresh: decoder/1/mlp, encoder/1/mlp" in capfd.readouterr().err
    old, fresh = parents(parent, teacher), started_fresh(student)
    for name, value in params.items():
        source = fresh if "/1/mlp/" in name else old
        assert np.array_equal(value, source[name]), name


def started_fresh(program) -> dict:
    return parameter_names.to_flat(program.init(3).params, program.model.config)


def test_a_student_of_another_vocabulary_keeps_its_own_embeddings(
    tmp_path, toy_program, toy_trained
):
    parent = toy_trained(toy_program(moe_period=2), tmp_path / "teacher")
    student = toy_program(vocab_size=32)
    params, fresh = started(student, parent, initial.shared), started_fresh(student)
    for name in ("source_embed/embedding", "logits/kernel"):
        assert np.array_equal(params[name], fresh[name]), name


@pytest.mark.parametrize(
    ("parent", "child", "rule", "words"),
    [
        ({}, {"emb_dim": 32}, initial.same, ["query: (16, 2, 8), in the model (32, 2, 8)"]),
        ({}, {"moe_period": 2, "emb_dim": 32}, initial.upcycled,
         ["encoder/1/mlp/wi_0: (4, 16, 32), in the model (4, 32, 32)", "decoder/norm/scale"]),
        ({}, {"moe_period": 2, "vocab_size": 24}, initial.upcycled,
         ["source_embed/embedding: (20, 16), in the model (24, 16)"]),
        ({}, {}, initial.upcycled, ["a model with experts"]),
        ({"moe_period": 2}, {"moe_period": 2}, initial.upcycled, ["has experts already"]),
        pytest.param(
            {"moe_period": 2}, {"emb_dim": 32}, initial.shared, ["encoder/0/mlp/wo", "query"],
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_model_that_does_not_fit_is_named_before_anything_is_written(
    tmp_path, toy_program, toy_trained, toy_batches, parent, child, rule, words
):
    directory = toy_trained(toy_program(**parent), tmp_path / "parent", steps=1)
    program = dataclasses.replace(
        toy_program(**child), initial_model_dir=str(directory), initial_rule=rule
    )
    with pytest.raises(ValueError, match="as initial model") as error:
        train.train(program, toy_batches(), model_dir=str(tmp_path / "child"), steps=1)
    for word in [str(directory), *words]:
        assert word in str(error.value)
    assert not (tmp_path / "child").exists()


def test_switchs_gate_cannot_be_upcycled(toy_program):
    config = dataclasses.replace(
        toy_program(moe_period=2).model.config, moe=moe.MoeConfig(router=moe.switch_top1)
    )
    dense = parameter_names.shapes(toy_program().model)
    with pytest.raises(ValueError, match=r"switch_top1: a token's gates sum to 0\.\d+ to .*top2"):
        initial.upcycled(dense, type(toy_program().model)(config))


def test_a_table_of_other_languages_is_refused_before_anything_is_written(
    tmp_path, toy_program, toy_trained, toy_batches
):
    """Their number is that of the cache's, and a copied table has the same languages in order."""
    routed = toy_program(moe_period=2, routing="language")
    batches = toy_batches()
    batches.manifest = dataclasses.replace(MANIFEST, languages=("aaa_Latn", "bbb_Latn"))
    with pytest.raises(ValueError, match="languages = 3, but the cache has 2 .*allowed: 2"):
        train.train(routed, batches, model_dir=str(tmp_path / "child"), steps=1)
    parent = toy_trained(routed, tmp_path / "parent", steps=1)
    MANIFEST.write(parent)
    child = dataclasses.replace(routed, initial_model_dir=str(parent))
    batches.manifest = dataclasses.replace(MANIFEST, languages=("aaa_Latn", "ccc_Latn", "zzz_Latn"))
    with pytest.raises(ValueError) as error:
        train.train(child, batches, model_dir=str(tmp_path / "child"), steps=1)
    for words in ("only the cache has zzz_Latn (1)", "only the model bbb_Latn (1)", str(parent)):
        assert words in str(error.value)
    assert not (tmp_path / "child").exists()
    initial.check(child, MANIFEST, tmp_path / "child")


def test_a_directory_without_a_model_is_refused(tmp_path, toy_program):
    with pytest.raises(ValueError, match="no model directory"):
        initial.check_rule(initial.same, tmp_path, toy_program().model)


def test_only_a_new_run_that_takes_embeddings_needs_its_parents_vocabulary(tmp_path):
    def parent_of(parent, rule, run="new"):
        program = types.SimpleNamespace(initial_model_dir=parent, initial_rule=rule)
        return initial.embedding_parent(program, tmp_path / run)

    (tmp_path / "begun/checkpoints/3").mkdir(parents=True)
    for rule in (initial.same, initial.upcycled):
        assert parent_of("parent", rule).directory.name == "parent"
        assert parent_of("parent", rule, "begun") is None and parent_of("", rule) is None
    assert parent_of("parent", initial.shared) is None
