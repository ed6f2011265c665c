"""benchmarks/mix150/model, once it exists: it translates, and its scores are those of its card."""

import os
import re
from pathlib import Path

import pytest

from benchmarks.mix150 import corpus
from eval import evaluate, metrics, systems, testsets
from mmt.decoding import Decoding
from mmt.run import Run
from mmt.translate import Translator

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "benchmarks/mix150/model"
DATA = Path(os.environ.get("MMT_PACKS", ROOT.parent / "shared/data"))
ROW = re.compile(r"\| (\w+) \| mix150few \| [\d,]+ \| `beam:1\S*` \| ([\d.]+) \| ([\d.]+) \|")


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.is_dir(), reason="no benchmarks/mix150/model: make mix150-model")
@pytest.mark.skipif(
    not (DATA / "mix/manifest.tsv").is_file(),
    reason="needs the packs: set MMT_PACKS to a folder with mix/, flores/, ntrex/ and tico19/",
)
def test_scores_of_ten_languages_are_those_of_the_card(tmp_path):
    card = {code: (float(bleu), float(chrf))
            for code, bleu, chrf in ROW.findall(Run(MODEL).card.read_text())}  # fmt: skip
    chosen = sorted(card)[:: max(1, len(card) // 10)][:10]
    assert len(chosen) == 10
    corpus.describe(DATA, tmp_path / "data")
    testset = testsets.load(tmp_path / "data/mix150few").only(chosen)
    translator = Translator.load(MODEL)
    rows = evaluate.evaluate(
        translator, testset, system=systems.system_of(MODEL, step=translator.steps),
        out=tmp_path / "results.jsonl", decoding=Decoding(beam=1), scores=metrics.Metrics(),
    )  # fmt: skip
    for row in rows:  # the card's are of float32 weights
        assert abs(row.bleu - card[row.source][0]) < 2 and abs(row.chrf - card[row.source][1]) < 2
