"""What the report's page does when it is clicked on, in a real browser where there is one."""

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
    """The page of twelve languages and two systems; one has no baseline, two have texts."""
    folder = tmp_path_factory.mktemp("page")
    rows, found = made_up(12, ("dense", "moe"), layers=1)
    del rows[-5]  # a baseline
    lines = [f"a line with the number {n} at its end, and that is all" for n in range(400)]
    for row in rows[13:15]:
        keep(folder / "hypotheses", row, lines, lines, lines)
        own = interval_of(row, folder / "hypotheses")
        found = [
            dataclasses.replace(one, hypotheses=own.hypotheses) if one.key == own.key else one
            for one in found
        ]
    results.add_rows(folder / "results.jsonl", rows)
    analysis.add(folder / "analysis.jsonl", found)
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
    rows, found = made_up(40, tuple(f"system_{letter}_further" for letter in "abcdefg"), layers=1)
    rows = rows[: -40 + 13]  # thirteen baselines
    results.add_rows(folder / "results.jsonl", rows)
    analysis.add(folder / "analysis.jsonl", found)
    report.report([folder / "results.jsonl"], folder / "report")
    return (folder / "report/report.html").read_text(), compare(rows)[0]


@pytest.mark.parametrize("width", [390, 1400])
def test_a_page_fits_a_screen_and_begins_with_the_best_system(many, width, tmp_path):
    page, comparison = many
    frame = f'<iframe style="border:0;width:{width}px;height:9000px" srcdoc="{html.escape(page)}">'
    found = seen_in_browser(
        f"<!doctype html><meta charset=utf-8>{frame}</iframe>",
        f'document.querySelector("iframe").addEventListener("load", () => {{ {EYES}', "});",
        tmp_path,
    )
    assert width - 20 <= found["screen"] == found["width"]
    assert not found["beyond"] and not found["cut"] and not found["texts"]
    assert set(found["figures"]) == {"narrow" if width < 600 else "wide"}
    assert len(found["figures"]) >= 5
    deltas = [head.removesuffix("ΔBLEU") for head in found["heads"] if head.endswith("ΔBLEU")]
    assert deltas == list(comparison.systems[: len(deltas)]), "the best first"
    assert len(deltas) == (1 if width < 600 else 3)
    assert len(found["rows"]) >= 13 and all(found["rows"][:13]), "those that can be compared first"
    hidden = int(re.search(r"\d+", found["more"])[0])
    assert hidden and found["every"] == len(found["heads"]) + hidden


def seen_in_browser(page, script, end, folder):
    """What a script at the end of a page puts into `found`; `end` closes what it opens."""
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
    """A function that opens the page, runs a script in it, and gives what that `found`."""

    def play(script):
        body = page.replace("</body>", "").replace("</html>", "")
        return seen_in_browser(body, HANDS + script, "", tmp_path)

    return play


def test_sorting_by_number_goes_down_then_up_and_what_is_missing_stays_last(played):
    found = played("""
        found.bare = rows().map(row => !row.dataset.tags.split(" ").includes("baseline"));
        click("Train pairs"); found.before = values("Train pairs").map(Number);
        click("Train pairs"); found.up = values("Train pairs").map(Number);
        found.marked = heads.map(head => head.getAttribute("aria-sort"));
        found.where = at("Train pairs");
        click("baselineBLEU"); found.down = values("baselineBLEU");
        click("baselineBLEU"); found.again = values("baselineBLEU");
        found.now = heads.map(head => head.getAttribute("aria-sort")).filter(Boolean);
    """)
    assert found["bare"] == [False] * 11 + [True], "languages that can be compared come first"
    assert len(found["before"]) == 12
    assert found["before"] == sorted(found["before"], reverse=True)
    assert found["up"] == found["before"][::-1]
    assert found["marked"][found["where"]] == "ascending"
    assert sum(mark is not None for mark in found["marked"]) == 1
    for values, order in ((found["down"], -1), (found["again"], 1)):
        assert values[-1] is None and None not in values[:-1]
        numbers = [float(value) for value in values[:-1]]
        assert numbers == sorted(numbers, key=lambda value: order * value)
    assert found["now"] == ["ascending"]


def test_names_are_sorted_by_alphabet_and_trust_by_grade(played):
    found = played("""
        click("Code"); found.codes = values("Code");
        click("Test settrust"); found.grades = values("Test settrust");
    """)
    assert found["codes"] == sorted(found["codes"]) and len(set(found["codes"])) == 12
    order = ["poor", "fair", "good"]
    assert found["grades"] == sorted(found["grades"], key=order.index) and set(found["grades"])


def test_the_filter_takes_words_without_accents_and_a_group(played):
    found = played("""
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
    assert found["all"] == "12 of 12 languages"
    assert found["found"] == [4] and found["counted"] == "1 of 12 languages"
    assert found["none"] == [0, "0 of 12 languages"] and found["back"] == 12
    assert found["high"] == sorted(found["pairs"], reverse=True)[: len(found["high"])]
    assert 1 <= len(found["high"]) < 12


def test_examples_go_with_their_language_and_a_system_s_columns_with_its_box(played):
    found = played("""
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
    assert found["examples"] == 2 and found["left"] == [found["code"]]
    assert found["before"] == "table-cell" and found["after"] == "none"


def test_the_theme_turns_and_stays_turned(played):
    found = played("""
        const button = document.getElementById("theme"), paint = () =>
            getComputedStyle(document.body).backgroundColor;
        found.before = [button.textContent, paint()];
        button.click(); found.after = [button.textContent, paint()];
        found.kept = localStorage.getItem("theme");
    """)
    assert {found["before"][0], found["after"][0]} == {"Light", "Dark"}
    assert found["before"][1] != found["after"][1] and found["kept"] in ("light", "dark")
