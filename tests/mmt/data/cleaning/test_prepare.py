"""A dirty corpus of 12 languages, cleaned: counts that the maker of the dirt knows."""

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmt.cli import main
from mmt.data import corpora
from mmt.data.cleaning import prepare, rulebook, rules
from mmt.data.pair import SPLITS
from mmt.system import atomic, text_lines
from tests.helpers import dirty

FEW = ("deu_Latn", "tha_Thai", "arb_Arab")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The dirty corpus, the expected counts, its cleaned folder and the report."""
    root = tmp_path_factory.mktemp("dirty")
    expected = dirty.make(root / "dirty")
    corpus = corpora.load(root / "dirty")
    report = prepare.prepare(corpus, root / "clean", processes=1)
    return corpus, expected, root / "clean", report


@pytest.fixture
def few(tmp_path):
    """A smaller dirty corpus of three languages."""
    dirty.make(tmp_path / "dirty", clean=110, codes=FEW)
    return corpora.load(tmp_path / "dirty")


def files(folder):
    """Every file of a folder, and what it holds."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_counts_are_those_of_the_dirt(made):
    _, expected, _, report = made
    assert len({code for code, _, _ in expected}) == 12
    for (code, entry), tally in report.tallies.items():
        known = {reason: n for (*at, reason), n in expected.items() if at == [code, entry]}
        counts = tally.dropped | {f"~{rule}": n for rule, n in tally.changed.items()}
        assert counts == {reason: n for reason, n in known.items() if reason}, (code, entry)
        changed = sum(n for reason, n in known.items() if reason.startswith("~"))
        assert tally.kept == known[""] + changed
        assert tally.read == sum(known.values())
        assert all(
            len(examples) == min(5, tally.dropped.get(reason, tally.changed.get(reason[9:], 0)))
            for reason, examples in tally.examples.items()
        )


def test_the_cleaned_corpus_loads_and_every_pair_is_traced(made):
    corpus, _, out, report = made
    clean = corpora.load(out)
    clean.validate()
    assert (clean.name, clean.target) == (corpus.name, corpus.target)
    assert clean.languages == corpus.languages
    for code in corpus.languages:
        raw = {(pair.corpus, pair.line): pair for pair in prepared_raw(corpus, code)}
        assert clean.entries(code, "train") == corpus.entries(code, "train")
        origin = [
            (name, int(line))
            for place, name in enumerate(clean.entries(code, "train"))
            for line in text_lines.read(out / f"train/{code}.{place}-{name}.lines.zst")
        ]
        pairs = list(clean.pairs(code, "train"))
        assert len(origin) == len(set(origin)) == len(pairs)
        assert [pair.corpus for pair in pairs] == [name for name, _ in origin]
        same = sum(pair[:2] == raw[at][:2] for pair, at in zip(pairs, origin, strict=True))
        tallies = [report.tallies[code, name] for name in clean.entries(code, "train")]
        changed = sum(sum(tally.changed.values()) for tally in tallies)
        assert len(pairs) - same == changed
        for split in SPLITS[1:]:
            cleaned, before = clean.pairs(code, split), corpus.pairs(code, split)
            assert [pair[:2] for pair in cleaned] == [pair[:2] for pair in before]


def prepared_raw(corpus, code):
    for place in range(len(corpus.entries(code, "train"))):
        yield from prepare.cascade.entry_pairs(corpus, code, "train", place)


def test_the_same_command_changes_nothing_and_another_is_refused(made):
    corpus, _, out, report = made
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert prepare.prepare(corpus, out).tallies.keys() == report.tallies.keys()
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    book = rulebook.Rulebook({"": {"length": {"words": 5}}}, {"": ""})
    with pytest.raises(ValueError, match="other text, rules or test sets"):
        prepare.prepare(corpus, out, book=book)
    (out.parent / "mine").mkdir()
    (out.parent / "mine/file").write_text("mine")
    with pytest.raises(ValueError, match="is no cleaned corpus"):
        prepare.prepare(corpus, out.parent / "mine")


def test_processes_change_nothing(few, tmp_path):
    for processes in (1, 2):
        prepare.prepare(few, tmp_path / str(processes), processes=processes)
    assert files(tmp_path / "1") == files(tmp_path / "2")


KILLED = """
import os, signal, sys
from pathlib import Path
from mmt.data import corpora
from mmt.data.cleaning import prepare
real, calls = getattr(prepare, sys.argv[3]), []
def dying(*given, **named):
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(given)
    return real(*given, **named)
setattr(prepare, sys.argv[3], dying)
prepare.prepare(corpora.load(sys.argv[1]), Path(sys.argv[2]), processes=1)
"""


@pytest.mark.parametrize(
    ("where", "times"), [("_finish", 7), pytest.param("write_json", 16, marks=pytest.mark.slow)]
)
def test_a_killed_run_is_resumed(few, tmp_path, where, times, monkeypatch):
    """SIGKILL while a file is written leaves no part of it; finished files are not cleaned again.
    """
    prepare.prepare(few, tmp_path / "whole", processes=1)
    arguments = [sys.executable, "-c", KILLED, str(few.root), str(tmp_path / "out"), where]
    done = subprocess.run([*arguments, str(times)], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    left = list(tmp_path.glob(".out.*.unfinished/part/*.json"))
    assert left
    work = []
    original = prepare.Cleaner
    monkeypatch.setattr(prepare, "Cleaner", lambda *given: work.append(given) or original(*given))
    prepare.prepare(few, tmp_path / "out", processes=1)
    assert len(work) < 6 + 6 + 2 * 6  # of train, of the others, of train once more
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not list(tmp_path.glob(".out.*"))


def test_rules_that_leave_nothing_are_an_error_and_write_nothing(few, tmp_path):
    book = rulebook.Rulebook({"": {"length": {"characters": (900, 901)}}}, {"": ""})
    with pytest.raises(ValueError, match=r"drop all pairs of the corpus dirty: length: short \d+"):
        prepare.prepare(few, tmp_path / "out", book=book, processes=1)
    assert os.listdir(tmp_path) == ["dirty"]


def test_a_language_without_remaining_pairs_is_left_out_and_named(few, tmp_path):
    levels = {"": {}, "language.deu_Latn": {"length": {"characters": (900, 901)}}}
    book = rulebook.Rulebook(levels, dict.fromkeys(levels, ""))
    with pytest.warns(UserWarning, match="drop all pairs of deu_Latn"):
        prepare.prepare(few, tmp_path / "out", book=book, processes=1)
    clean = corpora.load(tmp_path / "out")
    assert clean.languages == ("arb_Arab", "tha_Thai")


def test_a_full_disk_is_named_and_what_is_finished_is_kept(few, tmp_path, monkeypatch):
    original = atomic.zstandard.open

    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    def opened(path, mode):
        return Full() if "/train/tha" in str(path) else original(path, mode)

    monkeypatch.setattr(atomic.zstandard, "open", opened)
    with pytest.raises(OSError, match=r"cannot write .*tha_Thai.*: No space left"):
        prepare.prepare(few, tmp_path / "out", processes=1)
    assert not (tmp_path / "out").exists() and list(tmp_path.glob(".out.*/joined/*.json"))
    monkeypatch.undo()
    assert prepare.prepare(few, tmp_path / "out", processes=1).kept


def test_ids_of_a_multi_way_corpus_stay(tmp_path):
    (tmp_path / "raw").mkdir()
    for side in ("de", "en"):
        text = "".join(f"GEN.1.{n}\t{side} verse {n} of them\n" for n in range(9))
        (tmp_path / f"raw/{side}.tsv").write_text(text)
    (tmp_path / "raw/corpus.toml").write_text(
        'name = "verses"\n[train]\nde = { source = "de.tsv", target = "en.tsv", join = "id" }\n'
    )
    corpus = corpora.load(tmp_path / "raw")
    prepare.prepare(corpus, tmp_path / "out", processes=1)
    clean = list(corpora.load(tmp_path / "out").pairs("de", "train"))
    assert [pair[:2] + pair[-1:] for pair in clean] == [
        pair[:2] + pair[-1:] for pair in corpus.pairs("de", "train")
    ]


def test_a_fault_of_the_text_ends_the_work_and_leaves_nothing(few, tmp_path):
    path = next((few.root / "train").glob("deu*.tsv"))
    path.write_bytes(path.read_bytes() + b"\xff\t\n")
    with pytest.raises(ValueError, match=rf"{path.name}:\d+: not UTF-8"):
        prepare.prepare(few, tmp_path / "out", processes=1)
    assert os.listdir(tmp_path) == ["dirty"]


def test_cleaned_is_made_once_by_the_description_s_own_rules(few, tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    assert prepare.cleaned(few) is few
    toml = few.root / "corpus.toml"
    toml.write_text(toml.read_text() + "[clean]\nnumbers = true\n")
    corpus = corpora.load(few.root)
    clean = prepare.cleaned(corpus)
    raw = corpus.count("deu", "train")
    assert clean.count("deu", "train") == raw - 3 - 3 - 6  # empty, numbers, overlap
    made = files(clean.root)
    assert files(prepare.cleaned(corpora.load(few.root)).root) == made


def run(capsys, *arguments):
    """The output of `mmt data prepare`."""
    status = main.main(["data", "prepare", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command_removes_what_is_in_a_test_set(few, tmp_path, capsys):
    held = tmp_path / "held"
    held.mkdir()
    news = [pair for pair in prepared_raw(few, "deu_Latn") if pair.corpus == "news"]
    chosen = news[3:5]
    (held / "deu.tsv").write_text("".join(f"{p.source}\t{p.target}\n" for p in chosen))
    out = tmp_path / "out"
    status, table, _ = run(capsys, few.root, "--out", out, "--testset", held,
                           "--gin.prepare.processes=1")  # fmt: skip
    assert status == 0 and f"overlap with held: {len(chosen)} pairs of 1 languages" in table
    assert (out / "report.html").is_file() and "[clean]" in (out / "report.txt").read_text()


def test_the_command_shows_the_progress_of_every_pass(few, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then writes as to a terminal
    assert main.main(["data", "prepare", str(few.root), "--out", str(tmp_path / "clean")]) == 0
    screen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    for label, total in (("learning lengths", r"\d+"), ("cleaning", r"\d+"),
                         ("removing duplicates", len(few.languages))):  # fmt: skip
        assert re.search(rf"{label} +\S+ +0/({total})\b", screen), label
        assert re.search(rf"{label} +\S+ +({total})/\1\b", screen), label


def test_explain_names_the_rule_and_writes_nothing(few, tmp_path, capsys):
    (tmp_path / "rules.toml").write_text(
        "[clean]\ndefault = true\n[clean.corpus.news]\nnumbers = false\n"
    )
    before = files(tmp_path)
    status, text, _ = run(
        capsys, few.root, "--rules", tmp_path / "rules.toml", "--language", "German",
        "--explain", "Ã¼ber 17 ganze Tage\\tfor all of 71 days",
    )  # fmt: skip
    web, news = text.split("news:")
    assert status == 0
    assert "encoding     changes 'Ã¼ber 17 ganze Tage' -> 'über 17 ganze Tage'" in web
    assert "numbers      drops it, 'numbers': the sides have the numbers 17 / 71" in web
    assert "numbers" not in news and "duplicates   depends on earlier pairs" in news
    assert web.rstrip().endswith("dropped") and news.rstrip().endswith("kept")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CORPUS"], "expected --out DIR, or --explain"),
        (["CORPUS", "--explain", "a\tb"], "expected --out DIR, or --explain"),
        (["CORPUS", "--explain", "a b", "--language", "de"], "expected source<TAB>target"),
        (["CORPUS", "--explain", "a\tb", "--language", "fr"], "no train pairs of fra_Latn"),
        (["CORPUS", "--out", "x", "--gin_file", "a.gin"], "expected CORPUS and --out DIR, or"),
        (["--gin_file", "a.gin", "--testset", "x"], "belong to CORPUS"),
        ([], "expected CORPUS and --out DIR, or --gin_file"),
        (["CORPUS", "--out", "x", "--testset", "nothing"], "nothing"),
        (["CORPUS", "--out", "CORPUS/train/out"], "train/out is in "),
        (["CORPUS", "--out", "CORPUS"], "is the folder of the corpus"),
        (["CORPUS", "--out", "x", "--gin.prepare.processes=-4"], "processes is -4; allowed: 1 and"),
        (["CORPUS", "--out", "x", "--rules", "none.toml"], "no rules in 'none.toml'"),
    ],
)
def test_impossible_commands_are_errors(few, capsys, arguments, message):
    given = [argument.replace("CORPUS", str(few.root)) for argument in arguments]
    status, _, error = run(capsys, *given)
    assert status == 1 and message in error and not Path("x").exists()


def test_rules_for_unknown_entries_are_reported(few, tmp_path):
    levels = {"": {"length": True}, "corpus.nwes": {"length": False}}
    book = rulebook.Rulebook(levels, {"": "r.toml:1", "corpus.nwes": "r.toml:3"})
    with pytest.warns(UserWarning, match="r.toml:3: the corpus has no corpus 'nwes'; nearest: new"):
        prepare.prepare(few, tmp_path / "out", book=book, processes=1)


def test_every_rule_is_described():
    for name, rule in rulebook.RULES.items():
        assert rule.__doc__, name
    assert dataclasses.fields(rulebook.Rulebook) and rules.Dropped("a").detail == ""


@pytest.mark.parametrize("ids", [False, True])
def test_a_dropped_line_ends_a_document(tmp_path, ids):
    """Cleaned lines are neighbours only if they were; documents stay apart."""
    folder = tmp_path / "talks"
    folder.mkdir()
    letters = "ab?cd\nef\n"  # `?` is dropped, an empty line ends a document
    sources = ["" if c == "\n" else "1" if c == "?" else f"das Wort {c}" for c in letters]
    targets = ["" if c == "\n" else "2" if c == "?" else f"the word {c}" for c in letters]
    for name, side in (("de", sources), ("en", targets)):
        lines = [f"{i}\t{text}" if text and ids else text for i, text in enumerate(side)]
        kept = [line for line in lines if line or not ids or name == "de"]
        (folder / name).write_text("\n".join(kept) + "\n")
    join = ', join = "id"' * ids
    (folder / "corpus.toml").write_text(
        f'[train]\ndeu = {{ source = "de", target = "en"{join}, documents = true }}\n'
        "[clean]\nlength = { characters = [5, 1000] }\n"
    )
    corpus = corpora.load(folder)
    prepare.prepare(corpus, tmp_path / "clean", processes=1)
    cleaned = corpora.load(tmp_path / "clean")
    read = [(pair.source[-1], pair.follows) for pair in cleaned.pairs("deu", "train")]
    assert read == [("a", False), ("b", True), ("c", False), ("d", True), ("e", False), ("f", True)]
    assert [pair.follows for pair in corpus.pairs("deu", "train")].count(True) == 5


def test_keys_of_a_catalogue_are_no_ids(tmp_path):
    """Plural forms share a key, and keys may have tabs and line breaks."""
    for language, texts in (("de", ["ein Hund", "viele Hunde", "Maus"]),
                            ("en", ["one dog", "many dogs", "mouse"])):  # fmt: skip
        keys = ["a_one", "a_other", "b\tc\nd"]
        content = json.dumps(dict(zip(keys, texts, strict=True)))
        (tmp_path / f"{language}.json").write_text(content)
    (tmp_path / "corpus.toml").write_text(
        '[train]\nde = { source = "de.json", target = "en.json" }\n'
    )
    book = rulebook.Rulebook({"": {"length": True}}, {"": "r.toml:1"})
    prepare.prepare(corpora.load(tmp_path), tmp_path / "out", book=book, processes=1)
    clean = corpora.load(tmp_path / "out")
    assert [pair[:2] for pair in clean.pairs("de", "train")] == [
        ("ein Hund", "one dog"), ("viele Hunde", "many dogs"), ("Maus", "mouse")
    ]  # fmt: skip


def test_a_cleaned_corpus_keeps_domain_and_licence(tmp_path):
    (tmp_path / "a.tsv").write_text("ein Hund\tone dog\n")
    facts = 'domain = "tales"\nlicence = "CC BY-SA \u201c4.0\u201d"\n'
    (tmp_path / "corpus.toml").write_text(f'{facts}[train]\nde = "a.tsv"\n', "utf-8")
    corpus = corpora.load(tmp_path)
    prepare.prepare(corpus, tmp_path / "out", processes=1)
    clean = corpora.load(tmp_path / "out")
    assert (clean.domain, clean.licence) == (corpus.domain, corpus.licence)
    assert (clean.domain, clean.licence) == ("tales", "CC BY-SA \u201c4.0\u201d")


def test_a_nul_that_no_rule_removes_drops_its_pair(tmp_path):
    (tmp_path / "a.tsv").write_text("ein Hund\tone dog\nKa\0tze\tcat\n")
    (tmp_path / "corpus.toml").write_text('[train]\nde = "a.tsv"\n')
    corpus = corpora.load(tmp_path)
    for rule, kept in (("length", ["ein Hund"]), ("normalise", ["ein Hund", "Katze"])):
        book = rulebook.Rulebook({"": {rule: True}}, {"": "r.toml:1"})
        report = prepare.prepare(corpus, tmp_path / rule, book=book, processes=1)
        clean = corpora.load(tmp_path / rule)
        assert [pair.source for pair in clean.pairs("de", "train")] == kept
        assert report.dropped == ({"nul": 1} if rule == "length" else {})


@pytest.mark.parametrize("content", ["{}", "[]", '{"entries": 3}'])
def test_another_report_in_the_folder_is_named(few, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.json").write_text(content)
    with pytest.raises(ValueError, match=r"out/report\.json is damaged .*: clean the corpus again"):
        prepare.prepare(few, tmp_path / "out", processes=1)
    assert (tmp_path / "out/report.json").read_text() == content
