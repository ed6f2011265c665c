"""Collectives read from the text of programs: hand-made ones, and a training step for 8 devices."""

import math

import pytest

from mmt import plan
from mmt.plan import collectives

# All-to-all in a loop of 9 in a loop of 2; the outer one's trips are told, as CPU does, the inner
# one's stand in its condition, as on TPU.
NESTED = """HloModule jit_step, is_scheduled=true, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%inner_cond (p: (s32[], bf16[1,8,2]{2,1,0:T(2,128)(2,1)})) -> pred[] {
  %constant.1 = s32[]{:T(128)} constant(9)
  %p = (s32[]{:T(128)}, bf16[1,8,2]{2,1,0:T(2,128)(2,1)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%p), index=0
  ROOT %lt = pred[]{:T(512)} compare(%i, %constant.1), direction=LT, metadata={op_name="while/cond/lt"}
}

%inner_body (p: (s32[], bf16[1,8,2])) -> (s32[], bf16[1,8,2]) {
  %p = (s32[]{:T(128)}, bf16[1,8,2]{2,1,0:T(2,128)(2,1)}) parameter(0)
  %x = bf16[1,8,2]{2,1,0:T(2,128)(2,1)} get-tuple-element(%p), index=1
  %all-to-all.1 = bf16[1,8,2]{2,1,0:T(2,128)(2,1)} all-to-all(%x), channel_id=1, replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}, dimensions={1}, metadata={op_name="jit(step)/mlp/transpose"}
  ROOT %t = (s32[]{:T(128)}, bf16[1,8,2]{2,1,0:T(2,128)(2,1)}) tuple(%x, %all-to-all.1)
}

%outer_cond (p: (s32[], bf16[1,8,2])) -> pred[] {
  %p = (s32[], bf16[1,8,2]) parameter(0)
  ROOT %c = pred[] custom-call(%p), custom_call_target="Opaque"
}

%outer_body (p: (s32[], bf16[1,8,2])) -> (s32[], bf16[1,8,2]) {
  %p = (s32[], bf16[1,8,2]) parameter(0)
  ROOT %while.1 = (s32[], /*index=1*/bf16[1,8,2]) while(%p), condition=%inner_cond, body=%inner_body
}

ENTRY %main (x: (s32[], bf16[1,8,2])) -> (s32[], bf16[1,8,2]) {
  %x = (s32[], bf16[1,8,2]) parameter(0)
  %y = (f32[3,5]{1,0}, /*index=1*/f32[]) all-reduce(%x, %x), replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=%add
  ROOT %while.2 = (s32[], bf16[1,8,2]) while(%x), condition=%outer_cond, body=%outer_body, backend_config={"known_trip_count":{"n":"2"},"known_init_step":{"init":"0","step":"1"}}
}
"""  # noqa: E501


def program(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule m, num_partitions=4\n\nENTRY %main (x: f32[8]) -> f32[8] {{\n{body}\n}}\n"


def test_loops_multiply():
    reduce, exchange = collectives.read(NESTED)
    assert reduce == collectives.Collective("all-reduce", 4 * 16, 60, 1, group=4)
    assert (exchange.kind, exchange.bytes, exchange.executed) == ("all-to-all", 2 * 16, 18)
    assert (exchange.group, exchange.source) == (4, "jit(step)/mlp/transpose")
    assert collectives.summary([reduce, exchange, exchange]) == {
        "all-to-all": {"count": 2, "executed": 36, "bytes": 36 * 32},
        "all-reduce": {"count": 1, "executed": 1, "bytes": 64},
    }


def test_an_asynchronous_pair_is_one():
    exchanges_read = collectives.read(program(
        "%x = f32[8]{0} parameter(0)",
        "%s = (f32[8]{0}, f32[32]{0}) all-gather-start(%x), replica_groups={{0,1,2,3}}",
        "%d = f32[32]{0} all-gather-done(%s)",
        "%ps = (f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(%x), channel_id=1",
        "%pd = f32[8]{0} collective-permute-done(%ps)",
        "%rs = f32[2]{0} all-reduce-start(%x), replica_groups={{0,1},{2,3}}, to_apply=%add",
        "ROOT %rd = f32[2]{0} all-reduce-done(%rs)",
    ))  # fmt: skip
    assert [(exchange.kind, exchange.bytes, exchange.group) for exchange in exchanges_read] == [
        ("all-gather", 128, 4), ("collective-permute", 32, 4), ("all-reduce", 8, 2)
    ]  # fmt: skip


def test_an_exchange_that_another_computation_holds():
    text = program(
        "%x = f32[8]{0} parameter(0)",
        "%s = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(%x), calls=%wrapped",
        "ROOT %d = f32[8]{0} async-done(%s), calls=%wrapped",
    )
    wrapped = (
        "%wrapped (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n"
        "  ROOT %r = f32[2]{0} reduce-scatter(%p), replica_groups={}, to_apply=%add\n}\n\n"
    )
    (exchange,) = collectives.read(text.replace("ENTRY", wrapped + "ENTRY"))
    assert (exchange.kind, exchange.group) == ("reduce-scatter", 4)
    assert exchange.bytes == 32  # that a device gives


def test_a_loop_that_ends_by_what_it_finds_counts_once():
    text = NESTED.replace("known_trip_count", "unknown").replace("direction=LT", "direction=NE")
    assert [exchange.executed for exchange in collectives.read(text)] == [1, 1]


def test_text_that_is_no_program_is_an_error():
    with pytest.raises(ValueError, match="no ENTRY computation"):
        collectives.read("all-to-all(%x)")


# -- our own step

ROWS, LENGTH, WIDTH, HIDDEN, EXPERTS, BLOCKS = 16, 32, 128, 384, 8, 3
SMALL = [
    f"BATCH_SIZE={ROWS}", f"TASK_FEATURE_LENGTHS={{'inputs': {LENGTH}, 'targets': {LENGTH}}}",
    f"transformer.Config.encoder_layers={2 * BLOCKS}", "moe.MoeConfig.group_size=64",
    f"transformer.Config.decoder_layers={2 * BLOCKS}", "VOCAB_SIZE=512",
]  # fmt: skip


def exchanges(*bindings: str, mesh: str = "") -> list[collectives.Collective]:
    files = ["gin_configs/models/tiny_moe.gin", *([f"gin_configs/meshes/{mesh}.gin"] * bool(mesh))]
    planned = plan.plan(files, [*SMALL, *bindings], "cpu:8").exchanges
    assert planned is not None
    return planned


def stage(exchange: collectives.Collective) -> tuple[str, str]:
    """The stack, and forward, recomputed or backward, by where it comes from in the model."""
    stack = "encoder" if "encode" in exchange.source else "decoder"
    if "rematted_computation" in exchange.source:
        return stack, "recomputed"
    return stack, "backward" if "transpose(jvp" in exchange.source else "forward"


@pytest.mark.mesh
@pytest.mark.parametrize("router", ["gshard_top2", "switch_top1"])
def test_tokens_go_out_and_back_once_in_each_pass(router):
    """Dispatch and combine in the forward, the recomputed and the backward pass of both scans; no
    other all-to-all, and each as large as its buffers.
    """
    planned = exchanges("transformer.Config.remat='full'", f"moe.MoeConfig.router=@moe.{router}")
    sent = [exchange for exchange in planned if exchange.kind == "all-to-all"]
    passes = [(s, p) for s in ("decoder", "encoder") for p in ("backward", "forward", "recomputed")]
    assert sorted(map(stage, sent)) == sorted(2 * passes)
    assert {exchange.executed for exchange in sent} == {BLOCKS}
    chosen = 2 if router == "gshard_top2" else 1
    capacity = math.ceil(chosen * 64 / EXPERTS)
    groups = ROWS * LENGTH // 64
    assert {exchange.bytes for exchange in sent} == {groups * EXPERTS * capacity * WIDTH * 4 // 8}
    assert {exchange.group for exchange in sent} == {8}
    assert not [exchange for exchange in planned if exchange.kind == "all-gather"]


@pytest.mark.mesh
@pytest.mark.parametrize("mesh", ["data_model", "expert_data", "expert_data_model"])
def test_nothing_large_is_gathered_where_experts_lie_cut(mesh):
    planned = exchanges("transformer.Config.remat='full'", mesh=mesh)
    assert len([exchange for exchange in planned if exchange.kind == "all-to-all"]) == 12
    tokens, weights = ROWS * LENGTH * WIDTH * 4, EXPERTS * WIDTH * HIDDEN * 4
    gathered = [exchange.largest for exchange in planned if exchange.kind == "all-gather"]
    assert max(gathered, default=0) < min(tokens, weights) / 8


@pytest.mark.mesh
def test_what_is_kept_is_not_exchanged_again():
    planned = exchanges("transformer.Config.remat='none'")
    sent = [stage(exchange) for exchange in planned if exchange.kind == "all-to-all"]
    passes = [(s, p) for s in ("decoder", "encoder") for p in ("backward", "forward")]
    assert sorted(sent) == sorted(2 * passes)
