"""Types and widths of a dataclass's fields, each kind of annotation that the house uses."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from mmt import fields


@dataclasses.dataclass
class Held:
    whole: int = 1
    real: float = 1.0
    perhaps: float | None = None
    yes: bool = True
    names: tuple[str, ...] = ("a",)
    call: Callable[..., int] = len
    several: Sequence[str] | None = None


def test_what_is_annotated_may_be():
    fields.check(Held())
    fields.check(Held(2**31 - 1, 3, 4, False, (), max))
    fields.check(Held(real=float("nan"), perhaps=0.5, call=int, several=["a"]))
    fields.check(Held(2**31, several=("a", "b")), most=2**40)


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
        fields.check(Held(**wrong))
