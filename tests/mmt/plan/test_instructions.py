"""Work of instructions, read from hand-made programs and counted in compiled ones."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from mmt.plan import flops, instructions

PROGRAMS = Path(__file__).resolve().parents[3] / "benchmarks/forecast/programs"
# Two trips of a loop: a product in a fusion that slices a stack of weights and updates a stack of
# results, and an addition whose cycles the compiler estimates.
LOOP = """HloModule m, num_partitions=4

%fused (p.0: f32[8,64,256], p.1: f32[4,64], p.2: s32[], p.3: f32[8,4,256]) -> f32[8,4,256] {
  %p.0 = f32[8,64,256]{2,1,0} parameter(0)
  %p.1 = f32[4,64]{1,0} parameter(1)
  %p.2 = s32[] parameter(2)
  %p.3 = f32[8,4,256]{2,1,0} parameter(3)
  %zero = s32[] constant(0)
  %w = f32[1,64,256]{2,1,0} dynamic-slice(%p.0, %p.2, %zero, %zero), dynamic_slice_sizes={1,64,256}
  %wb = f32[64,256]{1,0} bitcast(%w)
  %conv = f32[4,256]{1,0} convolution(%p.1, %wb), dim_labels=bf_io->bf
  %cb = f32[1,4,256]{2,1,0} bitcast(%conv)
  ROOT %new = f32[8,4,256]{2,1,0} dynamic-update-slice(%p.3, %cb, %p.2, %zero, %zero)
}

%cond (t: (s32[], f32[4,64])) -> pred[] {
  %two = s32[] constant(2)
  %t = (s32[], f32[4,64]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  ROOT %lt = pred[] compare(%i, %two), direction=LT
}

%body (t: (s32[], f32[4,64], f32[8,64,256], f32[8,4,256])) -> (s32[], f32[4,64]) {
  %t = (s32[], f32[4,64], f32[8,64,256], f32[8,4,256]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[4,64]{1,0} get-tuple-element(%t), index=1
  %ws = f32[8,64,256]{2,1,0} get-tuple-element(%t), index=2
  %ys = f32[8,4,256]{2,1,0} get-tuple-element(%t), index=3
  %y = f32[8,4,256]{2,1,0} fusion(%ws, %x, %i, %ys), kind=kOutput, calls=%fused, metadata={op_name="jit(_step)/jvp(Transformer)/layers_1/mlp/dot_general"}, backend_config={"estimated_cycles":"77"}
  %s = f32[4,64]{1,0} add(%x, %x), metadata={op_name="jit(_step)/jvp(Transformer)/attention/add"}, backend_config={"estimated_cycles":"500"}
  %n = f32[4,64]{1,0} negate(%s), metadata={op_name="jit(_step)/mul"}, backend_config={"estimated_cycles":"9223372036854775807"}
  ROOT %r = (s32[], f32[4,64]) tuple(%i, %n)
}

ENTRY %main (x: (s32[], f32[4,64])) -> (s32[], f32[4,64]) {
  %x = (s32[], f32[4,64]) parameter(0)
  ROOT %w = (s32[], f32[4,64]) while(%x), condition=%cond, body=%body
}
"""  # noqa: E501


def test_products_count_flops_padding_and_slices():
    profile = instructions.read(LOOP)
    (row,) = profile.products
    assert row.part == "MLPs and experts" and row.executed == 2
    assert row.flops == 2 * (2 * 4 * 64 * 256)
    assert row.padded == 2 * row.flops  # 64 rows in a unit of 128
    moved = 4 * (64 * 256 + 4 * 64 + 1 + 4 * 256)  # a slice of the stack, and one result
    assert row.bytes == 2 * moved


def test_updates_in_a_tuple_are_slices_too():
    text = LOOP.replace(
        "  ROOT %new = f32[8,4,256]{2,1,0} dynamic-update-slice(%p.3, %cb, %p.2, %zero, %zero)",
        "  %new = f32[8,4,256]{2,1,0} dynamic-update-slice(%p.3, %cb, %p.2, %zero, %zero)\n"
        "  ROOT %both = (f32[8,4,256]{2,1,0}, f32[4,256]{1,0}) tuple(%new, %conv)",
    ).replace(
        "%y = f32[8,4,256]{2,1,0} fusion", "%y = (f32[8,4,256]{2,1,0}, f32[4,256]{1,0}) fusion"
    )
    (one,), (two,) = instructions.read(LOOP).products, instructions.read(text).products
    assert two.bytes - one.bytes == 2 * 4 * (4 * 256)


def test_other_instructions_have_the_compilers_cycles():
    """Without an estimate, which is then a huge number, bytes are counted."""
    profile = instructions.read(LOOP)
    assert profile.cycles == {"attention": 2 * 500}
    assert profile.bytes == {"optimizer": 2 * 2 * 4 * 4 * 64}


def convolution(result: str, left: str, right: str, rest: str) -> instructions.Profile:
    return instructions.read(
        f"HloModule m\n\nENTRY %main (a: {left}) -> {result} {{\n  %a = {left} parameter(0)\n"
        f"  %b = {right} parameter(1)\n  ROOT %c = {result} convolution(%a, %b), {rest}\n}}\n"
    )


@pytest.mark.parametrize(
    ("shapes", "rest", "expected"),
    [
        # batched: rows and heads are spatial dimensions of a dilated window
        (("f32[64,16,128,32]", "f32[64,16,128,8]", "f32[64,16,32,8]"),
         "window={size=64x16 stride=63x15 lhs_dilate=64x16}, dim_labels=01bf_01oi->01bf",
         2 * 64 * 16 * 128 * 32 * 8),
        # heads of the result: each meets its own weights only
        (("f32[64,128,16,4]", "f32[64,128,32,1]", "f32[32,4,16]"),
         "window={size=1x16 pad=0_0x15_15 rhs_reversal=0x1}, dim_labels=0bf1_1oi0->0b1f", None),
        # a plain product
        (("f32[4,256]", "f32[4,64]", "f32[64,256]"), "dim_labels=bf_io->bf", 2 * 4 * 64 * 256),
    ],
)  # fmt: skip
def test_products_that_are_written_as_convolutions(shapes, rest, expected):
    result, left, right = shapes
    if expected is None:  # [64 rows, 128 tokens, 32] by [32, 16 heads, 4]
        left, right, expected = "f32[64,128,32,1]", "f32[16,4,32,1]", 2 * 64 * 128 * 16 * 4 * 32
        assert result == "f32[64,128,16,4]"
    (row,) = convolution(result, left, right, rest).products
    assert row.flops == expected


def test_a_compiled_program_for_cpus_counts_what_its_jaxpr_counts():
    def step(x, w):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), x.sum()), x, w)

    x, w = jnp.ones((32, 256)), jnp.ones((5, 256, 256))
    traced = jax.jit(step).trace(x, w)
    profile = instructions.read(traced.lower().compile().as_text())
    assert sum(row.flops for row in profile.products) == flops.count(traced.jaxpr).flops
    assert profile.bytes and not profile.cycles


@pytest.mark.parametrize("name", ["gshard_600b", "gshard_12b", "switch_base_1.25", "t5_base"])
def test_programs_for_tpus_count_what_their_jaxprs_count(name):
    """An independent count: FLOPs of the compiled instructions, and of the traced program."""
    answer = json.loads((PROGRAMS / f"{name}.json").read_text("utf-8"))
    counted = sum(row["flops"] for row in answer["profile"]["products"])
    assert counted == pytest.approx(answer["work"]["flops"] / answer["devices"], rel=0.03)


def test_other_text_is_an_error():
    with pytest.raises(ValueError, match="not the text of a compiled program"):
        instructions.read("module @jit_step {}")
