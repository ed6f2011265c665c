"""The report of a cleaning: numbers that add up, text that is escaped, read back as written."""

import re
from html.parser import HTMLParser

import pytest

from mmt.data.cleaning.cascade import Outcome, Tally
from mmt.data.cleaning.corpus_rules import LengthRatios
from mmt.data.cleaning.report import Report
from mmt.data.cleaning.rules import Dropped
from mmt.data.pair import Pair


@pytest.fixture
def report():
    """Of two languages, three entries and four reasons."""
    tallies = {}
    for place, at in enumerate([("arb_Arab", "web"), ("arb_Arab", "news"), ("deu_Latn", "web")]):
        tally = tallies[at] = Tally()
        for line in range(1, 1201):
            example = Pair(f"<b>Satz</b> & {line}", f"sentence {line}", at[0], at[1], line)
            reason = ["", "tags", "overlap: a", "overlap: a + b", "numbers"][line % (3 + place)]
            dropped = Dropped(reason, "why") if reason else example
            tally.add(example, Outcome(dropped, ("normalise",) if line == 7 else ()))
    learnt = {"arb_Arab": LengthRatios(2400, 0.1, 0.2), "deu_Latn": LengthRatios(42, 0.0, 0.1)}
    rules = "[clean]\nratio = { pairs = 100 }\n"
    return Report("dirty", rules, learnt, tallies, "abc", ("deu_Latn",))


def test_the_table_adds_up(report):
    lines = report.table().split("\n\n")[0].split("\n")
    head, *rows = [re.split(r"\s{2,}", line) for line in lines]
    assert head[:5] == ["language", "corpus", "read", "kept", "%"]
    assert [row[:2] for row in rows] == [["arb_Arab", "web"], ["arb_Arab", "news"],
                                        ["deu_Latn", "web"], ["all", "3,600"]]  # fmt: skip
    assert report.read == 3600
    assert report.read - report.kept == sum(report.dropped.values())
    assert report.overlap["a"] == {"arb_Arab": 400 + 300 + 300, "deu_Latn": 240 + 240}
    assert report.overlap["b"] == {"arb_Arab": 300, "deu_Latn": 240}
    assert "ratio: too few pairs to learn from: deu_Latn" in report.text()


def test_the_page_is_whole_and_escapes_what_was_dropped(report):
    page = report.html()
    assert "<b>Satz" not in page and "&lt;b&gt;Satz&lt;/b&gt; &amp; " in page
    assert not re.search(r"""(src|href)=["'](https?:|//)""", page)

    class Reader(HTMLParser):
        cells: list[str] = []
        open = 0

        def handle_data(self, data):
            self.cells.append(data.strip())

        def handle_starttag(self, tag, attrs):
            self.open += tag in ("table", "details", "dl", "div", "main")

        def handle_endtag(self, tag):
            self.open -= tag in ("table", "details", "dl", "div", "main")

    reader = Reader()
    reader.feed(page)
    assert reader.open == 0
    for count in (f"{report.kept:,}", "German", "Arabic", *map(str, report.dropped.values())):
        assert any(count.replace(",", "") in cell.replace(",", "") for cell in reader.cells), count


def test_a_report_round_trips(report, tmp_path):
    report.write(tmp_path)
    again = Report.read_from(tmp_path / "report.json")
    assert again.text() == report.text() == (tmp_path / "report.txt").read_text("utf-8")
    assert again.html() == (tmp_path / "report.html").read_text("utf-8")
