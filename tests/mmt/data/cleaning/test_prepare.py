"""A dirty corpus of 12 languages, cleaned: counts that the maker of the dirt knows."""

import dataclasses
import re
from pathlib import Path

import pytest

from mmt.cli import main
from mmt.data import corpora
from mmt.data.cleaning import passes, prepare, rulebook, rules
from tests.mmt.data.cleaning import files, prepared_raw


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


def test_two_entries_with_one_name_are_refused_before_cleaning(tmp_path):
    (tmp_path / "a.tsv").write_text("ein Hund\tone dog\ta dog\n")
    entries = '{ pairs = "a.tsv", columns = [1, 2] }, { pairs = "a.tsv", columns = [1, 3] }'
    (tmp_path / "corpus.toml").write_text(f"[train]\nde = [{entries}]\n")
    corpus = corpora.load(tmp_path)
    assert corpus.count("de", "train") == 2
    with pytest.raises(ValueError, match=r"2 entries of deu_Latn in \[train\] have the name 'a"):
        prepare.prepare(corpus, tmp_path / "out", processes=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["{}", "[]", '{"entries": 3}'])
def test_another_report_in_the_folder_is_named(few, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.json").write_text(content)
    with pytest.raises(ValueError, match=r"out/report\.json is damaged .*: clean the corpus again"):
        prepare.prepare(few, tmp_path / "out", processes=1)
    assert (tmp_path / "out/report.json").read_text() == content


def test_entries_may_be_renamed_before_an_interrupted_run_is_resumed(tmp_path, monkeypatch):
    for code in ("deu", "swh"):
        rows = (f"{code} {i} und so weiter\tnumber {i} and so on {code}\n" for i in range(30))
        (tmp_path / f"{code}.tsv").write_text("".join(rows))

    def described(name):
        entries = (f'{code} = {{ pairs = "{code}.tsv", name = "{name}" }}' for code in languages)
        rules = ["[clean]", "length = true"]
        (tmp_path / "corpus.toml").write_text("\n".join(["[train]", *entries, *rules]))
        return corpora.load(tmp_path)

    def interrupted(job, language, advance):
        if language == "swh_Latn":
            raise KeyboardInterrupt
        return join(job, language, advance)

    languages, join, out = ("deu", "swh"), passes._join, tmp_path / "made/clean"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(passes, "_join", interrupted)
        prepare.prepare(described("web"), out, processes=1)
    prepare.prepare(described("books"), out, processes=1)
    clean = corpora.load(out)
    assert {code: clean.counts(code, "train") for code in clean.languages} == {
        "deu_Latn": [("books", 30)], "swh_Latn": [("books", 30)]
    }  # fmt: skip
    with pytest.raises(ValueError, match="it has deu_Latn books, the corpus deu_Latn web; remove"):
        prepare.prepare(described("web"), out, processes=1)
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    assert prepare.cleaned(described("web")).entries("deu", "train") == ("web",)
    with pytest.raises(ValueError, match="it has deu_Latn web, the corpus deu_Latn news; remove"):
        prepare.cleaned(described("news"))


def test_a_cleaned_corpus_whose_monolingual_text_was_moved_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MMT_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    (tmp_path / "here/deu.tsv").write_text("eins\tone\n")
    (tmp_path / "here/eng.txt").write_text("two\n")
    (tmp_path / "here/corpus.toml").write_text(
        'name = "toy"\n[train]\ndeu = "deu.tsv"\n[monolingual]\neng = "eng.txt"\n'
        "[clean]\nlength = true\n"
    )
    clean = prepare.cleaned(corpora.load(tmp_path / "here"))
    (tmp_path / "here").rename(tmp_path / "there")
    remedy = re.escape(f"no file {tmp_path}/here/eng.txt; remove {clean.root} to clean")
    with pytest.raises(ValueError, match=remedy):
        prepare.cleaned(corpora.load(tmp_path / "there"))
