"""benchmarks/bible100: the descriptions that its script writes, and its committed result."""

import gzip
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bible100 import corpus
from eval.report import report
from eval.study import Study
from mmt import config
from mmt.data import corpora

ROOT = Path(__file__).resolve().parent.parent
CODES, SIZES = ("deu_Latn", "swh_Latn", "yor_Latn"), (25, 20, 10)
LINES = {"bible/train": 30, "bible/dev": 6, "bible/test": 300, "ntrex": 150}


@pytest.fixture
def packs(tmp_path):
    """Made-up packs in the format of the real ones, news without Yoruba."""
    folder = tmp_path / "packs"
    for part, size in LINES.items():
        (folder / part).mkdir(parents=True)
        for code in ("eng_Latn", *CODES[: 2 if part == "ntrex" else 3]):
            lines = "".join(f"{part}.{n}\t{code} {n}\n" for n in range(size))
            (folder / part / f"{code}.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    sizes = "".join(f"{code}\t300\t{size}\n" for code, size in zip(CODES, SIZES, strict=True))
    (folder / "manifest.tsv").write_text(f"code\ttest\tsuggested_subsample\n{sizes}")
    return folder


def test_the_descriptions_load_by_the_door_of_a_users_corpus(packs, tmp_path):
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bible100.corpus", packs, out],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(done.stdout.split()) == 6
    whole = corpora.load(out / "bible100")
    assert [len(list(whole.pairs(code, "train"))) for code in CODES] == [*SIZES]
    assert [len(list(whole.pairs(code, "test"))) for code in CODES] == [300] * 3
    for pair in whole.pairs("swh_Latn", "train"):
        assert pair.source.split()[1] == pair.target.split()[1]
    everything = corpora.load(out / "bible100all")
    assert [len(list(everything.pairs(code, "train"))) for code in CODES] == [30] * 3


def test_the_tests_for_two_cores_are_the_same_lines_of_every_language(packs, tmp_path):
    corpus.describe(packs, tmp_path)
    few = corpora.load(tmp_path / "bible100few")
    lines = [[pair.target for pair in few.pairs(code, "test")] for code in CODES]
    assert len(lines[0]) == corpus.FEW and lines == lines[:1] * 3
    manifest = packs / "manifest.tsv"
    manifest.write_text(manifest.read_text().replace("yor_Latn\t300", "yor_Latn\t120"))
    corpus.describe(packs, tmp_path)
    smaller = corpora.load(tmp_path / "bible100few").pairs("yor_Latn", "test")
    assert len(list(smaller)) == 120
    news = corpora.load(tmp_path / "ntrex100few")
    assert set(news.languages) == set(CODES[:2])
    assert len(list(news.pairs("swh_Latn", "test"))) == corpus.FEW_NEWS


def test_a_folder_without_packs_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no .*nothing/manifest.tsv"):
        corpus.describe(tmp_path / "nothing", tmp_path)


def test_the_committed_rows_render_the_committed_report(tmp_path):
    result = ROOT / "benchmarks/bible100/result"
    report([result / "results.jsonl"], tmp_path, examples=False)
    for name in ("report.md", "report.csv", "means.csv"):
        assert (tmp_path / name).read_bytes() == (result / name).read_bytes()


STUDIES = [
    path.relative_to(ROOT)
    for path in sorted((ROOT / "benchmarks/bible100").rglob("*.gin"))
    if "study.Study" in path.read_text()
]


@pytest.mark.parametrize("file", STUDIES, ids=str)
def test_a_studys_runs_each_have_a_folder_of_their_own(file, monkeypatch):
    monkeypatch.chdir(ROOT)
    config.load([str(file)])
    study, folders = config.configured(Study)(), []
    for run in study.runs:
        _, own, *bindings = shlex.split(run)
        config.load([own], [*study.bindings, *bindings])
        folders.append(config.macro("MODEL_DIR"))
    assert len(set(folders)) == len(study.runs) > 1
    assert {Path(folder).parent for folder in folders} == {Path(study.results).parent}
