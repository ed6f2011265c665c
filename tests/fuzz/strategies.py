"""What the tests of this folder break files with, and how long they do.

The short profile runs with all tests and always the same; `make fuzz` runs the long one, which is
new every time.
"""

import inspect
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# An example that takes longer hangs, on any machine.
PROFILE = settings(deadline=30_000, suppress_health_check=list(HealthCheck), database=None)

NASTY = [
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n\n", b"\t\t\t", b"<", b"]]>", b"&#0;", b"{[",
    b'"', b"\\ud800", b"&x;", b"\x1f\x8b", b"PK\x05\x06", b"PAR1", b"<tu>", b"</tuv>",
    b"\xef\xbb\xbf", b"msgstr[9] ", b"*", b"../", b"9" * 5000, b"a" * 70_000, b"[" * 5000,
    b"\xff\xff\xff\x7f", b"\x00" * 64, b'<!DOCTYPE x [<!ENTITY x "x">]>',
]  # fmt: skip


@st.composite
def damage(draw, content: bytes) -> bytes:
    """Bytes with up to three faults: cut off, flipped, put in, taken out, doubled."""
    for _ in range(draw(st.integers(0, 3))):
        i = draw(st.integers(0, len(content)))
        size = draw(st.sampled_from([1, 2, 8, 100]))
        before, after = content[:i], content[i:]
        new = draw(st.one_of(st.sampled_from(NASTY), st.binary(max_size=9)))
        flipped = bytes(byte ^ 0x15 for byte in after[:1]) + after[1:]
        content = draw(st.sampled_from([
            before, after, before + new + after, before + new + after[size:], before + flipped,
            before + after[size:], before + before[-size:] + after,
        ]))  # fmt: skip
    return content


def fuzzed(strategy: st.SearchStrategy, *, short: int, long: int = 10_000) -> Callable:
    """Decorates `check(example)`: two tests with a number of examples each; the long one is slow.
    """

    def both(check: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize(
            "examples", [short, pytest.param(long, marks=pytest.mark.slow)], ids=["short", "long"]
        )
        def test(examples: int, request: pytest.FixtureRequest) -> None:
            names = [name for name in inspect.signature(check).parameters if name != "example"]
            known = {name: request.getfixturevalue(name) for name in names}
            derandomize = examples == short
            profile = settings(PROFILE, max_examples=examples, derandomize=derandomize)

            @profile
            @given(strategy)
            def run(example) -> None:
                check(example=example, **known)

            run()

        return test

    return both
