"""The report: a page and its companion files, from rows."""

import csv
import dataclasses
import html.parser
import re

import pytest
from markdown_it import MarkdownIt

from eval import report
from eval.records import analysis, results
from mmt.cli.main import main
from tests.eval.records.test_behaviour import ROW as BEHAVIOUR
from tests.eval.report.test_examples import interval_of, keep
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import baseline, row, seven


class Page(html.parser.HTMLParser):
    """Tags, attributes and tables of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.tables, self.words = [], [], {}, []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attributes).get("id", len(self.tables)), [])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if self.open and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data
        if "style" not in self.open and "script" not in self.open:
            self.words.append(data)


def write(folder, rows, analyses=()):
    results.add_rows(folder / "results.jsonl", rows)
    analysis.add(folder / "analysis.jsonl", analyses)
    return folder / "results.jsonl"


@pytest.fixture
def render(tmp_path):
    """A function that reports on rows; the folder of the report."""

    def rendered(rows, out="report", **options):
        file = tmp_path / "results.jsonl"
        results.add_rows(file, rows)
        report.report([file], tmp_path / out, **options)
        return tmp_path / out

    return rendered


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a report on rows of every kind, with texts and an ablation."""
    folder = tmp_path_factory.mktemp("whole")
    rows, analyses = made_up(12, ("dense", "moe"), layers=1)
    varied = [dataclasses.replace(r, system=f"T:{value}") for r in rows[:12] for value in "15"]
    lines = [f"a line with the number {n} at its end, and that is all" for n in range(400)]
    keep(folder / "hypotheses", rows[13], lines, lines, lines)
    texts = interval_of(rows[13], folder / "hypotheses")
    analyses = [
        dataclasses.replace(item, hypotheses=texts.hypotheses) if item.key == texts.key else item
        for item in analyses
    ]
    report.report([write(folder, rows + varied, analyses)], folder / "report")
    return folder / "report"


def words(out) -> str:
    return " ".join("".join(Page((out / "report.html").read_text()).words).split())


def test_a_report_consists_of_these_files(render, whole):
    assert sorted(path.name for path in render(seven()).iterdir()) == [
        "bleu_by_size_cldr.png", "bleu_by_size_cldr.svg", "delta_bleu_cldr.png",
        "delta_bleu_cldr.svg", "means.csv", "report.csv", "report.html", "report.md",
    ]  # fmt: skip
    pictures = {path.stem for path in whole.glob("*.png")}
    assert pictures == {path.stem for path in whole.glob("*.svg")} == {
        "bleu_by_overlap_verses", "bleu_by_size_verses", "delta_bleu_verses", "experts_moe",
        "loss_by_tokens", "quality_by_cost_verses",
    }  # fmt: skip


def test_the_page_is_whole_and_alone(whole):
    text = (whole / "report.html").read_text()
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "base"), tag
        assert "src" not in attributes, (tag, attributes)
        image = tag == "image"  # a heat map's pixels
        assert attributes.get("href", "#").startswith("data:image/png" if image else "#")
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert sum(tag == "svg" for tag, _ in page.tags) == 2 * 6 + 1, "for pages and for phones"
    headings = [attributes["aria-label"] for tag, attributes in page.tags if tag == "figure"]
    assert len(headings) == 5 and not any(f">{h}</text>" in text for h in headings), "heading once"
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = {a["href"][1:] for tag, a in page.tags if tag == "a"}
    assert len(links) >= 8 and links <= set(ids)
    assert "prefers-color-scheme: dark" in text and "viewport" in text


def test_every_language_is_in_every_format(render):
    out = render(seven())
    table = Page((out / "report.html").read_text()).tables["languages-cldr"]
    names = [cells[0] for cells in table[1:]]
    assert names[4:] == ["Russian", "Italian", "Ukrainian"] and len(names) == 7
    assert table[1][1:] == ["1,000", "−10.0", "40.0", "60.0", "50.0", "60.0", "200", "deu_Latn",
                            "Latin", "Indo-European"]  # fmt: skip
    assert table[5][2] == "" and table[5][5:7] == ["", ""], "no baseline, no difference"
    blank = [cells[2] == "" for cells in table[1:]]
    assert blank == sorted(blank), "languages that can be compared come first"
    with open(out / "report.csv", newline="") as file:
        records = list(csv.DictReader(file))
    assert [record["Language"] for record in records] == names
    assert float(records[1]["multi ΔBLEU"]) == 2 and records[4]["baseline BLEU"] == ""
    markdown = (out / "report.md").read_text()
    assert [name for name in names if f"| {name} | " in markdown] == names


def test_the_same_numbers_in_every_format(whole):
    page = Page((whole / "report.html").read_text())
    table = page.tables["languages-verses"]
    with open(whole / "report.csv", newline="") as file:
        records = list(csv.DictReader(file))
    markdown = (whole / "report.md").read_text()
    place = table[0].index("moeΔBLEU")
    for cells, record in zip(table[1:], records, strict=True):
        value, low, high = (float(record[f"moe ΔBLEU{end}"]) for end in ("", " low", " high"))
        cell = f"{value:+.1f}{'●' if abs(value) > 1.5 else '○'}{low:+.1f} to {high:+.1f}"
        assert cells[place] == cell.replace("-", "−")
        assert f"{value:+.1f} ({low:+.1f} to {high:+.1f})".replace("-", "−") in markdown
    with open(whole / "means.csv", newline="") as file:
        means = {r["system"]: r for r in csv.DictReader(file) if r["by"] == "all"}
    text = f"{float(means['moe']['delta']):+.1f}"
    assert set(means) == {"dense", "moe"} and text in words(whole)
    with open(whole / "pairs.csv", newline="") as file:
        pairs = list(csv.DictReader(file))
    (best, other), *_ = ((r["system"], r["less"]) for r in pairs if ":" not in r["system"])
    pairs = [r for r in pairs if r["system"] == best]
    assert {best, other} == {"dense", "moe"} and float(means[best]["delta"]) == max(
        float(r["delta"]) for r in means.values()
    )
    less = {r["Code"]: float(r[f"{best} BLEU"]) - float(r[f"{other} BLEU"]) for r in records}
    assert {r["Code"]: float(r["BLEU difference"]) for r in pairs} == pytest.approx(less, abs=2e-4)
    assert "[pairs.csv](pairs.csv)" in markdown and "pairs.csv" in words(whole)


def test_the_answer_comes_first(render, whole):
    text = words(render(seven()))
    for sentence in ("7 languages into English",
                 "multi is better than the bilingual model on 3 of 4 languages",
                 "+8.0 BLEU on average", "43.0mean BLEU (95 %: 41.6–44.4)",
                 "no analysis.jsonl"):  # fmt: skip
        assert sentence in text
    text = words(whole)
    answer = r"is better than the bilingual model on \d+ of 11 languages: .* \(95 % interval"
    assert re.search(answer, text)
    assert "a line with the number" in text
    for sentence in ("1 of 12 languages have fewer than 100 sentences",
                 "There is no expert routing of dense",
                 "Ablations", "Sample efficiency", "Experts by language", "TRAIN_STEPS = 5000",
                 "best on validation of 3 classes", "bilingual, 12 models"):  # fmt: skip
        assert sentence in text, sentence


def test_markdown_tables_are_tables(render, whole):
    odd = (render([row(system="a|b_*c*"), baseline(), *seven()[2:]]) / "report.md").read_text()
    assert r"a\|b\_\*c\*" in odd
    for text in (odd, (whole / "report.md").read_text()):
        blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        assert len(blocks) >= 6
        for block in blocks:
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1, block
            assert re.fullmatch(r"\|( -+:? \|)+", block.splitlines()[1])
    for name in re.findall(r"!\[.*\]\((.*)\)", text):
        assert name.endswith(".png") and (whole / name).is_file()


def test_domain_and_licence_stand_beside_the_test_set(tmp_path):
    texts = analysis.TestsetDescription(
        testset="cldr", target="eng_Latn", domain="dates", licence="<CC0>"
    )
    report.report([write(tmp_path, seven(), [texts])], tmp_path / "out")
    assert "Test set: dates; licence: <CC0>." in words(tmp_path / "out")
    assert "dates; licence: " in (tmp_path / "out/report.md").read_text()


def test_recipes_are_code_in_markdown_whatever_is_in_them(tmp_path):
    text = "# Macros:\n# =====\n````\nA = '</pre><script>alert(1)</script>'\n"
    recipe = analysis.SystemRecipe(
        system="<img src=x>", config="c", text=text, seed=0, versions={"a": "b"}
    )
    rows = [row(system="<img src=x>")]
    report.report([write(tmp_path, rows, [recipe])], tmp_path / "out")
    tree = MarkdownIt().parse((tmp_path / "out/report.md").read_text())
    fences = [token.content for token in tree if token.type == "fence"]
    assert fences == ["````\nA = '</pre><script>alert(1)</script>'\n"]
    assert sum(token.type == "heading_open" and token.tag == "h1" for token in tree) == 1
    html = "".join(token.content for token in tree if token.type == "html_block")
    assert "&lt;img src=x&gt;</summary>" in html and "<img" not in html and "<script" not in html


def test_an_ablation_s_experts_and_recipes_are_shown_once(tmp_path):
    rows, analyses = made_up(4, ("dense", "moe"), layers=1)
    name = {"moe": "experts:16"}
    rows = [dataclasses.replace(item, system=name.get(item.system, item.system)) for item in rows]
    analyses = [
        dataclasses.replace(item, system=name.get(item.system, item.system)) for item in analyses
        if item.kind in ("routing", "recipe")
    ]  # fmt: skip
    news = [dataclasses.replace(item, testset="news") for item in rows]
    report.report([write(tmp_path, rows + news, analyses)], tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert text.count("### The experts of experts:16") == 1
    assert text.count("<summary>experts:16</summary>") == 1
    assert (tmp_path / "out/experts_experts-16.png").is_file()


def test_a_file_given_twice_is_read_once(tmp_path):
    file = write(tmp_path, seven())
    report.report([file, tmp_path / "." / "results.jsonl"], tmp_path / "out")
    assert "several scores" not in words(tmp_path / "out")


def test_equal_rows_give_equal_bytes(whole):
    report.report([whole.parent / "results.jsonl"], whole.parent / "again")
    for path in whole.iterdir():
        assert path.read_bytes() == (whole.parent / "again" / path.name).read_bytes(), path.name


def test_without_examples_no_text_is_in_the_report(tmp_path):
    rows, lines = [row(sentences=4), baseline(sentences=4)], ["a text with a licence"] * 4
    keep(tmp_path / "hypotheses", rows[0], lines, lines, lines)
    file = write(tmp_path, rows)
    report.report([file], tmp_path / "without", examples=False)
    (bare := tmp_path / "bare").mkdir()
    report.report([write(bare, rows)], bare / "report")
    for path in (bare / "report").iterdir():
        assert path.read_bytes() == (tmp_path / "without" / path.name).read_bytes(), path.name


EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> $x$ {{ 7 * 7 }} &amp;"


def test_nothing_in_rows_or_texts_becomes_markup(render, tmp_path):
    name = "<img src=x onerror=alert(1)>"
    evil = row(system=name, checkpoint=EVIL, decode=EVIL, config=EVIL, bleu_signature=EVIL,
               testset="<b>&'\"", sentences=4)  # fmt: skip
    keep(tmp_path / "hypotheses", evil, [EVIL] * 4, [EVIL] * 4, [EVIL] * 4)
    key = {field: getattr(evil, field) for field in analysis.OutputChecks.about}
    shares = dict.fromkeys(("copies", "empty", "short", "long", "looping", "not_english"), 0.5)
    analysis.add(tmp_path / "analysis.jsonl", [
        interval_of(evil, tmp_path / "hypotheses"),
        analysis.OutputChecks(**key, **shares, recited=None, sentences=4, hypotheses="x"),
        analysis.TestsetQuality(testset=evil.testset, source=evil.source, target=evil.target,
                                mark="poor", reasons=(EVIL,), sentences=4),
        analysis.SystemRecipe(system=name, config=EVIL, text=EVIL, seed=0, versions={EVIL: EVIL}),
        analysis.Remark(title=EVIL, text=EVIL),
    ])  # fmt: skip
    out = render([evil, dataclasses.replace(evil, system="bi <i>", kind="bilingual")],
                 allow=["small"])  # fmt: skip
    page = Page((out / "report.html").read_text())
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1 and "img" not in tags
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    text = "".join(page.words)
    assert EVIL in text and name in text, "and it is shown as it is"
    assert "Recipe notes" in text and "### Recipe notes" in (out / "report.md").read_text()


@pytest.mark.parametrize(
    "rows",
    [[row()], [baseline()], [row(train_pairs=0)], [row(sentences=3), baseline(sentences=3)],
     [row(system=name, bleu=9.0) for name in "abc"] + [baseline()],
     [row(system="T:1"), row(system="T:5")],
     [row(), row(target="fra_Latn"), row(testset="cldr!"), row(testset="cldr-")]],
    ids=["alone", "only baselines", "untrained", "few sentences", "three systems",
         "only an ablation", "several test sets"],
)  # fmt: skip
def test_unusual_results_have_tables_and_no_figures(render, rows):
    out = render(rows)
    page = Page((out / "report.html").read_text())
    tables = [table for name, table in page.tables.items() if str(name).startswith("languages")]
    assert len(tables) == len({(r.testset, r.target) for r in rows})
    pictures = {path.name for path in out.glob("*.png")}
    assert not pictures, "one language or one size: a figure would show nothing"


def test_a_file_is_no_folder_for_a_report(tmp_path):
    results = write(tmp_path, [row()], [])
    with pytest.raises(ValueError, match=r"results\.jsonl is a file; a report is"):
        report.report([results], results)
    before = sorted(tmp_path.iterdir())
    assert main(["report", str(results), "--out", str(results)]) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_systems_with_names_alike_have_figures_of_their_own(tmp_path):
    rows, analyses = made_up(3, ("a dense one", "a b", "a+b"), layers=1)
    report.report([write(tmp_path, rows, analyses)], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").glob("experts_*.svg")} == {
        "experts_a-b.svg", "experts_a-b-1.svg",
    }  # fmt: skip
    page = Page((tmp_path / "out/report.html").read_text())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_several_files_are_one_report(tmp_path):
    quality = {"testset": "cldr", "source": "deu_Latn", "target": "eng_Latn", "sentences": 9}
    for name, given, mark in (("a", row(), "fair"), ("b", baseline(), "poor")):
        write(tmp_path / name, [given], [analysis.TestsetQuality(**quality, mark=mark, reasons=())])
    files = [tmp_path / name / "results.jsonl" for name in "ab"]
    written = report.report(files, tmp_path / "out")
    assert written[0] == tmp_path / "out" / "report.html" and all(p.is_file() for p in written)
    text = written[0].read_text()
    assert "0 of 1" in text  # equal BLEU is not better
    assert 'class="grade poor"' in text, "the analysis beside each is read, the last counts"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [("results.jsonl", "", "no rows yet"),
     ("results.jsonl", '{"system": 1}\n', r"results.jsonl:1: missing key"),
     ("results.jsonl", "{\n", r"results.jsonl:1: no JSON"),
     ("analysis.jsonl", '\n{"kind": "guard"}\n', r"analysis.jsonl:2: .*'guards'")],
)  # fmt: skip
def test_a_faulty_file_writes_nothing(tmp_path, file, content, message):
    write(tmp_path, [row()])
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_incomparable_rows_write_nothing_unless_allowed(tmp_path):
    file = write(tmp_path, [row(), baseline(sentences=150)])
    with pytest.raises(ValueError, match=r"results\.jsonl: .*cannot be compared"):
        report.report([file], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    command = ["report", str(file), "--out", str(tmp_path / "out"), "--allow"]
    assert main([*command, "version"]) and not (tmp_path / "out").exists()
    assert main([*command, "versions", "--allow", "small"]) == 0
    assert "mixed, as allowed" in words(tmp_path / "out")


def test_without_a_folder_a_report_is_written_beside_its_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "runs/demo", seven())
    assert main(["report", str(file)]) == 0
    assert (file.parent / "report/report.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_missing_results_file_is_an_error(tmp_path):
    with pytest.raises(OSError, match=r"nowhere\.jsonl"):
        report.report([tmp_path / "nowhere.jsonl"], tmp_path / "out")


@pytest.mark.slow
def test_many_languages_and_systems_fit_a_page(tmp_path):
    rows, analyses = made_up(200, tuple(f"system-{place}" for place in range(10)))
    report.report([write(tmp_path, rows, analyses)], tmp_path / "report")
    assert (tmp_path / "report/report.html").stat().st_size < 8e6
    table = Page((tmp_path / "report/report.html").read_text()).tables["languages-verses"]
    assert len(table) == 201 and len({len(cells) for cells in table}) == 1


def test_behaviours_have_a_section(tmp_path):
    results.add_rows(tmp_path / "results.jsonl", seven())
    others = [dataclasses.replace(BEHAVIOUR, system=name) for name in ("a b", "a-b")]
    analysis.add(tmp_path / "analysis.jsonl", others)
    report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").glob("behaviours_*.svg")} == {
        "behaviours_a-b.svg", "behaviours_a-b-1.svg",
    }  # fmt: skip
    text = (tmp_path / "out/report.md").read_text()
    assert "| links | 75.0 % | 80.0 % | 75.0 % | German | 1 | 4 |" in text
    page = Page((tmp_path / "out/report.html").read_text())
    assert "#behaviours" in [attributes.get("href") for _, attributes in page.tags]
    assert "The behaviours of" in text and "Cases of" in words(tmp_path / "out")
