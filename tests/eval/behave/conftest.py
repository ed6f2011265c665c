"""Made-up sentences, and a translator that knows the right translation of every case."""

import types

import pytest

from eval.behave import cases, material
from eval.behave.cases import BEHAVIOURS
from mmt.data import cldr
from mmt.data.cache.manifest import Manifest

SENTENCES = (
    ("Der Hund schläft unter dem Tisch.", "The dog sleeps under the table."),
    ("Wir gehen morgen zum Markt.", "Tomorrow we go to the market."),
    ("Meine Schwester liest gern Bücher.", "My sister likes to read books."),
    ("Es regnet seit gestern Abend.", "It has been raining since last night."),
    ("Sie hat 25 Schafe und 7 Ziegen.", "She has 25 sheep and 7 goats."),
    ("Vogel", "bird"),
)


class KnowsAll:
    """Translates lines that it was told; others with `otherwise`. It counts lines."""

    tagged, routes_by_language = True, False

    def __init__(self, materials, codes=(), otherwise=None, most=None, size=4):
        self.manifest = Manifest("toy", "eng_Latn", tuple(codes), {}, "", {}, {})
        self.sources = tuple(codes)
        self.otherwise, self.most, self.lines = otherwise, most, 0
        self.right = {
            line: right
            for made in materials
            for of_behaviour in cases.make(made, size, list(BEHAVIOURS)).values()
            for case in of_behaviour
            for line, right in zip(case.source.split("\n"), case.right.split("\n"), strict=True)
        }

    def translate(self, lines, *, target, decoding, sources):
        for line, source in zip(lines, sources, strict=True):
            assert source.endswith("_Latn") and target == "eng_Latn"
            if self.lines == self.most:
                raise OSError("the machine was switched off")
            self.lines += 1
            text = self.otherwise(line) if self.otherwise else self.right[line]
            yield types.SimpleNamespace(hypotheses=[types.SimpleNamespace(text=text)])


@pytest.fixture(scope="session")
def german():
    pairs = tuple(material.TextPair(*pair) for pair in SENTENCES)
    return material.Material("deu_Latn", "toy and CLDR", pairs, cldr.speaker_of("deu_Latn"))


@pytest.fixture(scope="session")
def finnish():
    return material.Material("fin_Latn", "CLDR", (), cldr.speaker_of("fin_Latn"))


@pytest.fixture(scope="session")
def knows_all():
    return KnowsAll
