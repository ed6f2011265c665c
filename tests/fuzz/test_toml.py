"""Broken TOML: rule files and descriptions of corpora, with values of every kind in every place."""

import tempfile
from pathlib import Path

from hypothesis import strategies as st

from mmt.data import corpora
from mmt.data.cleaning import rulebook
from tests.fuzz.strategies import damage, fuzzed

VALUES = [
    "true", "false", "0", "-3", "1.5", "nan", "1e999", '""', '"a.tsv"', '"../a.tsv"', '"no such"',
    "[]", "{}", "[1, 600]", "[1]", "[[]]", "[{}]", '["a.tsv"]', "1979-05-27", "9" * 30,
    '"\\u0000"', "{ words = 5 }", "{ most = 0 }", "{ model = 'x' }", "{ pairs = 'a.tsv' }",
    "{ pairs = 'a.tsv', sample = -1 }", "{ source = 'a.tsv' }", "{ minhash = 7.5 }",
    "{ source = 'a.tsv', target = 'a.tsv', join = 'id' }", "{ mtdata = 'x' }",
    "{ pairs = 'a.tsv', columns = [0, 9] }", "{ pairs = '**' }", "{ characters = [9, 1] }",
]  # fmt: skip
KEYS = [
    "name", "target", "deu", "'Deutsch'", "de.x", "swh", "klingon", "default", "corpus", "language",
    "'a.tsv'", *rulebook.RULES, "unknown", '""',
]  # fmt: skip
TABLES = [
    "", "[clean]", "[clean.language.deu]", "[clean.language.x]", "[clean.corpus.'a.tsv']",
    "[clean.language]", "[[clean]]", "[train]", "[validation]", "[test]", "[[train]]",
    "[clean.langid]", "[clean.length]", "[other]",
]  # fmt: skip
GOOD = '[clean]\ndefault = true\nlength = { words = 5 }\n[train]\ndeu = "a.tsv"\n'


@st.composite
def described(draw) -> bytes:
    text = draw(st.sampled_from(["", GOOD, 'target = "eng"\n']))
    for table in draw(st.lists(st.sampled_from(TABLES), max_size=3, unique=True)):
        text += f"{table}\n"
        for key in draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True)):
            text += f"{key} = {draw(st.sampled_from(VALUES))}\n"
    return draw(damage(text.encode())) if draw(st.booleans()) else text.encode()


@fuzzed(described(), short=60)
def test_broken_rules_and_descriptions_are_named(example):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.tsv").write_text("ein Satz\ta sentence\n")
        file = Path(folder, "corpus.toml")
        file.write_bytes(example)
        try:
            book = rulebook.read(file)
            book.hash(), book.text(), book.settings("deu_Latn", "a.tsv"), book.check(["deu"], [])
        except (ValueError, OSError) as error:
            assert folder in str(error), error
        try:
            corpus = corpora.load(file)
            for language in corpus.languages:
                for split in corpora.SPLITS:
                    assert corpus.count(language, split) >= 0
            corpus.hash()
        except (ValueError, OSError) as error:
            assert folder in str(error) or "mtdata" in str(error), error
