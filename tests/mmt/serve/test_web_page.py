"""The page in a real browser (Debian's chromium): people type, read, choose, and drop a file."""

import contextlib
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.serving import Echo, echo_translator, request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGE = Path(__file__).resolve().parents[3] / "mmt/serve/page/index.html"
SIZES = {"desk": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="extra [clients]")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        with contextlib.closing(
            playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        ) as running:
            yield running


@pytest.fixture
def open_page(browser, serve_echo, tmp_path):
    """A function that opens the page; it has no error and asks no other host."""
    arabic = echo_translator(tmp_path / "vocabulary.model", sources=("deu_Latn", "arb_Arab"))

    @contextlib.contextmanager
    def open_page(size="desk", **options):
        width, height = SIZES[size]
        asked, faults = [], []
        with serve_echo(arabic) as (port, _):
            context = browser.new_context(viewport={"width": width, "height": height}, **options)
            page = context.new_page()
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.goto(f"http://127.0.0.1:{port}/")
            page.locator("#source option").first.wait_for(state="attached")
            yield page
            context.close()
        assert faults == []
        assert all(url.startswith((f"http://127.0.0.1:{port}/", "data:")) for url in asked)

    return open_page


def translated(page):
    page.locator("#state", has_text="Translated.").wait_for()
    return page.locator("#translation").inner_text()


def test_it_needs_no_other_host(serve_echo):
    text = PAGE.read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert "style=" not in text and not re.search(r"\son\w+=", text)  # the policy forbids them
    with serve_echo() as (port, _):
        headers = request(port, "GET", "/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert policy.count("sha256-") == 2


def test_people_type_and_read(open_page):
    with open_page() as page:
        assert page.locator("#source").input_value() == "de"
        page.locator("#text").press_sequentially("ein kleiner Satz")
        assert translated(page) == "ein kleiner Satz"
        page.locator("#text").fill("ein\n\nzwei. <b>drei</b>")
        page.locator("#count", has_text="22 / 100,000").wait_for()
        page.locator("#translation", has_text="<b>drei</b>").wait_for()
        assert translated(page) == "ein\n\nzwei. <b>drei</b>"
        page.get_by_role("button", name="Clear").click()
        assert page.locator("#translation").inner_text() == ""
        assert page.evaluate("document.activeElement.id") == "text"


def test_other_translations_can_be_chosen(open_page):
    with open_page() as page:
        page.locator("#text").fill("ein Satz")
        translated(page)
        page.get_by_text("Other translations").click()
        page.get_by_role("button", name="ein Satz ein Satz", exact=True).click()
        assert page.locator("#translation").inner_text() == "ein Satz ein Satz"


@pytest.mark.parametrize("name", ["notes.txt", "page.html"])
def test_a_dropped_file_is_translated(name, open_page):
    with open_page() as page:
        page.evaluate(
            """name => {
                const data = new DataTransfer();
                data.items.add(new File(["<p>ein Satz</p>"], name));
                const event = {bubbles: true, cancelable: true, dataTransfer: data};
                document.body.dispatchEvent(new DragEvent("dragover", event));
                document.body.dispatchEvent(new DragEvent("drop", event));
            }""",
            name,
        )
        link = page.get_by_role("link", name=f"Download the translation of {name}")
        with page.expect_download() as download:
            link.click()
        assert Path(download.value.path()).read_text() == "<p>ein Satz</p>"
        assert download.value.suggested_filename == name.replace(".", ".en.")


def test_a_chosen_file_shows_progress_and_a_wrong_one_why(open_page):
    with open_page() as page:
        Echo.seconds = 0.4
        lines = "\n".join(f"Satz {i}" for i in range(30)).encode()
        page.locator("#file").set_input_files(
            {"name": "a.txt", "mimeType": "text/plain", "buffer": lines}
        )
        page.locator("#file-state", has_text="of 30 sentences").wait_for()
        assert page.locator("#progress").is_visible()
        page.get_by_role("link", name="Download").wait_for()
        assert not page.locator("#progress").is_visible()
        page.locator("#file").set_input_files(
            {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"}
        )
        assert "a.pdf: this format is not supported" in page.get_by_role("alert").inner_text()


def test_right_to_left_scripts(open_page):
    with open_page() as page:
        page.locator("#source").select_option("ar")
        page.locator("#text").fill("مرحبا")
        translated(page)
        for part in ("#text", "#translation"):
            direction = f"getComputedStyle(document.querySelector('{part}')).direction"
            assert page.evaluate(direction) == "rtl"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_desk_and_phone_in_light_and_dark(size, scheme, open_page):
    with open_page(size, color_scheme=scheme) as page:
        page.locator("#text").fill("einlangeswort" * 30)
        translated(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= SIZES[size][0]
        boxes = [page.locator(part).bounding_box() for part in ("#text", "#translation")]
        side_by_side = boxes[1]["x"] > boxes[0]["x"] + boxes[0]["width"] - 1
        assert side_by_side == (size == "desk")
        assert contrast(page, "body") > 10
        assert contrast(page, "#state") > 4.5
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") != scheme
        assert contrast(page, "body") > 10


def contrast(page, part):
    """The contrast of a text against its background (WCAG 2)."""
    colours = page.evaluate(
        """part => {
            let box = document.querySelector(part);
            const found = [getComputedStyle(box).color];
            const plain = "rgba(0, 0, 0, 0)";
            while (getComputedStyle(box).backgroundColor === plain) box = box.parentElement;
            return [...found, getComputedStyle(box).backgroundColor];
        }""",
        part,
    )
    lights = []
    for colour in colours:
        parts = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_keyboard_and_screen_reader(open_page):
    with open_page() as page:
        reached = []
        page.evaluate("document.activeElement.blur()")
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert [part for part in reached if part in ("theme", "source", "target", "text")] == [
            "theme", "source", "target", "text",
        ]  # fmt: skip
        page.locator("#text").fill("ein Satz")
        page.locator("#text").press("Control+Enter")
        translated(page)
        unnamed = page.evaluate(
            """[...document.querySelectorAll("button, select, textarea, input, progress")]
                .filter(e => !e.ariaLabel && !e.getAttribute("aria-labelledby") && !e.title
                    && !e.textContent.trim() && !(e.labels && e.labels.length)).map(e => e.id)"""
        )
        assert unnamed == []
        assert page.locator("#state").get_attribute("role") == "status"
        assert page.locator("html").get_attribute("lang") == "en"


def test_a_refusal_is_read_out(open_page):
    with open_page() as page:
        page.route("**/translate", lambda route: route.fulfill(
            status=503, body='{"error": "Slowdown"}', headers={"Retry-After": "7"}
        ))  # fmt: skip
        page.locator("#text").fill("ein")
        page.get_by_role("alert").wait_for()
        assert page.get_by_role("alert").inner_text() == "Slowdown (try again in 7 s)"
