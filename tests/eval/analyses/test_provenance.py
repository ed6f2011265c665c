"""Rows about the corpora of a run: from its manifest, ledger and metrics; gaps stay gaps."""

import dataclasses
import json

import pytest

from eval.analyses import provenance
from eval.systems import System
from mmt.data.cache.manifest import Manifest
from mmt.data.cache.origins import CorpusOrigin
from mmt.run import Run

SYSTEM = System("whole", "multilingual", "whole/40", "abc", {})
MANIFEST = Manifest(
    name="numbers", target="eng_Latn", languages=("deu_Latn", "deu_Latn.monolingual", "swh_Latn"),
    counts={"train": {"deu_Latn": 3, "deu_Latn.monolingual": 7, "swh_Latn": 5}}, corpus_hash="1",
    vocabulary_hash={"source": "a", "target": "a"}, vocabulary_size={"source": 9, "target": 9},
    corpora={"train": {
        "deu_Latn": [["web", 1], ["books", 1], ["web", 1]], "swh_Latn": [["web", 5]],
        "deu_Latn.monolingual": [["crawl", 7]],
    }},
    origins=[
        CorpusOrigin("deu_Latn", "web", {"web.tsv": "0a"}, read=5, kept=2,
                     dropped={"overlap: flores": 3}, tests=["flores", "ntrex"], listed="n/o.tsv"),
        CorpusOrigin("swh_Latn", "web", {"swh.tsv": "0b"}),
    ],
)  # fmt: skip
SEEN = {"deu_Latn": {"web": 20, "books": 10}, "swh_Latn": {"web": 30},
        "deu_Latn.monolingual": {"crawl": 4}}  # fmt: skip


def row(step, german, swahili):
    """A logged row: (tokens, loss) of German web and books, and of Swahili."""
    counts, losses = zip(*german, strict=True)
    names = ("web", "books")
    return {
        "step": step, "loss": 1.0,
        "language_tokens": {"deu_Latn": sum(counts), "swh_Latn": swahili[0]},
        "language_loss": {"deu_Latn": 9.0, "swh_Latn": swahili[1]},
        "corpus_tokens": {"deu_Latn": dict(zip(names, counts, strict=True))},
        "corpus_loss": {"deu_Latn": dict(zip(names, losses, strict=True))},
    }  # fmt: skip


ROWS = [row(20, [(5, 8.0), (5, 8.0)], (5, 8.0)), {"step": 25, "loss": 1.0},
        row(30, [(10, 2.0), (4, 1.0)], (6, 3.0)), row(40, [(30, 1.0), (4, 2.0)], (6, 2.0))]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that makes what a run directory has of these: `run(manifest, rows)`."""

    def make(manifest=MANIFEST, rows=ROWS, seen=SEEN):
        manifest.write(tmp_path)
        Run(tmp_path).metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        rows = [{"language": code, "corpora": {name: {"examples": count} for name, count in
                 by_name.items()}} for code, by_name in seen.items()]  # fmt: skip
        if seen:
            Run(tmp_path).ledger.touch()
        monkeypatch.setattr(provenance.ledger, "load", lambda directory: {"rows": rows})
        return {(made.source, use.corpus + " text" * use.text): use
                for made in provenance.uses(tmp_path, SYSTEM) for use in made.corpora}  # fmt: skip

    return make


def test_examples_loss_and_cleaning_of_each_corpus(run):
    uses = run()
    web, books = uses["deu_Latn", "web"], uses["deu_Latn", "books"]
    assert (web.pairs, web.examples, books.pairs, books.examples) == (2, 20, 1, 10)
    assert web.tokens == 40 and web.loss == (10 * 2 + 30) / 40  # of the second half
    assert books.loss == 1.5 and uses["swh_Latn", "web"].loss == 2.5
    assert (web.read, web.dropped) == (5, {"overlap: flores": 3})
    assert web.overlap == {"flores": 3, "ntrex": 0} and web.listed == "n/o.tsv"
    assert uses["swh_Latn", "web"].files and uses["swh_Latn", "web"].read is None
    assert uses["deu_Latn", "crawl text"].text and not web.text


def test_what_was_not_logged_is_not_known(run):
    old = [{name: value for name, value in row.items() if "corpus" not in name} for row in ROWS]
    uses = run(rows=old, seen={})
    assert uses["deu_Latn", "web"].loss is None and uses["deu_Latn", "web"].examples is None
    assert uses["swh_Latn", "web"].loss == 2.5  # its only corpus
    older = [{name: value for name, value in row.items() if name != "language_tokens"}
             for row in old]  # fmt: skip
    assert run(rows=older)["swh_Latn", "web"].loss is None
    assert run(rows=[])["swh_Latn", "web"].loss is None


def test_an_old_cache_has_one_corpus_for_each_language(run, tmp_path):
    uses = run(dataclasses.replace(MANIFEST, corpora={}, origins=[]))
    assert uses["deu_Latn", "numbers"].pairs == 3 and uses["deu_Latn", "numbers"].loss == 9.0
    assert not any(made.named for made in provenance.uses(tmp_path, SYSTEM))


def test_an_imported_model_has_no_rows(run):
    assert run(dataclasses.replace(MANIFEST, counts={}, corpora={}, languages=())) == {}
