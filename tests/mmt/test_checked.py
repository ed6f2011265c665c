"""Types, widths and ranges of a dataclass's fields, each kind of annotation that the house uses."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pytest

from mmt import checked
from mmt.checked import within


@dataclasses.dataclass
class Held:
    whole: int = 1
    real: float = 1.0
    perhaps: float | None = None
    yes: bool = True
    names: tuple[str, ...] = ("a",)
    call: Callable[..., int] = len
    several: Sequence[str] | None = None


def test_values_of_the_annotated_type_are_accepted():
    checked.check(Held())
    checked.check(Held(2**31 - 1, 3, 4, False, (), max))
    checked.check(Held(real=float("nan"), perhaps=0.5, call=int, several=["a"]))
    checked.check(Held(2**31, several=("a", "b")), max_int=2**40)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"whole": 1.0}, "Held.whole = 1.0; allowed: int$"),
        ({"whole": True}, "Held.whole = True; allowed: int$"),
        ({"whole": 2**31}, "Held.whole = 2147483648; allowed: -2147483647 to 2147483647"),
        ({"real": "1"}, "Held.real = '1'; allowed: float$"),
        ({"real": 10**20}, "Held.real = 10+; allowed: -2147483647 to"),
        ({"real": False}, "Held.real = False; allowed: float$"),
        ({"perhaps": "x"}, r"Held.perhaps = 'x'; allowed: float \| None$"),
        ({"yes": 1}, "Held.yes = 1; allowed: bool$"),
        ({"names": ["a"]}, r"Held.names = \['a'\]; allowed: tuple\[str, ...\]$"),
        ({"names": ("a", 1)}, r"Held.names = \('a', 1\); allowed: tuple"),
        ({"names": "a"}, "Held.names = 'a'; allowed: tuple"),
        ({"several": "abc"}, r"Held.several = 'abc'; allowed: list\[str\] \| None$"),
        ({"several": ["a", 1]}, r"Held.several = .*; allowed: list\[str\] \| None$"),
        ({"several": 5}, "Held.several = 5; allowed: list"),
        ({"call": 3}, "Held.call = 3; allowed: a function$"),
    ],
)
def test_another_type_is_an_error_that_names_it(wrong, message):
    with pytest.raises(ValueError, match=message):
        checked.check(Held(**wrong))


@dataclasses.dataclass
class Ranged:
    share: float | tuple[float | None, ...] | Mapping[str, float] | None = dataclasses.field(
        default=0, metadata=within(0, 1)
    )
    rate: float = dataclasses.field(default=0.0, metadata=within(0, 1, below=True))
    scale: float = dataclasses.field(default=1.0, metadata=within(0, above=True, below=True))
    steps: float | None = dataclasses.field(default=1, metadata=within(1, checked.HUGE))
    rounded: float = dataclasses.field(default=0.0, metadata=within(0, 1, slack=1e-6))


def test_ranges_hold_for_a_number_a_tuple_and_a_mapping():
    for value in (0.5, (0.5, None), {"x": 1.0}, None):
        checked.check(Ranged(share=value))
    for value in (2, (0.5, -1.0), {"x": float("inf")}, float("nan"), 10**400):
        with pytest.raises(ValueError, match="share is .*; allowed: 0 to 1, or null$"):
            checked.check(Ranged(share=value), max_int=None, words=checked.JSON)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"share": 1.5}, "Ranged.share = 1.5; allowed: 0 to 1, or None$"),
        ({"rate": 1}, "Ranged.rate = 1; allowed: 0 <= x < 1$"),
        ({"rate": -0.5}, "Ranged.rate = -0.5; allowed: 0 <= x < 1$"),
        ({"scale": 0}, "Ranged.scale = 0; allowed: above 0$"),
        ({"scale": float("inf")}, "Ranged.scale = inf; allowed: above 0$"),
        ({"steps": 0}, "Ranged.steps = 0; allowed: 1 or more, or None$"),
        ({"steps": float("inf")}, r"Ranged.steps = inf; allowed: 1 to 1e\+18, or None$"),
        ({"steps": 1.5e300}, r"allowed: 1 to 1e\+18"),
        ({"rounded": 1.01}, "Ranged.rounded = 1.01; allowed: 0 to 1$"),
    ],
)
def test_a_number_beyond_its_range_is_an_error_that_says_what_is_allowed(wrong, message):
    with pytest.raises(ValueError, match=message):
        checked.check(Ranged(**wrong))


def test_rounding_may_lead_a_little_beyond_a_range_with_slack():
    checked.check(Ranged(rounded=1 + 1e-9))


def test_errors_of_rows_use_the_types_of_json():
    with pytest.raises(
        ValueError, match=r"^names is \['a'\]; expected a list \(in Python a tuple\)"
    ):
        checked.check(Held(names=["a"]), words=checked.JSON)
    with pytest.raises(ValueError, match="^perhaps is 'x'; expected a number or null$"):
        checked.check(Held(perhaps="x"), words=checked.JSON)


def test_one_of_names_the_nearest():
    checked.one_of(Held(), "names", "b", ("b", "c"))
    with pytest.raises(
        ValueError, match="^Held.names: 'float31'; allowed: a, float32; nearest: fl"
    ):
        checked.one_of(Held(), "names", "float31", ("a", "float32"))


def test_the_first_setting_that_differs_is_named():
    saved = {"seed": 0, "stages": [{"until": {"steps": 5}}]}
    checked.same(saved, dict(saved), "the state", first="stages")
    other = {"seed": 7, "stages": [{"until": {"steps": 9}}]}
    with pytest.raises(ValueError, match="the state has stages.0..until.steps 5, this run has 9"):
        checked.same(saved, other, "the state", first="stages")
    with pytest.raises(ValueError, match="the state has seed 0, this run has None: continue with"):
        checked.same(saved, {"stages": saved["stages"]}, "the state", first="stages")
