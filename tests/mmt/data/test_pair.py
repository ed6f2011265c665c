"""A pair's defaults, and that its module imports no other of the package."""

import subprocess
import sys
from pathlib import Path

from mmt.data.pair import Pair


def test_a_pair_has_no_document_and_is_genuine_by_default():
    pair = Pair("ein Satz", "a sentence", "deu_Latn", "news.de", 3)
    assert (pair.id, pair.back_translated) == ("", False)


def test_corpora_and_rules_do_not_import_each_other():
    """Either may be imported first, and corpora are read without the libraries of the rules."""
    root = Path(__file__).resolve().parents[3]
    code = (
        "import sys, {0};"
        "sys.exit(any(name in sys.modules for name in ('{1}', {2})))"
    )
    rules, corpora = "mmt.data.cleaning.rules", "mmt.data.corpora"
    for first, other, library in ((rules, corpora, "'babel'"), (corpora, rules, "'ftfy'")):
        command = [sys.executable, "-c", code.format(first, other, library)]
        assert subprocess.run(command, cwd=root, check=False).returncode == 0, first
