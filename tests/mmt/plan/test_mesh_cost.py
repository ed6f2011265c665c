"""A step on a mesh from shapes, against sums by hand, the traced program and the compiled one."""

import dataclasses
from collections import defaultdict

import jax
import pytest

from mmt import config, sharding
from mmt.plan import compile, flops, mesh_cost, parameters
from mmt.plan.mesh_search import MeshLayout

FILES = ["gin_configs/models/tiny_moe.gin"]
ROWS, LENGTH, EMBED, HEADS, HEAD, HIDDEN, VOCABULARY, EXPERTS = 16, 32, 64, 4, 16, 128, 512, 8
SIZES = [
    f"BATCH_SIZE={ROWS}", f"TASK_FEATURE_LENGTHS={{'inputs': {LENGTH}, 'targets': {LENGTH}}}",
    f"VOCAB_SIZE={VOCABULARY}", f"transformer.Config.emb_dim={EMBED}",
    f"transformer.Config.num_heads={HEADS}", f"transformer.Config.head_dim={HEAD}",
    f"transformer.Config.mlp_dim={HIDDEN}", "transformer.Config.encoder_layers=2",
    "transformer.Config.decoder_layers=2", "transformer.Config.mlp_activations=('relu',)",
    f"moe.MoeConfig.num_experts={EXPERTS}", "moe.MoeConfig.group_size=64",
    "transformer.Config.remat='full'", "transformer.Config.dtype='bfloat16'",
]  # fmt: skip
EXPERT_AXES = {"batch": ("data", "expert"), "group": ("data", "expert"), "expert": "expert",
               "expert_group": "data"}  # fmt: skip


@pytest.fixture(scope="module")
def tiny():
    """Returns the trainer on one device, its shapes, and the sizes of its batch."""
    made, rows = compile.trainer_of(FILES, SIZES, MeshLayout({"data": 1, "model": 1}, {}).layout())
    return made, mesh_cost.Shapes(made), rows


def cost(tiny, axes, over=None) -> mesh_cost.MeshCost:
    made, shapes, rows = tiny
    layout = MeshLayout(axes, over or {}).layout()
    return mesh_cost.MeshCost(dataclasses.replace(made, layout=layout), shapes, rows)


def received(made: mesh_cost.MeshCost) -> dict[str, int]:
    """Returns the bytes of a step by kind of collective."""
    total: dict[str, int] = defaultdict(int)
    for row in made.collectives():
        total[row.kind] += row.executed * row.bytes
    return dict(total)


@pytest.mark.parametrize("remat", [pytest.param("full", marks=pytest.mark.slow), "minimal"])
def test_flops_are_those_of_the_traced_step(remat):
    """In float32: a CPU's own products in bfloat16 are recomputed as a whole."""
    bindings = [*SIZES, f"transformer.Config.remat='{remat}'", "transformer.Config.dtype='float32'"]
    layout = MeshLayout({"data": 1, "model": 1}, {}).layout()
    made, rows = compile.trainer_of(FILES, bindings, layout)
    estimated = mesh_cost.MeshCost(made, mesh_cost.Shapes(made), rows).work()
    real = dataclasses.replace(made, layout=sharding.Layout())
    traced = flops.count(real.trace(2, compile.batch_shapes(real.layout)).jaxpr)
    assert sum(row.flops for row in estimated) == pytest.approx(traced.flops, rel=0.01)


def test_gshards_collectives_by_hand(tiny):
    """8 experts on 8 devices. Each of 2 stacks has one expert layer, whose buffers go and come back
    forward, recomputed and backward. Gradients of all but experts are summed, those of layers in
    bfloat16.
    """
    tokens = ROWS * LENGTH  # of either side
    capacity = 2 * 64 // EXPERTS  # of groups of 64 tokens, 2 experts for each
    buffers = EXPERTS * (tokens // 64) * capacity * EMBED * 2 // 8  # bytes per device
    attention, mlp = 4 * EMBED * HEADS * HEAD, 2 * EMBED * HIDDEN
    layers = 6 * attention + 2 * mlp + 2 * EMBED * EXPERTS + 2 * 2 * EMBED + 3 * 2 * EMBED
    outside = 2 * VOCABULARY * EMBED + 2 * 32 * HEADS + 2 * EMBED
    assert received(cost(tiny, {"data": 8, "model": 1})) == {
        "all-to-all": 2 * 6 * buffers, "all-reduce": 2 * layers + 4 * outside,
    }  # fmt: skip


def test_megatrons_collectives_by_hand(tiny):
    """All devices on the axis of heads and MLPs: sums of residuals, no gradients, no experts."""
    residual = ROWS * LENGTH * EMBED * 2
    buffers = EXPERTS * (ROWS * LENGTH // 64) * (2 * 64 // EXPERTS) * EMBED * 2
    attentions, dense, experts = 2 + 2 * 2, 2, 2
    sums = 3 * (attentions + dense) * residual + 3 * experts * buffers
    sums += 2 * residual  # gradient of the source in two layers of the decoder
    sums += 3 * 2 * residual  # two embeddings, and the logits' input, in float32
    assert received(cost(tiny, {"data": 1, "model": 4})) == {"all-reduce": sums}


def test_sharded_parameters_are_gathered_and_their_gradients_scattered(tiny):
    whole = received(cost(tiny, {"data": 8, "model": 1}))
    sharded = cost(tiny, {"data": 8, "model": 1}, {"embed": ["data", None]})
    moved = received(sharded)
    assert moved["all-gather"] == 2 * moved["reduce-scatter"]  # forward and backward
    assert moved["reduce-scatter"] + moved["all-reduce"] == whole["all-reduce"]
    assert sharded.parameter_bytes < 0.3 * cost(tiny, {"data": 8, "model": 1}).parameter_bytes


def test_experts_of_an_axis_of_their_own(tiny):
    """Four experts each on two devices: the same buffers, and sums of the experts' gradients."""
    own = cost(tiny, {"data": 4, "expert": 2, "model": 1}, EXPERT_AXES)
    shared = cost(tiny, {"data": 8, "model": 1})
    assert received(own)["all-to-all"] == received(shared)["all-to-all"]
    assert {row.group for row in own.collectives() if row.kind == "all-to-all"} == {2}
    experts = 2 * EXPERTS * 2 * EMBED * HIDDEN  # two layers
    more = received(own)["all-reduce"] - received(shared)["all-reduce"]
    assert more == experts // 2 * 2
    assert own.parameter_bytes - shared.parameter_bytes == 4 * (experts // 2 - experts // 8)


def test_memory_is_the_state_of_the_compiled_arguments(tiny):
    alone = cost(tiny, {"data": 1, "model": 1})
    total = parameters.count(alone.trainer.model).whole.total
    assert alone.parameter_bytes == 4 * total
    assert alone.memory()["argument"] == alone.parameter_bytes + alone.optimizer_bytes
    assert alone.memory()["temp"] > alone.parameter_bytes  # gradients


@pytest.mark.parametrize("axes", [{"data": 32, "model": 1}, {"data": 1, "model": 8}])
def test_what_does_not_divide_is_an_error(tiny, axes):
    with pytest.raises(ValueError, match="divide|divisible"):
        cost(tiny, axes)


@pytest.mark.mesh
def test_collectives_are_those_of_the_compiled_program():
    """A CPU sums bfloat16 in float32, so this is in float32."""
    from mmt import plan

    axes, over = {"data": 8, "model": 1}, {}
    bindings = [*SIZES, "transformer.Config.dtype='float32'", *MeshLayout(axes, over).bindings]
    program = plan.plan([*FILES, compile.MESH], bindings, "cpu:8")
    compiled = {kind: row["bytes"] for kind, row in program.to_json()["collectives"].items()}
    made, rows = compile.trainer_of(FILES, bindings, MeshLayout(axes, over).layout())
    estimated = received(mesh_cost.MeshCost(made, mesh_cost.Shapes(made), rows))
    assert compiled.get("all-to-all", 0) == pytest.approx(estimated.get("all-to-all", 0), rel=0.1)
    assert sum(compiled.values()) == pytest.approx(sum(estimated.values()), rel=0.35)


def test_the_configurations_own_mesh_is_ignored():
    layout = MeshLayout({"data": 1, "model": 1}, {}).layout()
    files = [*FILES, "gin_configs/meshes/expert_data_model.gin"]
    made, rows = compile.trainer_of(files, SIZES, layout)
    assert made.layout is layout and rows == (ROWS, LENGTH, LENGTH)
    assert config.macro("BATCH_SIZE") == ROWS
    assert jax.tree.leaves(made.shapes(1).params)
