"""benchmarks/bible100: the descriptions that its script writes, and its committed result."""

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from benchmarks.bible100 import corpus
from eval import testsets
from eval.records import results
from eval.report import report
from mmt.data import corpora

ROOT = Path(__file__).resolve().parents[2]
CODES, SIZES = ("deu_Latn", "swh_Latn", "yor_Latn"), (25, 20, 10)
LINES = {"bible/train": 30, "bible/dev": 6, "bible/test": 300, "ntrex": 150, "tico19": 40}
HAVE = {"ntrex": 2, "tico19": 1}  # of the languages; the Bible has all


@pytest.fixture
def packs(tmp_path):
    """Made-up packs in the format of the real ones; news lacks Yoruba, health has German only."""
    folder = tmp_path / "packs"
    for part, size in LINES.items():
        (folder / part).mkdir(parents=True)
        for code in ("eng_Latn", *CODES[: HAVE.get(part, 3)]):
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
    assert len(done.stdout.split()) == 7
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


def test_health_is_a_test_set_if_its_pack_exists(packs, tmp_path):
    corpus.describe(packs, tmp_path)
    health = testsets.load(tmp_path / "tico100")
    assert (health.name, health.domain, health.licence) == ("tico100", "health", "CC0")
    assert list(health.languages) == ["deu_Latn"]
    assert len(health.languages["deu_Latn"].sources) == LINES["tico19"]
    (packs / "tico19/deu_Latn.tsv.gz").unlink()
    with pytest.raises(ValueError, match=r"no .*tico19/deu_Latn.tsv.gz; the manifest names it"):
        corpus.describe(packs, tmp_path / "broken")
    shutil.rmtree(packs / "tico19")
    assert "tico100" not in {file.parent.name for file in corpus.describe(packs, tmp_path / "few")}


def test_a_folder_without_packs_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no .*nothing/manifest.tsv"):
        corpus.describe(tmp_path / "nothing", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("suggested_subsample", "size", r"manifest.tsv:1: no column suggested_subsample"),
     ("\t20\n", "\tmany\n", r"manifest.tsv:3: suggested_subsample is 'many'; expected 1 or more"),
     ("\t20\n", "\t0\n", r":3: suggested_subsample is '0'"),
     ("\t300\t20\n", "\n", r":3: suggested_subsample is None"),
     ("swh_Latn", "deu_Latn", r":3: deu_Latn is there twice"),
     ("swh_Latn", "swx_Latn", r":3: .*swx_Latn"),
     ("swh_Latn", "zul_Latn", r"no .*bible/train/zul_Latn.tsv.gz and 2 others")],
)  # fmt: skip
def test_a_broken_manifest_is_named_with_its_line(packs, tmp_path, old, new, message):
    file = packs / "manifest.tsv"
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(SystemExit, match=message):
        corpus.main([str(packs), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_folder_may_be_called_anything(packs, tmp_path):
    odd = packs.rename(tmp_path / "it's a \"pack\"")
    corpus.describe(odd, tmp_path / "out")
    assert len(list(corpora.load(str(tmp_path / "out/bible100")).pairs("yor", "train"))) == 10


RESULT = ROOT / "benchmarks/bible100/result"


def rows_of(markdown):
    """The tables of languages of a report.md: test set -> code -> heading -> cell."""
    tables, testset, heads = {}, "", []
    for line in markdown.splitlines():
        if line.startswith("## "):
            testset = line.removeprefix("## ").partition(":")[0]
        cells = [cell.strip().replace("\\", "") for cell in line.strip("| ").split(" | ")]
        if line.startswith("| Language | "):
            heads = cells
        elif not line.startswith("|"):
            heads = heads if not line.strip() else []
        elif heads and len(cells) == len(heads) and "---" not in line:
            row = dict(zip(heads, cells, strict=True))
            tables.setdefault(testset, {})[row["Code"]] = row
    return tables


def test_the_committed_report_has_the_committed_scores():
    tables, count = rows_of((RESULT / "report.md").read_text()), 0
    for row in results.read_rows(RESULT / "results.jsonl"):
        cells = tables[row.testset][row.source]
        system = "baseline" if row.kind == "bilingual" else row.system
        if ":" not in system:  # of an ablation
            bleu, chrf = (cells[f"{system} {metric}"].split()[0] for metric in ("BLEU", "chrF++"))
            assert (bleu, chrf) == (f"{row.bleu:.1f}", f"{row.chrf:.1f}")
            count += 1
    assert count > 1000
    assert len((RESULT / "report.md").read_bytes()) < 150_000, "a page that people can read"


@pytest.mark.parametrize("part", ["", "all"])
def test_the_committed_rows_render(tmp_path, part):
    report([RESULT / part / "results.jsonl"], tmp_path, examples=False)
    assert (tmp_path / "report.html").is_file() and (tmp_path / "means.csv").is_file()


def test_only_rows_and_what_is_read_of_a_result_is_kept():
    committed = {str(path.relative_to(RESULT)) for path in RESULT.rglob("*") if path.is_file()}
    assert committed == {"results.jsonl", "report.md", "all/results.jsonl"}
    for page in ("README.md", "NOTES.md", "result/report.md"):
        text = (ROOT / "benchmarks/bible100" / page).read_text()
        for link in re.findall(r"\]\(([\w./%-]+)\)", text):
            assert (ROOT / "benchmarks/bible100" / page).parent.joinpath(unquote(link)).is_file()
