"""The page of a report as tags, tables and words, and the files from which it is made."""

import html.parser

from eval.records import analysis, results


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


def write_rows(folder, rows, analyses=()):
    """Writes rows of results and analyses to a folder; returns the results file."""
    results.add_rows(folder / "results.jsonl", rows)
    analysis.add(folder / "analysis.jsonl", analyses)
    return folder / "results.jsonl"


def page_words(out) -> str:
    """Returns the words of a report's page."""
    return " ".join("".join(Page((out / "report.html").read_text()).words).split())
