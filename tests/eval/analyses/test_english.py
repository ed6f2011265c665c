"""Telling English from other languages: it would rather miss than blame."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from eval.analyses import english

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared/data"

ENGLISH = [
    "The committee will meet again on Thursday to discuss the budget.",
    "He did not know what to say to them, and so he said nothing at all.",
    "the the of of and and in in the the of of",  # bad, but English
    "Yes.",
    "Abraham, Isaac und Jakob",
    "Azariah, Seraiah, Jeremiah, Pashhur, Amariah, Malchijah, Hattush, Shebaniah",
    "3 + 4 = 7",
    "",
    "Killer Pig Mauls Farmer",
    "IT IS NOT THE WAY TO THE HOUSE",
]
OTHERS = [
    "Der Ausschuss wird am Donnerstag wieder tagen, um über den Haushalt zu beraten.",
    "El comité se reunirá de nuevo el jueves para hablar del presupuesto.",
    "Kamati itakutana tena siku ya Alhamisi ili kujadili bajeti ya mwaka huu.",
    "Valiokunta kokoontuu uudelleen torstaina keskustelemaan talousarviosta.",
    "委员会将于星期四再次开会讨论预算。",
    "Да, конечно",
    "یہ ایک جملہ ہے",
]


@pytest.mark.parametrize("line", ENGLISH)
def test_english_and_undecidable_lines_pass(line):
    assert not english.is_other(line)


@pytest.mark.parametrize("line", OTHERS)
def test_other_languages_and_scripts_are_found(line):
    assert english.is_other(line)


def test_most_phrases_of_the_embedded_corpus_are_identified(cldr_folder):
    """Babel's phrases are short, so that nothing is known of many: but few English are blamed."""
    from mmt.data import corpora

    pairs = list(corpora.load(cldr_folder).pairs("ell_Grek", "train"))
    assert len(pairs) > 500
    assert sum(english.is_other(pair.target) for pair in pairs) <= 2
    assert sum(english.is_other(pair.source) for pair in pairs) > 0.8 * len(pairs)


def test_it_needs_no_network_and_no_training_library():
    code = (
        "import socket; socket.socket = None\n"
        "from eval.analyses import english\n"
        f"assert english.is_other({OTHERS[0]!r}) and not english.is_other({ENGLISH[0]!r})\n"
        "import sys; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the text packs of ../shared/data")
@pytest.mark.parametrize("pack", ["bible/test", "ntrex"])
def test_on_real_text_few_english_lines_are_flagged_and_most_others_are(pack):
    detected, blamed = [], []
    for path in sorted((DATA / pack).rglob("*.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            lines = [line.rstrip("\n").split("\t")[1] for line in file]
        if path.name.startswith("eng_"):
            blamed += [line for line in lines if english.is_other(line)]
        else:
            detected.append(sum(map(english.is_other, lines[:20])) / len(lines[:20]))
    assert not blamed and sum(detected) / len(detected) > 0.95
