"""Dataclasses that check themselves."""

import dataclasses

import pytest

from eval.checked import Checked


@dataclasses.dataclass(frozen=True)
class Some(Checked):
    """Two fields whose names say what they may be, one whose name does not."""

    load: tuple[float, ...]
    source: str = ""
    height: float = -5.0

    def _check(self) -> None:
        if self.height > 100:
            raise ValueError("too high")


def test_a_name_says_the_range():
    assert Some((0.0, 1.0), "deu_Latn").height == -5
    with pytest.raises(ValueError, match=r"load is 1.5; allowed: 0.0 to 1.0"):
        Some((0.5, 1.5))
    with pytest.raises(ValueError, match="source is 'deu'; expected 'deu_Latn'"):
        Some((0.5,), "deu")


def test_types_come_first_and_what_one_field_does_not_tell_last():
    with pytest.raises(ValueError, match="load is 'much'; expected a list"):
        Some("much", "deu", 200.0)
    with pytest.raises(ValueError, match="expected 'deu_Latn'"):
        Some((), "deu", 200.0)
    with pytest.raises(ValueError, match="too high"):
        Some((), "deu_Latn", 200.0)
