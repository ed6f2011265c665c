"""Routers against plain float64 loops, in decisions, losses and gradients; and against others'."""

import functools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmt import losses
from mmt.model import moe, routing

# Tests compile more than they compute.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
ROUTERS = {"gshard": routing.gshard_top2, "switch": routing.switch_top1}


def route(router, logits, padding_mask, uniform, *, factor):
    """The router's decision as NumPy arrays; compiled, as in training."""
    run = jit(functools.partial(ROUTERS[router], capacity_factor=factor))
    arrays = map(jnp.asarray, (logits, padding_mask))
    return jax.tree.map(np.asarray, run(*arrays, uniform=jnp.asarray(uniform)))


def gshard_in_loops(logits, padding_mask, capacity_factor, uniform):
    """Algorithm 1 of GShard, one token after another, in float64: the combine weights [S E C], and
    how many first choices each expert got. The second loop is the second choices'.
    """
    tokens, experts = logits.shape
    capacity = min(tokens, max(1, math.ceil(2 * tokens * capacity_factor / experts)))
    gates, counter = softmax(logits), [0] * experts
    combine = np.zeros((tokens, experts, capacity))
    for s in range(tokens):
        if padding_mask[s]:
            e1, _, g1, _ = best_two(gates[s])
            if counter[e1] < capacity:
                combine[s, e1, counter[e1]] += g1
            counter[e1] += 1
    first = list(counter)
    for s in range(tokens):
        if padding_mask[s]:
            _, e2, _, g2 = best_two(gates[s])
            if counter[e2] < capacity and 2 * g2 > uniform[s]:
                combine[s, e2, counter[e2]] += g2
            counter[e2] += 1
    return combine, first


def switch_in_loops(logits, padding_mask, capacity_factor, uniform):
    """As above for Switch, section 2.1: the gate is the probability itself."""
    tokens, experts = logits.shape
    capacity = min(tokens, max(1, math.ceil(tokens * capacity_factor / experts)))
    gates, counter = softmax(logits), [0] * experts
    combine = np.zeros((tokens, experts, capacity))
    for s in range(tokens):
        if padding_mask[s]:
            e = int(gates[s].argmax())
            if counter[e] < capacity:
                combine[s, e, counter[e]] = gates[s, e]
            counter[e] += 1
    return combine, counter


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def best_two(gates):
    """The two best experts and their gates, renormalised to sum 1."""
    e1 = int(gates.argmax())
    e2 = int(np.where(np.arange(len(gates)) == e1, -1, gates).argmax())
    g2 = gates[e2] if len(gates) > 1 else 0.0
    return e1, e2, gates[e1] / (gates[e1] + g2), g2 / (gates[e1] + g2)


LOOPS = {"gshard": gshard_in_loops, "switch": switch_in_loops}


def in_loops(router, logits, padding_mask, factor, uniform):
    """Combine weights [G S E C] and the measures of all groups together."""
    logits = np.asarray(logits, np.float64)
    experts, total = logits.shape[-1], max(padding_mask.sum(), 1)
    groups = zip(logits, padding_mask, uniform, strict=True)
    parts = [LOOPS[router](*group, factor, noise) for *group, noise in groups]
    combine = np.stack([combine for combine, _ in parts])
    aux = 0.0
    for g, (_, first) in enumerate(parts):
        if n := padding_mask[g].sum():  # Lingvo: mean(density_1 x proxy) x E^2
            share = softmax(logits[g][padding_mask[g]]).mean(0)
            aux += n / total * np.mean(np.asarray(first) / n * share) * experts**2
    z = np.log(np.exp(logits).sum(-1)) ** 2
    measures = {
        "moe_aux_loss": aux,
        "moe_z_loss": (z * padding_mask).sum() / total,
        "moe_dropped": (padding_mask & ~combine.any((-2, -1))).sum() / total,
    }
    return combine, measures


def dense(r):
    """The combine weights [G S E C] of a `Routing`."""
    places = jax.nn.one_hot(r.expert, r.experts)[..., None]
    slots = jax.nn.one_hot(r.position_in_expert, r.capacity)[..., None, :]
    return jnp.sum(places * slots * (r.gate * r.dispatched)[..., None, None], axis=2)


def example(tokens=24, experts=5, groups=2, *, skew=0.0, padding=0.0, seed=0):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(groups, tokens, experts)) * 1.5
    logits[..., 0] += skew
    padding_mask = random.random((groups, tokens)) >= padding
    uniform = random.random((groups, tokens)).astype(np.float32)
    return logits.astype(np.float32), padding_mask, uniform


def check(router, logits, padding_mask, uniform, factor, *, gradients):
    """Combine weights, measures, and the gradient of a random function of both."""
    want, measures = in_loops(router, logits, padding_mask, factor, uniform)
    mix = np.random.default_rng(1).normal(size=want.shape)

    @jit
    def run(logits):
        def total(logits):
            r = ROUTERS[router](
                logits, jnp.asarray(padding_mask),
                capacity_factor=factor, uniform=jnp.asarray(uniform),
            )
            m, combine = r.measures, dense(r)
            value = jnp.sum(combine * mix) + m["moe_aux_loss"] + 0.1 * m["moe_z_loss"]
            return value, (combine, m)

        return jax.value_and_grad(total, has_aux=True)(logits)

    (_, (combine, measured)), gradient = run(jnp.asarray(logits))
    assert combine.shape == want.shape, "capacity"
    np.testing.assert_allclose(combine, want, rtol=1e-5, atol=1e-6)
    for name, value in measures.items():
        assert float(measured[name]) == pytest.approx(value, rel=1e-5, abs=1e-6), name

    def value(logits):
        combine, m = in_loops(router, logits, padding_mask, factor, uniform)
        return (combine * mix).sum() + m["moe_aux_loss"] + 0.1 * m["moe_z_loss"]

    exact, step = logits.astype(np.float64), 1e-6
    for place in list(np.ndindex(logits.shape))[:gradients]:
        up, down = exact.copy(), exact.copy()
        up[place] += step
        down[place] -= step
        slope = (value(up) - value(down)) / (2 * step)
        assert float(gradient[place]) == pytest.approx(slope, rel=1e-4, abs=1e-5), place


CASES = {
    "plain": ({}, 1.0),
    "little room": ({}, 0.4),
    "all to one expert": ({"skew": 50.0}, 1.0),
    "tokens do not divide": ({"tokens": 23, "experts": 7}, 1.25),
    "one expert": ({"experts": 1}, 0.5),
    "one expert, one token": ({"experts": 1, "tokens": 1, "groups": 1}, 1.0),
    "more experts than tokens": ({"tokens": 3, "experts": 8}, 1.0),
    "padding": ({"padding": 0.4}, 0.8),
    "nothing but padding": ({"padding": 1.0}, 1.0),
}


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("case", CASES)
def test_routing_is_the_papers(router, case):
    options, factor = CASES[case]
    check(router, *example(**options), factor, gradients=60)


@hypothesis.settings(max_examples=12, deadline=None, derandomize=True, database=None)
@hypothesis.given(
    router=st.sampled_from(sorted(ROUTERS)),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(1, 3)),
    factor=st.sampled_from([0.3, 1.0, 1.25, 2.0]),
    padding=st.sampled_from([0.0, 0.3, 0.9]),
    skew=st.sampled_from([0.0, 2.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_routing_is_the_papers_for_any_shape(router, sizes, factor, padding, skew, seed):
    check(router, *example(*sizes, skew=skew, padding=padding, seed=seed), factor, gradients=40)


def test_algorithm_1_by_hand():
    """Two experts, four tokens, half the default capacity: C = 2."""
    gates = np.asarray([[0.6, 0.4], [0.9, 0.1], [0.3, 0.7], [0.8, 0.2]])
    uniform = np.asarray([[0.9, 0.0, 0.5, 0.0]], np.float32)  # the first's second: 2 x 0.4 < 0.9
    padding_mask = np.ones((1, 4), bool)
    got = route("gshard", np.log(gates)[None].astype(np.float32), padding_mask, uniform, factor=0.5)
    assert got.capacity == 2
    np.testing.assert_array_equal(got.expert[0], [[0, 1], [0, 1], [1, 0], [0, 1]])
    # First choices fill 0 before any second one comes; the fourth token finds it full. The first
    # token's second choice is refused at random and still takes the last slot of 1.
    np.testing.assert_array_equal(got.position_in_expert[0], [[0, 1], [1, 2], [0, 3], [2, 3]])
    np.testing.assert_array_equal(
        got.dispatched[0], [[True, False], [True, False], [True, False], [False, False]]
    )
    np.testing.assert_allclose(got.gate[0, 0], [0.6, 0.4], rtol=1e-6)  # not scaled up again
    assert float(got.measures["moe_dropped"]) == 0.25


@pytest.mark.parametrize(
    "router, factor, capacity", [("gshard", 1.0, 16), ("switch", 1.25, 10), ("switch", 2.0, 16)]
)
def test_capacity_follows_the_factor(router, factor, capacity):
    """64 tokens, 8 experts: 2S/E for GShard, S/E x factor for Switch."""
    logits, padding_mask, uniform = example(64, 8, 1)
    assert route(router, logits, padding_mask, uniform, factor=factor).capacity == capacity


def test_the_second_expert_comes_with_twice_its_gate_as_probability():
    gate = 0.2  # of the second; kept in 40 % of cases
    logits = jnp.log(jnp.asarray([1 - gate, gate]))[None, None].repeat(20_000, axis=1)
    padding_mask = jnp.ones(logits.shape[:2], bool)
    uniform = jax.random.uniform(jax.random.key(0), padding_mask.shape)
    dispatched = route("gshard", logits, padding_mask, uniform, factor=2.0).dispatched
    assert dispatched[..., 0].all()
    assert float(dispatched[..., 1].mean()) == pytest.approx(2 * gate, abs=0.015)


@pytest.mark.parametrize("router", ROUTERS)
def test_measures_of_uniform_routing(router):
    """Times its weight the loss is then 0.01, as Lingvo's and Switch's."""
    experts = 4
    logits = 1e-4 * jnp.eye(experts).repeat(8, axis=0)[None]  # each expert first 8 times
    padding_mask = jnp.ones(logits.shape[:2], bool)
    no_noise = np.zeros(padding_mask.shape, np.float32)
    got = route(router, logits, padding_mask, no_noise, factor=1.0).measures
    weight = losses.Objective().moe_aux
    assert weight * float(got["moe_aux_loss"]) == pytest.approx(0.01, rel=1e-3)
    assert float(got["moe_z_loss"]) == pytest.approx(math.log(experts) ** 2, rel=1e-3)
    assert float(got["moe_load_entropy"]) == pytest.approx(1.0)
    assert float(got["moe_dropped"]) == 0.0


@pytest.mark.parametrize("router", ROUTERS)
def test_padding_does_not_count(router):
    logits, padding_mask, uniform = example(groups=1)
    alone = route(router, logits, padding_mask, uniform, factor=5.0)
    padded = [np.concatenate([a, a[:, :9]], axis=1) for a in (logits, padding_mask, uniform)]
    padded[1][:, padding_mask.shape[1] :] = False
    beside = route(router, *padded, factor=5.0)
    for name in moe.MEASURES:
        np.testing.assert_allclose(beside.measures[name], alone.measures[name], rtol=1e-5)
    tokens = alone.dispatched.shape[1]
    assert not beside.dispatched[:, tokens:].any()
    np.testing.assert_array_equal(beside.position_in_expert[:, :tokens], alone.position_in_expert)


@pytest.mark.parametrize("router", ROUTERS)
def test_large_logits_stay_finite(router):
    """exp(-200) is 0 in float32: the second expert is still the second, the losses finite."""
    logits = np.asarray([[[200.0, -50.0, 0.0, -90.0]] * 3], np.float32)
    padding_mask, uniform = np.ones((1, 3), bool), np.zeros((1, 3), np.float32)
    got = route(router, logits, padding_mask, uniform, factor=4.0)
    np.testing.assert_array_equal(got.expert[0, 0], [0, 2][: got.expert.shape[-1]])
    assert float(got.measures["moe_z_loss"]) == pytest.approx(200.0**2)


def test_experts_that_only_a_bias_chooses_have_finite_gates():
    logits = jnp.asarray([[[0.0, -200.0, -200.0]]])  # exp(-200) is 0 in float32
    bias = jnp.asarray([0.0, 2.0, 2.0])

    def gates(logits):
        is_token, uniform = jnp.ones((1, 1), bool), jnp.zeros((1, 1))
        routing_of = routing.gshard_top2(
            logits, is_token, capacity_factor=1.0, uniform=uniform, bias=bias
        )
        return jnp.sum(routing_of.gate), routing_of

    (total, routed), gradient = jax.value_and_grad(gates, has_aux=True)(logits)
    assert routed.expert.ravel().tolist() == [1, 2]
    assert total == 0 and np.isfinite(gradient).all()


def test_rank_refuses_what_would_overflow():
    too_large = jax.ShapeDtypeStruct((1, 2**21), jnp.int32)
    counted = jax.ShapeDtypeStruct((1, 2**21), bool)
    with pytest.raises(ValueError, match="2097152 choices of 2048 experts in one group; allowed"):
        jax.eval_shape(functools.partial(routing.rank, experts=2048), too_large, counted)


@pytest.mark.parity
def test_switch_is_hugging_faces():
    """Decisions, gates, logits and both losses. Their router was wrong from version 5.0 on: no
    token was ever dropped, and the z-loss was of probabilities (issue 48293). It was mended by
    pull request 48421 of August 2026; a version without it fails here.
    """
    torch = pytest.importorskip("torch")
    hf = pytest.importorskip("transformers.models.switch_transformers.modeling_switch_transformers")
    logits, padding_mask, uniform = example(16, 4, 3, skew=1.0)
    config = hf.SwitchTransformersConfig(
        num_experts=4, d_model=4, expert_capacity=5, router_jitter_noise=0.0
    )
    theirs = hf.SwitchTransformersTop1Router(config)
    with torch.no_grad():
        theirs.classifier.weight.copy_(torch.eye(4))
        mask, gate, raw = theirs(torch.tensor(logits))
        aux = hf.load_balancing_loss_func(torch.softmax(raw, -1), raw.argmax(-1))
        z = hf.router_z_loss_func(raw)
    ours = route("switch", logits, np.ones_like(padding_mask), uniform, factor=1.25)  # room for 5
    assert ours.capacity == 5 and not ours.dispatched.all()
    dispatched = np.eye(4)[ours.expert[..., 0]] * ours.dispatched
    np.testing.assert_array_equal(dispatched, mask.numpy())
    np.testing.assert_allclose(ours.gate, gate.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(raw.numpy(), logits)
    assert float(ours.measures["moe_aux_loss"]) == pytest.approx(float(aux), rel=1e-5)
    assert float(ours.measures["moe_z_loss"]) == pytest.approx(float(z), rel=1e-5)


@pytest.mark.parity
def test_gshard_is_nllbs_as_hugging_face_has_it():
    """Top-2, normalised first, all second experts taken, C = 2S/E."""
    torch = pytest.importorskip("torch")
    hf = pytest.importorskip("transformers.models.nllb_moe.modeling_nllb_moe")
    logits, padding_mask, uniform = example(16, 4, 1, skew=1.0)
    config = hf.NllbMoeConfig(
        num_experts=4, d_model=4, expert_capacity=8, second_expert_policy="all",
        normalize_router_prob_before_dropping=True, moe_eval_capacity_token_fraction=-1.0,
    )  # fmt: skip
    theirs = hf.NllbMoeTop2Router(config)
    with torch.no_grad():
        _, weights = theirs.route_tokens(torch.tensor(logits[0]))
    ours = route("gshard", logits, np.ones_like(padding_mask), np.zeros_like(uniform), factor=1.0)
    assert ours.capacity == 8 and not ours.dispatched.all()
    combine = np.asarray(dense(ours))[0].sum(-1)
    np.testing.assert_allclose(combine, weights.numpy(), rtol=1e-5, atol=1e-7)
