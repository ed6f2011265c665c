"""The parts of HLO text that others build on; whole programs are in test_collectives.py."""

from mmt.plan import hlo

FUSION = ("%f.1 = (f32[2,3]{1,0:T(8,128)}, /*index=1*/bf16[]) fusion(%a.1, /*index=1*/%b), "
          "kind=kLoop, calls=%fused.2").split(" = ")[1]  # fmt: skip


def test_an_instructions_parts():
    shape, rest = hlo.split_shape(FUSION)
    assert shape.startswith("(f32[2,3]") and rest.startswith(" fusion(")
    assert hlo.opcode(FUSION) == "fusion"
    assert hlo.operands(FUSION) == ["a.1", "b"]
    assert hlo.called(FUSION) == ["fused.2"]
    assert hlo.sizes(shape) == [24, 2]
    assert hlo.dimensions(shape) == [2, 3] and hlo.dimensions("f32[]") == []


def test_operands_with_shapes_and_none():
    assert hlo.operands("f32[2]{0} add(f32[2]{0} %x, f32[2]{0} %y)") == ["x", "y"]
    assert hlo.operands("f32[] constant(0)") in ([], ["0"])
