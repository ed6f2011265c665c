"""The report: rows in, one page and its companions out."""

import csv
import dataclasses
import html.parser
import re

import pytest
from test_comparison import baseline, row, seven

from eval import report, results


class Page(html.parser.HTMLParser):
    """Tags, attributes and tables of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.tables, self.words = [], [], {}, []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br", "input", "use"):
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
        self.words.append(data)
        if self.open and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data


@pytest.fixture
def render(tmp_path):
    """A function that reports on rows; the folder of the report."""

    def rendered(rows, out="report"):
        results.add_rows(tmp_path / "results.jsonl", rows)
        report.report([tmp_path / "results.jsonl"], tmp_path / out)
        return tmp_path / out

    return rendered


def keep(folder, given, sources, hypotheses, references=None):
    """Puts kept translations of a row beside a results file."""
    stem = folder / "hypotheses" / given.system / given.testset / given.source
    stem.parent.mkdir(parents=True, exist_ok=True)
    texts = {"src": sources, "hyp": hypotheses, "ref": references or hypotheses}
    for kind, lines in texts.items():
        stem.with_suffix(f".{kind}").write_text("".join(line + "\n" for line in lines))


def test_what_is_written(render):
    out = render(seven())
    assert sorted(path.name for path in out.iterdir()) == [
        "bleu_by_size_cldr.png", "bleu_by_size_cldr.svg", "delta_bleu_cldr.png",
        "delta_bleu_cldr.svg", "report.csv", "report.html", "report.md",
    ]  # fmt: skip


def test_the_page_is_whole_and_alone(render):
    text = (render(seven()) / "report.html").read_text()
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "img", "image", "object", "base"), tag
        assert "src" not in attributes, (tag, attributes)
        assert attributes.get("href", "#").startswith("#")
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert sum(tag == "svg" for tag, _ in page.tags) == 2
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert "prefers-color-scheme: dark" in text and "viewport" in text


def test_every_language_is_in_every_format(render):
    out = render(seven())
    table = Page((out / "report.html").read_text()).tables["languages-cldr"]
    names = [cells[0] for cells in table[1:]]
    assert names[:3] == ["German", "Russian", "Swahili"] and len(names) == 7
    assert table[1][1:] == ["1,000", "40.0", "60.0", "50.0", "60.0", "−10.0", "deu_Latn",
                            "Latin", "Indo-European"]  # fmt: skip
    assert table[2][4:7] == ["", "", ""], "no baseline, no difference"
    with open(out / "report.csv", newline="") as file:
        records = list(csv.DictReader(file))
    assert [record["Language"] for record in records] == names
    assert float(records[2]["multi ΔBLEU"]) == 2 and records[1]["baseline BLEU"] == ""
    markdown = (out / "report.md").read_text()
    assert [name for name in names if f"| {name} | " in markdown] == names


def test_headlines_and_means(render):
    words = " ".join("".join(Page((render(seven()) / "report.html").read_text()).words).split())
    for text in ("7 languages into English", "+8.0", "3 of 4", "43.0", "3 of 7 languages"):
        assert text in words


def test_markdown_tables_are_tables(render):
    rows = [row(system="a|b_*c*"), baseline(), *seven()[2:]]
    text = (render(rows) / "report.md").read_text()
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(blocks) == 6  # all, those with a baseline, scripts, families, languages, recipe
    for block in blocks:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block
        assert re.fullmatch(r"\|( -+:? \|)+", block.splitlines()[1])
    assert r"a\|b\_\*c\*" in text
    for name in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (text and name.endswith(".png")) and (render([]) / name).is_file()


def test_equal_rows_give_equal_bytes(render):
    first, second = render(seven()), render([], "again")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> $x$ {{ 7 * 7 }} &amp;"


def test_nothing_in_rows_or_texts_becomes_markup(render, tmp_path):
    name = "<img src=x onerror=alert(1)>"
    evil = row(system=name, checkpoint=EVIL, decode=EVIL, config=EVIL, bleu_signature=EVIL,
               testset="<b>&'\"", sentences=4)  # fmt: skip
    keep(tmp_path, evil, [EVIL] * 4, [EVIL] * 4)
    out = render([evil, dataclasses.replace(evil, system="bi <i>", kind="bilingual")])
    page = Page((out / "report.html").read_text())
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1 and "img" not in tags
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    words = "".join(page.words)
    assert EVIL in words and name in words, "and it is shown as it is"


def test_examples_are_shown_where_translations_are_kept(render, tmp_path):
    german, swahili = row(), row(source="swh_Latn")
    sentences = [f"Satz {number}" for number in range(10)]
    keep(tmp_path, german, sentences, [f"sentence {number}" for number in range(10)])
    out = render([german, swahili, baseline()])
    text = (out / "report.html").read_text()
    shown = re.findall(r"Satz (\d)", text)
    assert shown == ["1", "5", "8"]
    assert "Kept translations are missing for 2" in text  # Swahili's, and the German baseline's
    other = render([row(sentences=11), baseline(sentences=11)], "other")
    text = (other / "report.html").read_text()
    assert "Satz" not in text and "Kept translations do not fit and are left out for 1" in text


def test_no_translations_no_examples(render):
    text = (render(seven()) / "report.html").read_text()
    assert "no examples" in text and "<dl>" not in text


@pytest.mark.parametrize(
    "rows",
    [[row()], [baseline()], [row(train_pairs=0)],
     [row(system=name, bleu=9.0) for name in "abc"] + [baseline()],
     [row(), row(testset="ntrex"), row(target="fra_Latn"), row(testset="ntrex!")]],
    ids=["alone", "only baselines", "untrained", "three systems", "several test sets"],
)  # fmt: skip
def test_unusual_results(render, rows):
    out = render(rows)
    page = Page((out / "report.html").read_text())
    tables = [table for name, table in page.tables.items() if str(name).startswith("languages")]
    assert len(tables) == len({(r.testset, r.target) for r in rows})
    assert len(list(out.glob("*.png"))) == 2 * len(tables)


def test_several_files_are_one_report(tmp_path):
    for name, given in (("a", row()), ("b", baseline())):
        results.add_rows(tmp_path / name / "results.jsonl", [given])
    files = [tmp_path / name / "results.jsonl" for name in "ab"]
    written = report.report(files, tmp_path / "out")
    assert written[0] == tmp_path / "out" / "report.html" and all(p.is_file() for p in written)
    assert "0 of 1" in written[0].read_text()  # equal BLEU is not better


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "no rows yet"), ('{"system": 1}\n', r"results.jsonl:1: missing key"),
     ("{\n", r"results.jsonl:1: no JSON")],
)  # fmt: skip
def test_a_faulty_file_writes_nothing(tmp_path, content, message):
    (tmp_path / "results.jsonl").write_text(content)
    with pytest.raises(ValueError, match=message):
        report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_incomparable_rows_write_nothing(tmp_path):
    results.add_rows(tmp_path / "results.jsonl", [row(), baseline(sentences=11)])
    with pytest.raises(ValueError, match="cannot be compared"):
        report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_such_file(tmp_path):
    with pytest.raises(OSError, match=r"nowhere\.jsonl"):
        report.report([tmp_path / "nowhere.jsonl"], tmp_path / "out")
