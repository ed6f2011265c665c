"""The table of chips: figures that follow from each other, and from published totals."""

import pytest

from mmt.plan.chips import CHIPS


@pytest.mark.parametrize("kind", CHIPS)
def test_shares_are_shares(kind):
    chip = CHIPS[kind]
    for share in (chip.product_share, chip.memory_share, chip.link_share):
        assert 0 < share <= 1
    assert chip.watts is None or 100 < chip.watts < 1000


@pytest.mark.parametrize(("kind", "units"), [("v3", 2), ("v4", 8), ("v5e", 4)])
def test_peaks_follow_from_clocks_and_matrix_units(kind, units):
    """A unit of 128 x 128 multiplies and adds once per cycle; a v3 core has two."""
    chip = CHIPS[kind]
    assert chip.flops == pytest.approx(units * 2 * 128 * 128 * chip.clock, rel=0.01)
