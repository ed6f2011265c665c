"""Rules in TOML: the cascade, and every fault a user can make in it."""

import tomllib

import pytest

from mmt.data import corpora
from mmt.data.cleaning import rulebook

GOOD = """
[clean]
length = { characters = [1, 600], words = 150 }
numbers = true
[clean.language.Chinese]
length = { words = 50 }
[clean.corpus.europarl]
numbers = false
ratio = { deviations = 3 }
"""


@pytest.fixture
def rules(tmp_path):
    """A function that writes a rules file and reads it."""

    def read(text):
        (tmp_path / "rules.toml").write_text(text, "utf-8")
        return rulebook.read(tmp_path / "rules.toml")

    return read


def test_language_goes_over_all_and_corpus_over_both(rules):
    book = rules(GOOD)
    assert book.settings("deu_Latn", "news") == {
        "length": {"characters": (1, 600), "words": 150}, "numbers": {}, "overlap": {},
    }  # fmt: skip
    assert book.settings("zho_Hans", "europarl") == {
        "length": {"characters": (1, 600), "words": 50},
        "ratio": {"deviations": 3.0},
        "overlap": {},
    }
    assert list(book.settings("zho_Hans", "news")) == ["length", "numbers", "overlap"]


def test_a_glob_s_name_is_that_of_all_its_files(rules):
    book = rules('[clean]\n[clean.corpus."news/a.tmx"]\nnumbers = false\n'
                 "[clean.corpus.news]\nnumbers = true\nurls = true")  # fmt: skip
    assert set(book.settings("deu_Latn", "news/b.tmx")) == {"numbers", "urls", "overlap"}
    assert set(book.settings("deu_Latn", "news/a.tmx")) == {"urls", "overlap"}
    assert set(book.settings("deu_Latn", "newspaper")) == {"overlap"}
    assert not book.check([], ["news/a.tmx"]) and len(book.check([], ["news/b.tmx"])) == 1


def test_off_and_on_again_resets_a_rule(rules):
    book = rules("[clean]\nlength = { words = 9 }\n[clean.language.de]\nlength = false\n"
                 "[clean.corpus.a]\nlength = true")  # fmt: skip
    assert "length" not in book.settings("deu_Latn", "b")
    assert book.settings("deu_Latn", "a")["length"] == {}


def test_overlap_is_on_unless_it_is_turned_off(rules):
    assert "overlap" in rules("[clean]").settings("deu_Latn", "a")
    assert "overlap" not in rules("[clean]\noverlap = false").settings("deu_Latn", "a")


def test_a_rulebook_can_extend_the_default_rules(rules):
    book = rules("[clean]\ndefault = true\nnumbers = false\n[clean.language.de]\nlangid = true")
    every = set(rulebook.RULES)
    assert set(book.settings("fra_Latn", "a")) == every - {"numbers", "langid"}
    assert set(book.settings("deu_Latn", "a")) == every - {"numbers"}
    assert set(rulebook.DEFAULT.settings("deu_Latn", "a")) == every - {"langid"}


@pytest.mark.parametrize("text", [GOOD, "[clean]\ndefault = true", "[clean]"])
def test_printed_rules_round_trip(rules, text):
    book = rules(text)
    again = rules(book.text())
    for place in [("deu_Latn", "a"), ("zho_Hans", "b"), ("zho_Hans", "europarl")]:
        filled = {
            name: rulebook.defaults(name) | given for name, given in book.settings(*place).items()
        }
        read = again.settings(*place)
        assert {name: rulebook.defaults(name) | given for name, given in read.items()} == filled
    assert again.hash() == rules(again.text()).hash()
    assert tomllib.loads(book.text())["clean"]


def test_the_hash_is_of_the_rules_not_of_their_place(rules, tmp_path):
    book = rules(GOOD)
    assert rules("# a comment\n" + GOOD).hash() == book.hash()
    assert rules(GOOD.replace("150", "151")).hash() != book.hash()
    assert rules(GOOD.replace("europarl", "news")).hash() != book.hash()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("numbers = true", "nubmers = true", r":4: unknown rule 'nubmers'; nearest: numbers"),
        ("numbers = true", "numbers = 3", r":4: numbers is 3; allowed: true, false"),
        ("words = 150", "word = 150", r":3: length has no setting 'word'; nearest: words"),
        ("words = 150", "words = '9'", r":3: length: words is '9'; expected like 250"),
        ("[1, 600]", "[1]", r":3: length: characters is \[1\]; expected like \(1, 1000\)"),
        ("[1, 600]", "[9, 6]", r":3: length: characters are 9 to 6"),
        ("= 3 }", "= -1 }", r":9: ratio: deviations is -1"),
        ("Chinese", "Chinees", r":5: language: unknown .*'Chinees'; nearest: Chinese"),
        ("[clean.language.Chinese]", "[clean.langauge.zh]", r":5: .*'langauge'; nearest: language"),
        ("= 3 }", "= nan }", r":9: ratio: deviations is nan; expected like "),
        ("numbers = false", "language = true", r":8: unknown rule 'language'; allowed: encoding"),
        ("[clean.corpus.europarl]", "[clean.language.zh]", r":7: zh \(zho_Hans\) is listed"),
        ("[clean]", "[claen]", r":2: unknown key 'claen'"),
        ("[clean]", "[clean]\ndefault = 1.5", r":3: default is 1.5"),
        ("[clean]", "[clean", r"rules\.toml: .*line 2"),
    ],
)
def test_faults_are_named_with_line_and_nearest(rules, old, new, message):
    assert old in GOOD
    with pytest.raises(ValueError, match=message):
        rules(GOOD.replace(old, new, 1))


def test_a_level_is_a_table(rules):
    with pytest.raises(ValueError, match=r":2: write \[clean.language.NAME\]"):
        rules("[clean]\nlanguage = true")


def test_no_file_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no rules in .*none.toml"):
        rulebook.read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("corpus.eruoparl", r"corpus\.toml:6: the corpus has no corpus 'eruoparl'; nearest: europ"),
        ("language.fr", r"corpus\.toml:6: the corpus has no language 'fra_Latn'"),
    ],
)
def test_a_description_has_rules_for_what_it_has(tmp_path, level, message):
    (tmp_path / "a.tsv").write_text("eins\tone\n")
    text = '[train]\nde = { pairs = "a.tsv", name = "europarl" }\n[clean]\nlength = true\n\n'
    (tmp_path / "corpus.toml").write_text(text + "[clean.corpus.europarl]\nlength = false\n")
    plain = text.split("[clean]")[0]
    corpus = corpora.load(tmp_path)
    assert corpus.clean.settings("deu_Latn", "europarl") == {"overlap": {}}
    hashes = {corpus.hash()}
    (tmp_path / "corpus.toml").write_text(plain)
    hashes.add(corpora.load(tmp_path).hash())
    assert len(hashes) == 2
    (tmp_path / "corpus.toml").write_text(f"{text}[clean.{level}]\nlength = false\n")
    with pytest.raises(ValueError, match=message):
        corpora.load(tmp_path)


def test_a_number_without_end_is_a_fault_of_its_file(tmp_path):
    (tmp_path / "r.toml").write_text(f"[clean]\nlength = {'9' * 5000}\n")
    with pytest.raises(ValueError, match=r"r\.toml: .*digits"):
        rulebook.read(tmp_path / "r.toml")


def test_a_number_too_large_for_a_rule_is_named(tmp_path):
    (tmp_path / "r.toml").write_text("[clean]\nrepeats = { characters = 5000000000 }\n")
    with pytest.raises(ValueError, match=r"r\.toml:2: repeats: .*too large"):
        rulebook.read(tmp_path / "r.toml")
