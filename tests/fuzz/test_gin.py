"""Broken gin files and overrides: the error is a ValueError that names one of them."""

import tempfile
from pathlib import Path

from hypothesis import strategies as st

from mmt import config
from mmt.data import recipe
from mmt.data.cleaning import prepare
from mmt.decoding import Decoding
from tests.fuzz.strategies import damage, fuzzed

FILE = b"""from __gin__ import dynamic_registration
from mmt.data import recipe
from mmt import decoding
CORPUS = 'cldr'
STEPS = 100
SIZES = {'inputs': 64, 'targets': 64}
recipe.CacheConfig:
  directory = '/nowhere'
  mixture = 'cldr_to_eng'
  corpus = %CORPUS
  vocab_size = %STEPS
decoding.Decoding.beam = 4
decoding.Decoding.alpha = 0.8
"""
LINES = [
    "CORPUS = %CORPUS", "A = %B\nB = %A", "STEPS = %gin.REQUIRED", "include 'no/such.gin'",
    "include 'here.gin'", "import no_such_module", "from mmt import nothing", "MODEL = @Model()",
    "recipe.CacheConfig.no_such = 1", "recipe.CacheConfig.mixture = @recipe.CacheConfig()",
    "x = [", "x = (1,",
    "a/b/recipe.CacheConfig.corpus = 'x'", "recipe.CacheConfig.corpus = @a/b/c",
    "STEPS = 1e999", "STEPS: 1",
    "recipe.CacheConfig.corpus = %recipe.CacheConfig.corpus", "STEPS = '''", "STEPS = {1: }",
    "\tSTEPS = 1",
    "STEPS = " + "[" * 300, "STEPS = 0x", "STEPS = \\", "%", "@", "=",
]  # fmt: skip
BINDINGS = [
    "STEPS=3", "STEPS", "=", "STEP=3", "STEPS=%STEPS", "STEPS=@x()", "CORPUS=a b", "CORPUS='",
    "recipe.CacheConfig.corpus=x", "recipe.CacheConfig.corps=x", "CacheConfig.corpus=x", "x/y.z=1",
    "STEPS=[",
    "STEPS=1\nB=2", "STEPS=\x00", "CORPUS=ä\u2028", ".=1", "a.=1", "Decoding.beam=2",
    "Decoding.beam=" + "9" * 5000, "Decoding.beam=" + "[" * 300, "prepare.processes=2",
    "decoding.Decoding.beam='two'", "SIZES={'inputs': %STEPS}", "import os=1", "STEPS=None",
]  # fmt: skip


@st.composite
def bindings(draw) -> list[str]:
    drawn = draw(st.lists(st.sampled_from(BINDINGS), max_size=2))
    if draw(st.integers(0, 2)) == 0:
        drawn.append(draw(damage(b"STEPS=[1, 2]")).decode(errors="replace"))
    return drawn


@st.composite
def configured(draw) -> tuple[bytes, list[str]]:
    text = FILE
    for line in draw(st.lists(st.sampled_from(LINES), max_size=2)):
        text += line.encode() + b"\n"
    return draw(damage(text)) if draw(st.booleans()) else text, draw(bindings())


@fuzzed(configured(), short=150)
def test_a_broken_gin_file_loads_or_is_an_error(example):
    content, given = example
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "here.gin")
        file.write_bytes(content)
        try:
            config.load([file], given)
            config.macro("STEPS")
            config.complete()
        except ValueError as error:
            message = str(error)
            assert "here.gin" in message or "--gin." in message or "macro" in message, message
        try:
            config.bind(given, [prepare.prepare, Decoding, recipe.CacheConfig])
        except ValueError as error:
            assert "--gin." in str(error)
