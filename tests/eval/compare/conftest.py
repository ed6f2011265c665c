"""A function that writes run directories of a few files, as training and evaluation write them."""

import json

import pytest

from eval import metrics
from eval.records import analysis, results
from mmt.run import Run
from tests.helpers.translations import row, texts

CODES = ("deu_Latn", "fra_Latn", "swh_Latn")


@pytest.fixture
def made_run(tmp_path):
    """made_run("name", dropout=0.1, codes=CODES, losses={100: 2.0}, scores={"deu_Latn": 0.2})."""

    def make(
        name, *, dropout=0.1, codes=CODES, vocabulary="abc", corpus="text", losses=None,
        tokens=1000, scores=None, **changes,
    ):  # fmt: skip
        run = Run(tmp_path / name)
        run.directory.mkdir()
        run.config.write_text(
            "from __gin__ import dynamic_registration\nfrom mmt.model import transformer\n"
            f"DROPOUT_RATE = {dropout}\nMODEL_DIR = '{name}'\n"
            "transformer.Config.dropout_rate = %DROPOUT_RATE\ntransformer.Config.emb_dim = 16\n"
        )
        write_manifest(run, codes, vocabulary, corpus)
        versions = {"python": "3.11.7", "jax": "0.10.2"}
        run.environment.write_text(
            json.dumps({"device": "a core", "devices": 2, "versions": versions})
        )
        write_metrics(run, codes, losses or {100: 2.0, 200: 1.5}, tokens)
        for code, noise in (scores or {}).items():
            add_scores(run, code, noise, **changes)
        return run.directory

    return make


def write_manifest(run, codes, vocabulary, corpus):
    counts = {"train": dict.fromkeys(codes, 100), "validation": dict.fromkeys(codes, 10)}
    content = {
        "name": "mix", "target": "eng_Latn", "languages": sorted(codes), "counts": counts,
        "corpus_hash": corpus, "vocabulary_hash": {"source": "s", "target": vocabulary},
        "vocabulary_size": {"source": 320, "target": 320}, "version": 1,
    }  # fmt: skip
    run.manifest.write_text(json.dumps(content))


def write_metrics(run, codes, losses, tokens):
    lines = []
    for step, loss in losses.items():
        each = {code: loss + 0.1 * place for place, code in enumerate(codes)}
        lines.append({"step": step, "loss": loss + 1, "nll": loss, "target_tokens": tokens,
                      "seconds": 36.0})  # fmt: skip
        lines.append({"step": step, "validation_loss": loss, "language_validation_loss": each})
    run.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def add_scores(run, code, noise, *, seed=1, counted=True, **changes):
    """Adds a row of results and its counts."""
    hypotheses, references = texts(seed, noise)
    scored = row(hypotheses, references, system=run.directory.name, source=code,
                 **{"checkpoint": f"{run.directory.name}/1"} | changes)  # fmt: skip
    results.add_rows(run.results, [scored])
    if counted:
        statistics = metrics.References(references).statistics(hypotheses)
        about = {name: getattr(scored, name) for name in results.KEY}
        counts = analysis.SentenceCounts(
            **about, packed=metrics.packed(statistics.bleu), sentences=len(references),
            hypotheses=f"hash of {seed} {noise}", references="r",
        )  # fmt: skip
        analysis.add(analysis.path_for(run.results), [counts])
