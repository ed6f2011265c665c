"""benchmarks/mix150: what its script writes, and its gin files."""

import gzip
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import packs
from benchmarks.mix150 import by_kind, corpus, expert_gain, extend, fraction, phrases, verses
from eval import baselines, testsets
from mmt import config, initial
from mmt.data import corpora
from mmt.model import parameter_names
from mmt.plan import parameters

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "benchmarks/mix150"
SIZES = {"deu_Latn": 1200, "swh_Latn": 1000, "yor_Latn": 999}  # Yoruba is too small
DEV, TEST = 5, 130
SHARED = "nine words of a line that a test has"  # in training and in FLORES


def english(part: str, number: int) -> str:
    """A line that shares no eight words with one of another part or number."""
    return " ".join(f"{part}{number}w{place}" for place in range(9))


def write(file: Path, lines: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name}\t{line}\n" for name, line in lines.items())
    file.write_bytes(gzip.compress(text.encode()))


def name_of(part: str, number: int) -> str:
    """An id: of every ten lines of a test four are everyday, three news, two interface."""
    return f"{('tatoeba', 'newstest', 'osm', 'tldr')[min(number % 10 // 3, 3)]}:{part}{number}"


@pytest.fixture
def made_up(tmp_path):
    """Made-up packs; one German training pair and one line of FLORES have the same English."""
    folder = tmp_path / "packs"
    for part in ("train", "dev", "test"):
        for code in ("eng_Latn", *SIZES):
            count = {"train": SIZES.get(code, max(SIZES.values())), "dev": DEV, "test": TEST}[part]
            write(
                folder / "mix" / part / f"{code}.tsv.gz",
                {name_of(part, n): english(f"{code}{part}", n) for n in range(count)},
            )
    file = folder / "mix/train/eng_Latn.tsv.gz"
    lines = [line.split("\t") for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    write(file, dict(lines) | {name_of("train", 1100): f"a prefix {SHARED}"})
    for pack, count in (("flores/devtest", 120), ("ntrex", 110), ("tico19", 40)):
        for code in ("eng_Latn", "deu_Latn", "zul_Latn"):  # Zulu is not in mix
            own = {f"{n}": english(f"{code}{pack[:3]}", n) for n in range(count)}
            if pack.startswith("flores") and code == "eng_Latn":
                own["7"] = f"{SHARED} indeed"
            write(folder / pack / f"{code}.tsv.gz", own)
        (folder / pack / "manifest.tsv").write_text(f"code\tpairs\ndeu_Latn\t{count}\n")
    rows = [f"{code}\t{size}\t{DEV}\t{TEST}\n" for code, size in SIZES.items()]
    (folder / "mix/manifest.tsv").write_text("".join(["code\ttrain\tdev\ttest\n", *rows]))
    files = [line.split()[1] for line in corpus.SUMS.read_text().splitlines()]
    hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files]
    sums = [f"{one}  {name}\n" for one, name in zip(hashes, files, strict=True)]
    (folder / "sums").write_text("".join(sums))
    return folder


def test_the_corpus_has_large_enough_languages_and_all_their_lines(made_up, tmp_path):
    corpus.describe(made_up, tmp_path, made_up / "sums")
    whole = corpora.load(tmp_path / "packs")
    assert whole.languages == ("deu_Latn", "swh_Latn")
    assert [whole.count(code, "train") for code in whole.languages] == [1200, 1000]
    assert [whole.count("swh_Latn", split) for split in ("validation", "test")] == [DEV, TEST]
    assert whole.entries("swh_Latn", "train") == ("mix/train/swh_Latn.tsv.gz",)  # no path


def test_the_tests_by_kind_are_a_partition_of_the_test(made_up, tmp_path):
    corpus.describe(made_up, tmp_path, made_up / "sums")
    kinds = [testsets.load(tmp_path / f"{kind}150") for kind in ("everyday", "news", "interface")]
    every = testsets.load(tmp_path / "packs").languages["swh_Latn"]
    lines = [line for kind in kinds for line in kind.languages["swh_Latn"].sources]
    assert len(set(lines)) == len(lines) == TEST - 13 and set(lines) < set(every.sources)
    assert not (tmp_path / "technical150").exists()  # 13 lines, under LINES_OF_KIND
    assert [kind.domain for kind in kinds] == ["everyday", "news", "interface"]


def test_two_cores_get_a_part_of_each_test(made_up, tmp_path):
    corpus.describe(made_up, tmp_path, made_up / "sums")
    sizes = {
        name: len(testsets.load(tmp_path / name).languages["deu_Latn"].sources)
        for name in ("mix150few", "news150few", "flores150few", "ntrex150few", "tico150")
    }
    few, of_kind = corpus.FEW, min(corpus.FEW_OF_KIND, 39)
    assert list(sizes.values()) == [few, of_kind, few, few, 40]
    assert set(testsets.load(tmp_path / "flores150").languages) == {"deu_Latn"}


def test_training_pairs_that_overlap_a_test_are_dropped_and_counted(made_up, tmp_path):
    corpus.describe(made_up, tmp_path, made_up / "sums")
    report = corpus.without_overlap(tmp_path)
    cleaned = corpora.load(tmp_path / "mix150")
    assert cleaned.name == "mix150"  # as the mixture of mix150.gin
    assert [len(list(cleaned.pairs(code, "train"))) for code in cleaned.languages] == [1199, 1000]
    assert not any(SHARED in pair.target for pair in cleaned.pairs("deu", "train"))
    assert len(list(cleaned.pairs("deu", "test"))) == TEST
    assert len(testsets.load(tmp_path / "flores150").languages["deu_Latn"].sources) == 120
    assert "1 of 2,200 training pairs dropped" in corpus.summary(report)
    assert "overlap: flores150" in corpus.summary(report)


def test_phrases_come_beside_the_pairs_unless_a_test_has_them(made_up, tmp_path, capsys):
    corpus.describe(made_up, tmp_path, made_up / "sums")
    write(made_up / "mix/dev/eng_Latn.tsv.gz", {name_of("dev", n): "Monday" for n in range(DEV)})
    phrases.main([str(tmp_path)])
    mixed = corpora.load(tmp_path / "phrases150")
    assert mixed.name == "phrases150"  # as the mixture of gpu/phrases.gin
    assert mixed.entries("deu_Latn", "train") == ("mix/train/deu_Latn.tsv.gz", "cldr")
    pairs = {pair.source: pair.target for pair in mixed.pairs("deu", "train")}
    assert pairs["Dienstag"] == "Tuesday" and "Montag" not in pairs
    assert len(pairs) > 1199 + 0.8 * phrases.wanted(1200)
    assert "training pairs dropped" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"no .*packs/corpus.toml: python -m"):
        phrases.main([str(tmp_path / "nothing")])


def test_kinds_are_entries_of_the_same_pairs(made_up, tmp_path, capsys):
    corpus.describe(made_up, tmp_path, made_up / "sums")
    with pytest.raises(SystemExit, match=r"no .*phrases/corpus.toml: python -m"):
        by_kind.main([str(tmp_path)])
    phrases.main([str(tmp_path)])
    by_kind.main([str(tmp_path)])
    plain, kinds = (corpora.load(tmp_path / name) for name in ("phrases150", "kinds150"))
    assert kinds.name == "kinds150" and kinds.languages == plain.languages
    for code in plain.languages:
        for split in ("train", "validation", "test"):
            first, second = (
                Counter(pair[:2] for pair in each.pairs(code, split)) for each in (plain, kinds)
            )
            assert first == second
        assert {*kinds.entries(code, "train")} <= {*corpus.KINDS, phrases.ENTRY}
    assert "training pairs dropped" in capsys.readouterr().out


def test_phrases_are_names_first_and_each_once():
    pairs = phrases.phrases("swh_Latn", 300)
    assert pairs[0] == ("Jumatatu", "Monday") and len(dict(pairs)) == 300
    assert ("Ujerumani", "Germany") in pairs[:150]
    assert any(english.endswith(" days") for _, english in pairs[150:])
    assert phrases.phrases("cbk_Latn", 300) == []


def test_chapters_are_documents_without_gaps(made_up, tmp_path, capsys):
    names = ["GEN.1.1", "GEN.1.2", "GEN.1.4", "GEN.2.1", "EXO.1.1"]
    for part in ("train", "dev", "test"):
        for code in ("eng_Latn", "swh_Latn"):
            write(made_up / f"bible/{part}/{code}.tsv.gz", {n: f"{code} {n}" for n in names})
    manifest = made_up / "manifest.tsv"
    manifest.write_text("code\ttrain\tdev\ttest\nswh_Latn\t5\t5\t5\nzul_Latn\t9\t9\t9\n")
    verses.main([str(made_up), str(tmp_path)])
    written = corpora.load(tmp_path / "verses150")
    assert written.languages == ("swh_Latn",)  # Zulu is not in mix
    pairs = list(written.pairs("swh", "train"))
    assert [pair.target for pair in pairs] == [f"eng_Latn {name}" for name in names]
    assert [pair.follows for pair in pairs] == [False, True, False, False, False]
    (made_up / "bible/dev/swh_Latn.tsv.gz").unlink()
    with pytest.raises(SystemExit, match=r"no .*dev/swh_Latn.tsv.gz; the manifest names it"):
        verses.main([str(made_up), str(tmp_path)])


def test_the_command_resumes_and_prints_the_overlap(made_up, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(corpus.describe, "__defaults__", (made_up / "sums",))
    for _ in range(2):
        corpus.main([str(made_up), str(tmp_path / "out")])
        assert "1 of 2,200 training pairs dropped" in capsys.readouterr().out


def test_another_version_of_a_pack_is_named(made_up, tmp_path):
    with pytest.raises(ValueError, match=r"the pack mix is of another version: sha256 .*expected"):
        corpus.describe(made_up, tmp_path)
    (made_up / "tico19/manifest.tsv").unlink()
    with pytest.raises(ValueError, match=r"no .*manifest.tsv: the pack tico19 is not in"):
        corpus.describe(made_up, tmp_path, made_up / "sums")
    with pytest.raises(SystemExit, match=r"the pack mix is not in"):
        corpus.main([str(tmp_path / "nothing"), str(tmp_path)])


def test_a_file_that_differs_from_its_manifest_is_named(made_up, tmp_path):
    write(made_up / "mix/dev/swh_Latn.tsv.gz", {name_of("dev", 0): "moja"})
    with pytest.raises(ValueError, match=r"dev/swh_Latn.tsv.gz: 1 lines; the manifest says 5"):
        corpus.describe(made_up, tmp_path, made_up / "sums")


def test_an_unknown_source_is_named_with_its_line(made_up, tmp_path):
    lines = {name_of("test", n): f"moja {n}" for n in range(TEST - 1)} | {"web:1": "mbili"}
    write(made_up / "mix/test/swh_Latn.tsv.gz", lines)
    with pytest.raises(ValueError, match=r"test/swh_Latn.tsv.gz:130: unknown source 'web'"):
        corpus.describe(made_up, tmp_path, made_up / "sums")


DATA = Path(os.environ.get("MMT_PACKS", ROOT.parent / "shared/data"))


@pytest.mark.skipif(
    not (DATA / "mix/manifest.tsv").is_file(),
    reason="needs the packs: set MMT_PACKS to a folder with mix/, flores/, ntrex/ and tico19/",
)
def test_the_real_packs_are_of_the_expected_version():
    packs.check_versions(DATA, corpus.SUMS)
    assert len(corpus.languages_of(DATA / "mix/manifest.tsv")) == 152


def test_systems_cost_the_same_and_the_student_starts_from_its_teacher(monkeypatch):
    monkeypatch.chdir(ROOT)
    models = {}
    for name in ("dense", "top2", "student"):
        config.load([f"benchmarks/mix150/{name}.gin"])
        models[name] = config.macro("MODEL")
    dense, top2, student = (parameters.count(model) for model in models.values())
    assert top2.whole.active - top2.parts["routers"].active == dense.whole.active
    assert student.whole.active == dense.whole.active
    assert 11e6 < dense.whole.total < 13e6 < top2.whole.total
    taken = initial.shared(parameter_names.shapes(models["top2"]), models["student"])
    assert "encoder/0/mlp/wi_0" in taken and "encoder/1/mlp/wi_0" not in taken


def test_upcycled_trials_cost_what_the_dense_model_costs_that_goes_on(monkeypatch):
    monkeypatch.chdir(ROOT)
    models, costs, ends = {}, {}, {}
    for name in ("parent", "dense", "top2", "cmr"):
        config.load([f"benchmarks/mix150/ablations/upcycled/{name}.gin"])
        models[name], steps = config.macro("MODEL"), config.macro("TRAIN_STEPS")
        costs[name] = steps * parameters.count(models[name]).whole.active
        ends[name] = config.macro("LARGE_UNTIL")["steps"]
    config.load(["benchmarks/mix150/ablations/control.gin"])
    trial = config.macro("TRAIN_STEPS") * parameters.count(models["dense"]).whole.active
    for name in ("dense", "top2", "cmr"):
        assert costs["parent"] + costs[name] == pytest.approx(trial, rel=2e-3)
        assert ends[name] == ends["parent"] - 533
    parent = parameter_names.shapes(models["parent"])
    assert set(initial.upcycled(parent, models["top2"])) == set(parent)
    assert "encoder/1/mlp/shared/wi_0" in initial.upcycled(parent, models["cmr"])


def test_each_class_of_baselines_has_candidates_that_differ(monkeypatch):
    monkeypatch.chdir(ROOT)
    config.load(["benchmarks/mix150/baselines.gin"])
    classes = config.value(baselines.baselines, "classes")
    by_size: dict[int, set[str]] = {}
    for one in classes:
        by_size.setdefault(one.least, set()).add(str(one).partition(" ")[2])
        with one.configured() as (_, plan):
            assert plan.epochs >= 5
    assert sorted(by_size) == [0, 2000, 5000, 20000]
    assert all(len(settings) == 2 for settings in by_size.values())


def test_no_text_of_the_packs_is_in_the_repository():
    model = BENCHMARK / "model"  # weights and vocabulary
    files = [path for path in BENCHMARK.rglob("*") if path.is_file()]
    suffixes = {path.suffix for path in files if model not in path.parents}
    assert suffixes <= {".py", ".pyc", ".gin", ".md", ".sha256", ".json", ".jsonl", ".png", ".toml"}


def test_a_fraction_has_all_pairs_of_its_lines_and_whole_test_sets(tmp_path):
    whole = [f"line {i}" for i in range(4000)]
    eighth, part_of_32 = ([each for each in whole if fraction.in_part(each, n)] for n in (8, 32))
    assert set(part_of_32) < set(eighth) and 400 < len(eighth) < 600 and 80 < len(part_of_32) < 170

    (tmp_path / "corpus.toml").write_text(
        'name = "toy"\ntarget = "eng"\n[train]\ndeu = "a.tsv"\nswh = "b.tsv"\n'
        '[test]\ndeu = "a.tsv"\n'
    )
    for file in ("a.tsv", "b.tsv"):
        (tmp_path / file).write_text("".join(f"{file} {each}\t{each}\n" for each in whole[:50]))
    out = extend.write(
        corpora.load(tmp_path), tmp_path / "part", "toy_8",
        keep=lambda pair: fraction.in_part(pair.target, 8),
    )  # fmt: skip
    part = corpora.load(out)
    kept = {code: [pair.target for pair in part.pairs(code, "train")] for code in part.languages}
    assert kept["deu_Latn"] == kept["swh_Latn"] == [each for each in whole[:50] if each in eighth]
    assert len(list(part.pairs("deu_Latn", "test"))) == 50


def test_the_gain_of_experts_is_that_of_equal_tokens_and_lines(tmp_path):
    rows = [
        (10, 0, 5, 4.0), (10, 0, 9, 3.5), (10, 16, 5, 4.1), (10, 16, 9, 3.25), (10, 16, 12, 3.0),
        (40, 0, 5, 3.0), (40, 16, 5, 2.5),
    ]  # fmt: skip
    fields = "lines", "experts", "tokens", "validation_loss"
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(dict(zip(fields, row, strict=True))) + "\n" for row in rows))
    pairs = expert_gain.read(file)
    assert {lines: pair.gains() for lines, pair in pairs.items()} == {
        40: {5: 0.5}, 10: {5: pytest.approx(-0.1), 9: 0.25}
    }  # fmt: skip
    figure = expert_gain.draw(pairs)
    assert [len(axes.lines) for axes in figure.axes] == [4, 3]  # the last is the line of no gain
