"""Validation and test pairs that are held out of [train]."""

import random
import shutil

import pytest

from mmt.cli.main import main
from mmt.data import corpora
from mmt.data.cleaning import prepare
from mmt.data.cleaning.held_out import hold_out

SIZES = {"validation": 30, "test": 20}
ENTRIES = 'deu = "deu.tsv"\nswh = "swh.tsv"\nzul = "zul.tsv"\n'


@pytest.fixture
def folder(tmp_path):
    """A multi-way corpus: 1,000 pairs of German, 150 of Swahili, 5 of Zulu."""
    words = random.Random(0)
    target = [f"Line {i} " + " ".join(words.sample("abcdefghijkl", 4)) for i in range(1000)]
    (tmp_path / "my").mkdir()
    for code, count in (("deu", 1000), ("swh", 150), ("zul", 5)):
        rows = [f"{code} {i}\t{target[i]}\n" for i in range(count)]
        (tmp_path / "my" / f"{code}.tsv").write_text("".join(rows))
    return described(tmp_path / "my", f"[train]\n{ENTRIES}")


def described(folder, text):
    (folder / "corpus.toml").write_text(text)
    return folder


def targets(corpus, split):
    return {
        code: [pair.target for pair in corpus.pairs(code, split)] for code in corpus.files[split]
    }


def test_no_held_out_line_is_trained_on_in_any_language(folder, tmp_path):
    made = hold_out(folder, SIZES)
    assert made == {
        "validation": {"deu_Latn": 30, "swh_Latn": 15}, "test": {"deu_Latn": 20, "swh_Latn": 15}
    }  # fmt: skip
    corpus = corpora.load(folder)
    prepare.prepare(corpus, tmp_path / "clean", processes=1)
    clean = corpora.load(tmp_path / "clean")
    sets = {split: targets(clean, split) for split in ("train", *SIZES)}
    lines = {split: set().union(*by_code.values()) for split, by_code in sets.items()}
    assert {split: {c: len(of) for c, of in sets[split].items()} for split in SIZES} == made
    assert not lines["validation"] & lines["test"]
    assert not lines["train"] & (lines["validation"] | lines["test"])
    assert len(sets["train"]["deu_Latn"]) == 1000 - len(lines["validation"] | lines["test"])


def test_the_choice_depends_on_the_targets_alone(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    rows = (other / "deu.tsv").read_text().splitlines()
    reordered = [row.upper().replace("\t", "!\t") + "." for row in rows[::-1]]
    (other / "deu.tsv").write_text("\n".join([*reordered, *reordered[:9]]) + "\n")
    hold_out(folder, SIZES)
    hold_out(other, SIZES, processes=2)
    ours, theirs = (targets(corpora.load(each), "test") for each in (folder, other))
    assert [line.upper() + "." for line in ours["deu_Latn"]] == theirs["deu_Latn"]
    assert ours["swh_Latn"] == theirs["swh_Latn"]


def test_lines_that_differ_in_punctuation_are_held_out_as_one(folder, tmp_path):
    lines = [f"你好{chr(0x4E00 + i)}{{}}世界" for i in range(400)]
    for code, mark in (("deu", "，"), ("swh", "")):
        rows = [f"{code} {i}\t{line.format(mark)}\n" for i, line in enumerate(lines)]
        (folder / f"{code}.tsv").write_text("".join(rows))
    described(folder, 'target = "zho_Hans"\n[train]\ndeu = "deu.tsv"\nswh = "swh.tsv"\n')
    hold_out(folder, SIZES)
    by_code = targets(corpora.load(folder), "test")
    assert [line.replace("，", "") for line in by_code["deu_Latn"]] == by_code["swh_Latn"]


def test_a_line_without_words_is_not_held_out_because_no_rule_would_find_it(folder, tmp_path):
    rows = (folder / "deu.tsv").read_text().splitlines()
    (folder / "deu.tsv").write_text("\n".join([*rows, "Na ja ...\t!!!"]) + "\n")
    described(folder, "[train]\ndeu = 'deu.tsv'\n")
    hold_out(folder, {"validation": 964, "test": 10})  # sizes for which its hash is in the test
    prepare.prepare(corpora.load(folder), tmp_path / "clean", processes=1)
    clean = {split: targets(corpora.load(tmp_path / "clean"), split) for split in ("train", "test")}
    assert not set(clean["train"]["deu_Latn"]) & set(clean["test"]["deu_Latn"])
    assert "!!!" in clean["train"]["deu_Latn"]


def test_back_translated_pairs_and_lines_of_other_splits_are_not_held_out(folder):
    rows = (folder / "swh.tsv").read_text().splitlines()
    (folder / "real.tsv").write_text("\n".join(rows[:100]) + "\n")
    (folder / "test.tsv").write_text("\n".join(rows[:95]) + "\n")
    described(folder, """
        [train]
        swh = ["real.tsv", { pairs = "swh.tsv", back_translated = true }]
        [test]
        swh = "test.tsv"
        """)  # fmt: skip
    assert hold_out(folder, {"validation": 30}) == {"validation": {"swh_Latn": 5}}
    held_out = {pair.source for pair in corpora.load(folder).pairs("swh", "validation")}
    assert held_out == {f"swh {i}" for i in range(95, 100)}


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        (f"[train]\n{ENTRIES}[test]\nswh = 'swh.tsv'\n", SIZES, r"corpus\.toml:5: .* has \[test\]"),
        (f"[train]\n{ENTRIES}[test]\n# swh\n", SIZES, r"toml:5: .* has \[test\] already, without"),
        (f"[train]\n{ENTRIES}[clean]\noverlap = false\n", SIZES, "toml:5: the rule `overlap` is"),
        ("[train]\nzul = 'zul.tsv'\n", SIZES, "no language has 10 pairs, so validation would be"),
        (f"[train]\n{ENTRIES}", {"test": 0}, "test is 0; allowed: 1 or more"),
        ("[train]\ndeu = '**/deu*.tsv'\n", SIZES, "pattern of .train. for deu_Latn reads the new"),
        ("[test]\ndeu = 'deu.tsv'\n", {"validation": 9}, r"it has no \[train\]"),
    ],
)
def test_faults_change_nothing(folder, text, sizes, message):
    described(folder, text)
    with pytest.raises(ValueError, match=message):
        hold_out(folder, sizes)
    assert (folder / "corpus.toml").read_text() == text
    assert not list(folder.rglob("held_out/*/*"))


def test_the_files_of_another_description_stay(folder):
    hold_out(folder, SIZES)
    other = folder / "other.toml"
    other.write_text(f"[train]\n{ENTRIES}")
    before = (folder / "held_out/test/deu_Latn.tsv").read_bytes()
    with pytest.raises(ValueError, match=r"held_out/validation exists; remove it"):
        hold_out(other, {"validation": 5, "test": 5})
    assert (folder / "held_out/test/deu_Latn.tsv").read_bytes() == before


def test_the_embedded_corpus_has_its_splits():
    with pytest.raises(ValueError, match="cldr has validation and test pairs already"):
        hold_out("cldr", {"test": 5})


def test_the_command_makes_the_splits_that_are_missing(folder, capsys):
    assert main(["data", "split", str(folder), "--validation", "20"]) == 0
    output = capsys.readouterr()
    assert output.out == f"{folder / 'corpus.toml'}\n"
    assert "validation: 35 pairs of 2 languages, 15 to 20 each" in output.err
    assert main(["data", "split", str(folder)]) == 0
    assert "test: 115 pairs of 2 languages, 15 to 100 each" in capsys.readouterr().err
    corpus = corpora.load(folder)
    lines = [set().union(*targets(corpus, split).values()) for split in SIZES]
    assert not lines[0] & lines[1]
    assert main(["data", "split", str(folder)]) == 1
    assert "has [validation] and [test] already" in capsys.readouterr().err
