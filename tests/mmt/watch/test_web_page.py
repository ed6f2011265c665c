"""The page in a real browser: it follows a run, draws what was logged, and works by keyboard."""

import contextlib
import json
import re
import shutil

import pytest

from mmt.watch import export, open_runs
from mmt.watch.web_page import page as page_text
from tests.mmt.watch.conftest import SIZE


@pytest.fixture
def open_page(browser):
    """A function that opens an address; the page has no error and asks no other host."""

    @contextlib.contextmanager
    def open_page(address, width=1280, **options):
        asked, faults = [], []
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.goto(address)
        page.locator("html[data-updates]").wait_for(state="attached")
        yield page
        context.close()
        assert faults == []
        assert all(url.startswith((address.split("#")[0], "data:")) for url in asked), asked

    return open_page


def colours(page, canvas):
    """The number of different colours of a canvas."""
    return page.locator(canvas).first.evaluate(
        """canvas => {
            const {width, height} = canvas;
            const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
            return new Set(pixels).size;
        }"""  # noqa: E501
    )


def test_it_needs_no_other_host():
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page_text())
    assert "style=" not in page_text() and not re.search(r"\son\w+=\"", page_text())
    assert page_text().count("<script>") == 1 and "</style><" not in page_text()


def test_it_follows_a_run_while_it_is_written(made_up, tmp_path, watched, open_page):
    directory = shutil.copytree(made_up, tmp_path / "run")
    lines = (made_up / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (directory / "metrics.jsonl").write_bytes(b"".join(lines[:60]))
    with watched(directory) as port, open_page(f"http://127.0.0.1:{port}/") as page:
        page.locator(".run-name", has_text="run").wait_for()
        page.locator("#chosen button").first.wait_for()
        before = page.locator("#runs dd").first.inner_text()
        assert before.endswith(" of 4,000") and before != "4,000 of 4,000"
        with (directory / "metrics.jsonl").open("ab") as file:
            file.writelines(lines[60:])
        page.locator("#runs dd", has_text="4,000 of 4,000").wait_for()
        assert colours(page, "#heat canvas") > 50
        page.locator("#warnings summary").click()
        warnings = page.locator("#warnings").inner_text()
        assert "overfits since step" in warnings and "expert 3 of 4" in warnings
        page.locator("#decisions summary").click()
        assert "a rate is lowered" in page.locator("#decisions").inner_text()
        assert "nothing was read of web" in warnings and "no validation set" in warnings
        missing = page.locator("#missing").inner_text()
        assert "Use of the source: add @hooks.SourceUse()" in missing


def test_a_run_before_its_first_rows(made_up, tmp_path, watched, open_page):
    """The page says what is still to come, and draws no empty charts."""
    directory = shutil.copytree(made_up, tmp_path / "run")
    (directory / "ledger.json").unlink()
    (directory / "expert_load.json").unlink()
    (directory / "metrics.jsonl").write_bytes(b"")
    (directory / "config.gin").write_text(
        "TRAIN_STEPS = 4000\ntrain.Program.languages_every = 100\n"
        "train.train.hooks = [@hooks.ValidationLoss()]\nhooks.ValidationLoss.period = 200\n"
    )
    with watched(directory) as port, open_page(f"http://127.0.0.1:{port}/") as page:
        assert "no row yet" in page.locator("#runs").inner_text()
        assert page.locator("#metric").inner_text() == "no values yet"
        assert not page.locator("#curves canvas").is_visible()
        assert not any(each.is_visible() for each in page.locator("#heat canvas").all())
        missing = page.locator("#missing").inner_text()
        assert "Training loss: the first values are of step 100" in missing
        assert "Validation loss: the first values are of step 200, by @hooks" in missing
        with (directory / "metrics.jsonl").open("ab") as file:
            file.write((made_up / "metrics.jsonl").read_bytes())
        page.locator("#curves canvas").wait_for()
        assert page.locator("#metric").evaluate("each => each.value") == "loss"
        assert not page.locator("#no-curves").is_visible()
        page.locator("#none").click()
        page.locator("#no-curves", has_text="Click languages in the heat map").wait_for()
        assert not page.locator("#curves canvas").is_visible()


def test_axes_and_numbers(made_up, watched, open_page):
    """Two marks or more show the scale of an axis; thousands have their comma."""
    with watched(made_up) as port, open_page(f"http://127.0.0.1:{port}/") as page:
        assert page.evaluate("ticks(0.05, 0.92, 4)") == pytest.approx([0.2, 0.4, 0.6, 0.8])
        for low, high in ((0.05, 0.92), (0.0, 0.0078), (1.5, 86.0), (0.44, 0.46), (-3, 2)):
            assert 2 <= len(page.evaluate("([low, high]) => ticks(low, high, 4)", [low, high])) < 9
        titles = page.locator("#totals h3").all_inner_texts()
        assert "Validation tokens target tokens of a validation" in titles
        assert all(title[0].isupper() for title in titles)
        shown = page.evaluate("[20086, 4492.4, 999.9, 85.88, 0].map(number)")
        assert shown == ["20,086", "4,492", "999.9", "85.88", "0"]


def test_people_choose_metric_languages_and_steps(made_up, watched, open_page):
    with watched(made_up) as port, open_page(f"http://127.0.0.1:{port}/") as page:
        page.locator("#runs dd", has_text="4,000 of 4,000").wait_for()
        page.locator("#metric").select_option("bleu")
        page.locator("#heat-title", has_text="BLEU (validation)").wait_for()
        page.get_by_role("button", name="Clear").click()
        page.locator("#chosen button").first.wait_for(state="detached")
        page.locator("#order").select_option("name")
        heat = page.locator("#heat .rows canvas")
        heat.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowLeft")
        said = page.locator("#cell").inner_text()
        name, code, after, last, value = re.fullmatch(
            r"(.+) \((\w+)\), after step ([\d,]+), up to ([\d,]+): ([\d.]+)(?:,.*)?", said
        ).groups()
        (run,) = open_runs([made_up])
        run.read_all()
        row = next(
            row for row in map(json.loads, (made_up / "metrics.jsonl").open())
            if "language_bleu" in row and row["step"] == int(last.replace(",", ""))
        )  # fmt: skip
        assert float(value) == pytest.approx(row["language_bleu"][code], abs=0.01)
        page.keyboard.press("Enter")
        page.locator("#chosen button", has_text=name).wait_for()
        assert name in page.locator("#curves canvas").get_attribute("aria-label")
        page.locator("#first").fill("1000")
        page.locator("#first").press("Enter")
        page.locator("#whole:enabled").wait_for()
        page.reload()  # the address keeps what was chosen
        page.locator("#chosen button", has_text=name).wait_for()
        assert page.locator("#metric").input_value() == "bleu"
        assert page.locator("#first").input_value() == "1000"
        page.locator("#samples .sample", has_text=f"{code} 4000").wait_for()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [pytest.param(1280, "dark", marks=pytest.mark.slow), (390, "light")],
)
def test_an_exported_file_of_two_runs(width, scheme, made_up, tmp_path, open_page):
    """It fits desk and phone; all controls have names; all panels are drawn."""
    other = shutil.copytree(made_up, tmp_path / "other")
    (other / "ledger.json").unlink()
    export(open_runs([made_up, other]), tmp_path / "x.html")
    with open_page(f"file://{tmp_path / 'x.html'}", width, color_scheme=scheme) as page:
        assert page.locator("#heat .rows").count() == 2
        assert page.locator("#mixing .rows:visible").count() == 1
        assert page.locator("#experts .rows").count() == 2
        assert page.locator("#totals canvas").count() >= 8
        assert "other: Mixing rates: it needs the ledger" in page.locator("#missing").inner_text()
        page.locator("#values summary").click()
        page.locator("#values tbody tr").nth(len(SIZE.codes) - 1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        unnamed = page.evaluate(
            """[...document.querySelectorAll("button, select, input, canvas:not([aria-hidden])")]
                .filter(e => !e.ariaLabel && !e.textContent.trim() && !e.labels?.length)
                .map(e => e.outerHTML)"""
        )
        assert unnamed == []
        page.locator("#first").fill("1000")
        page.locator("#first").press("Enter")
        page.locator("#whole:enabled").wait_for()
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") != scheme
