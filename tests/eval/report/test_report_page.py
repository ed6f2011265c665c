"""The report's page in a real browser, if there is one: clicking, sorting, filtering."""

import dataclasses
import html
import json
import re
import shutil
import subprocess

import pytest

from eval import report
from eval.records import analysis, results
from eval.report.comparison import compare
from tests.eval.report.test_examples import interval_of, keep
from tests.helpers.made_up import made_up

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium and no google-chrome here")

# What a person at the page does and sees; `found` is what a test's script gives back.
HANDS = """
const found = {}, table = document.querySelector("table.sortable");
const rows = () => [...table.tBodies[0].rows], shown = () => rows().filter(row => !row.hidden);
const heads = [...table.tHead.rows[0].cells];
const at = label => heads.findIndex(head => head.textContent.trim() === label);
const click = label => heads[at(label)].querySelector("button").click();
const values = label => rows().map(row => row.cells[at(label)].dataset.v ?? null);
const counted = () => document.querySelector(".tools output").textContent;
const enter = (selector, value) => {
  const field = document.querySelector(".tools " + selector);
  field.value = value;
  field.dispatchEvent(new Event("input", {bubbles: true}));
};
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of twelve languages and two systems; a baseline is missing, two systems have texts.
    """
    folder = tmp_path_factory.mktemp("page")
    rows, analyses = made_up(12, ("dense", "moe"), layers=1)
    del rows[-5]  # a baseline
    lines = [f"a line with the number {n} at its end, and that is all" for n in range(400)]
    for row in rows[13:15]:
        keep(folder, row, lines, lines, lines)
        texts = interval_of(row, folder)
        analyses = [
            dataclasses.replace(r, hypotheses=texts.hypotheses) if r.key == texts.key else r
            for r in analyses
        ]
    results.add_rows(folder / "results.jsonl", rows)
    analysis.add(folder / "analysis.jsonl", analyses)
    report.report([folder / "results.jsonl"], folder / "report")
    return (folder / "report/report.html").read_text()


# What a reader sees of a page in a frame of some width: is anything beyond its edges, or cut?
EYES = """
const found = {}, frame = document.querySelector("iframe"), page = frame.contentDocument;
const seen = [...page.querySelectorAll("main, main *")].filter(e => e.getClientRects().length);
const name = e =>
  `${e.tagName}.${e.className.baseVal ?? e.className} ${e.textContent.slice(0, 30)}`;
const inside = (inner, outer, room) => inner.left >= outer.left - room
  && inner.right <= outer.right + room && inner.top >= outer.top - room
  && inner.bottom <= outer.bottom + room;
found.width = page.documentElement.scrollWidth;
found.screen = page.documentElement.clientWidth;  // without a scroll bar
found.beyond = seen.filter(e => !e.closest("svg")
  && e.getBoundingClientRect().right > found.screen + 1).map(name);
found.cut = seen.filter(e => e.scrollWidth > e.clientWidth + 1
  && ["hidden", "clip", "auto", "scroll"].includes(getComputedStyle(e).overflowX)).map(name);
found.texts = seen.filter(e => e.tagName === "text" && !inside(e.getBoundingClientRect(),
  e.closest("svg").getBoundingClientRect(), 4)).map(name);
found.figures = seen.filter(e => e.tagName === "svg").map(e =>
  e.closest(".wide, .narrow").className);
const head = [...page.querySelectorAll("table.sortable th")].filter(e => e.getClientRects().length);
found.heads = head.map(e => e.textContent.trim());
const table = page.querySelector("table.sortable");
found.rows = [...table.tBodies[0].rows].filter(row => row.getClientRects().length)
  .map(row => row.cells[2].textContent);
const more = table.closest(".fitted").querySelector(".columns");
found.more = more.hidden ? "" : more.textContent;
more.click();
found.every = [...page.querySelectorAll("table.sortable th")].filter(e => e.getClientRects().length)
  .length;
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """The page of forty languages, seven systems and few baselines, and the best system."""
    folder = tmp_path_factory.mktemp("many")
    systems = tuple(f"system_{letter}_further" for letter in "abcdefg")
    rows, analyses = made_up(40, systems, layers=1)
    rows = rows[: -40 + 13]  # thirteen baselines
    results.add_rows(folder / "results.jsonl", rows)
    analysis.add(folder / "analysis.jsonl", analyses)
    report.report([folder / "results.jsonl"], folder / "report")
    return (folder / "report/report.html").read_text(), compare(rows)[0]


@pytest.mark.parametrize("width", [390, 1400])
def test_a_page_fits_a_screen_and_begins_with_the_best_system(many, width, tmp_path):
    page, comparison = many
    frame = f'<iframe style="border:0;width:{width}px;height:9000px" srcdoc="{html.escape(page)}">'
    seen = seen_in_browser(
        f"<!doctype html><meta charset=utf-8>{frame}</iframe>",
        f'document.querySelector("iframe").addEventListener("load", () => {{ {EYES}', "});",
        tmp_path,
    )
    assert width - 20 <= seen["screen"] == seen["width"]
    assert not seen["beyond"] and not seen["cut"] and not seen["texts"]
    assert set(seen["figures"]) == {"narrow" if width < 600 else "wide"}
    assert len(seen["figures"]) >= 5
    deltas = [head.removesuffix("ΔBLEU") for head in seen["heads"] if head.endswith("ΔBLEU")]
    assert deltas == list(comparison.systems[: len(deltas)]), "the best first"
    assert len(deltas) == (1 if width < 600 else 3)
    assert len(seen["rows"]) >= 13 and all(seen["rows"][:13]), "those that can be compared first"
    hidden = int(re.search(r"\d+", seen["more"])[0])
    assert hidden and seen["every"] == len(seen["heads"]) + hidden


def seen_in_browser(page, script, end, folder):
    """Returns what a script at the end of a page puts into `found`; `end` closes the open elements.
    """
    give = 'document.getElementById("found").textContent = JSON.stringify(found);'
    file = folder / "page.html"
    file.write_text(f'{page}<pre id="found"></pre><script>{script}\n{give}{end}</script>')
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000",
               "--window-size=1600,1000"]  # fmt: skip
    done = subprocess.run(
        [BROWSER, *options, f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()],
        timeout=120, capture_output=True, text=True, check=True,
    )  # fmt: skip
    written = re.search(r'<pre id="found">(.+?)</pre>', done.stdout)
    assert written, f"the script stopped: {done.stderr[-2000:]}"
    return json.loads(html.unescape(written[1]))


@pytest.fixture
def played(page, tmp_path):
    """Returns a function that opens the page, runs a script in it, and returns the script's
    `found`.
    """

    def play(script):
        body = page.replace("</body>", "").replace("</html>", "")
        return seen_in_browser(body, HANDS + script, "", tmp_path)

    return play


def test_sorting_by_number_goes_down_then_up_and_what_is_missing_stays_last(played):
    shown = played("""
        found.bare = rows().map(row => !row.dataset.tags.split(" ").includes("baseline"));
        click("Train pairs"); found.before = values("Train pairs").map(Number);
        click("Train pairs"); found.up = values("Train pairs").map(Number);
        found.marked = heads.map(head => head.getAttribute("aria-sort"));
        found.where = at("Train pairs");
        click("baselineBLEU"); found.down = values("baselineBLEU");
        click("baselineBLEU"); found.again = values("baselineBLEU");
        found.now = heads.map(head => head.getAttribute("aria-sort")).filter(Boolean);
    """)
    assert shown["bare"] == [False] * 11 + [True], "languages that can be compared come first"
    assert len(shown["before"]) == 12
    assert shown["before"] == sorted(shown["before"], reverse=True)
    assert shown["up"] == shown["before"][::-1]
    assert shown["marked"][shown["where"]] == "ascending"
    assert sum(mark is not None for mark in shown["marked"]) == 1
    for values, order in ((shown["down"], -1), (shown["again"], 1)):
        assert values[-1] is None and None not in values[:-1]
        numbers = [float(value) for value in values[:-1]]
        assert numbers == sorted(numbers, key=lambda value: order * value)
    assert shown["now"] == ["ascending"]


def test_names_are_sorted_by_alphabet_and_quality_by_grade(played):
    shown = played("""
        click("Code"); found.codes = values("Code");
        click("Test settrust"); found.grades = values("Test settrust");
    """)
    assert shown["codes"] == sorted(shown["codes"]) and len(set(shown["codes"])) == 12
    order = ["poor", "fair", "good"]
    assert shown["grades"] == sorted(shown["grades"], key=order.index) and set(shown["grades"])


def test_the_filter_takes_words_without_accents_and_a_group(played):
    shown = played("""
        found.all = counted();
        rows()[4].cells[0].textContent = "Zaïrois Élevé";
        enter("[type=search]", "eleve zair"); found.found = shown().map(row => rows().indexOf(row));
        found.counted = counted();
        enter("[type=search]", "no such language"); found.none = [shown().length, counted()];
        enter("[type=search]", ""); click("Train pairs");
        enter("select", "high"); found.high = values("Train pairs")
            .filter((_, place) => !rows()[place].hidden).map(Number);
        found.pairs = values("Train pairs").map(Number);
        enter("select", ""); found.back = shown().length;
    """)
    assert shown["all"] == "12 of 12 languages"
    assert shown["found"] == [4] and shown["counted"] == "1 of 12 languages"
    assert shown["none"] == [0, "0 of 12 languages"] and shown["back"] == 12
    assert shown["high"] == sorted(shown["pairs"], reverse=True)[: len(shown["high"])]
    assert 1 <= len(shown["high"]) < 12


def test_examples_go_with_their_language_and_a_system_s_columns_with_its_box(played):
    shown = played("""
        const examples = [...document.querySelectorAll(".examples [data-code]")];
        found.examples = examples.length;
        enter("[type=search]", examples[0].dataset.code);
        found.left = examples.filter(one => !one.hidden).map(one => one.dataset.code);
        found.code = examples[0].dataset.code;
        const box = document.querySelector(".tools [type=checkbox]");
        const column = table.querySelector("td." + box.value);
        found.before = getComputedStyle(column).display;
        box.click(); found.after = getComputedStyle(column).display;
    """)
    assert shown["examples"] == 2 and shown["left"] == [shown["code"]]
    assert shown["before"] == "table-cell" and shown["after"] == "none"


def test_the_chosen_theme_is_kept(played):
    shown = played("""
        const button = document.getElementById("theme"), paint = () =>
            getComputedStyle(document.body).backgroundColor;
        found.before = [button.textContent, paint()];
        button.click(); found.after = [button.textContent, paint()];
        found.kept = localStorage.getItem("theme");
    """)
    assert {shown["before"][0], shown["after"][0]} == {"Light", "Dark"}
    assert shown["before"][1] != shown["after"][1] and shown["kept"] in ("light", "dark")
