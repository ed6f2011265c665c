"""A toy run that routes by language, by the command line: train, translate, evaluate."""

import pytest

from eval.records import analysis
from mmt.run import read_metrics

pytest.importorskip("seqio", reason="making a cache needs the extra [data]")
ROUTING = ("encoder_routing='language'", "decoder_routing='language'", "languages=3")


@pytest.mark.slow
def test_a_model_that_routes_by_language_trains_translates_and_is_evaluated(
    mmt_command, toy_corpus, toy_training, tmp_path
):
    run = tmp_path / "routed"

    def mmt(*arguments, stdin=b""):
        return mmt_command(*arguments, stdin=stdin, MMT_DATA=str(toy_corpus.parent))

    def train(*bindings):
        return mmt(
            "train", *toy_training, f"--gin.CORPUS={toy_corpus}", f"--gin.MODEL_DIR={run}",
            *(f"--gin.transformer.Config.{binding}" for binding in bindings),
        )  # fmt: skip

    wrong = train(*ROUTING[:2], "languages=4")
    assert wrong.returncode and b"languages = 4, but the cache has 3 languages" in wrong.stderr
    done = train(*ROUTING)
    assert done.returncode == 0, done.stderr.decode()
    rows = read_metrics(run / "metrics.jsonl")
    assert len([row for row in rows if "moe_dropped" in row]) == 4
    assert any(set(row.get("language_bleu", ())) == LANGUAGES for row in rows)

    lines = b"eins zwei\ndrei\n"
    missing = mmt("translate", f"--model={run}", stdin=lines)
    assert missing.returncode and b"source language is needed" in missing.stderr
    assert all(code.encode() in missing.stderr for code in LANGUAGES)
    translated = mmt("translate", f"--model={run}", "--from=de", stdin=lines)
    assert translated.returncode == 0, translated.stderr.decode()
    assert len(translated.stdout.splitlines()) == 2

    out = tmp_path / "results.jsonl"
    evaluated = mmt("evaluate", f"--model={run}", f"--testset={toy_corpus}", f"--out={out}")
    assert evaluated.returncode == 0, evaluated.stderr.decode()
    assert {line.split(b"\t")[0].decode() for line in evaluated.stdout.splitlines()} == LANGUAGES
    loads = [row for row in analysis.read(analysis.path_for(out)) if row.kind == "routing"]
    assert len(loads) == 2 * 3
    # GShard's top 2: each language has two experts, with half of the choices each
    assert all(sorted(row.load)[-2:] == [0.5, 0.5] for row in loads)


LANGUAGES = {"deu_Latn", "swh_Latn", "fra_Latn"}
