"""The page in a real browser (Debian's chromium): people type, read, choose, and drop a file."""

import contextlib
import dataclasses
import re
from pathlib import Path

import pytest

from mmt.identify import IdentifierConfig
from mmt.identify.training import train
from mmt.translate.risk import FLAGS
from tests.helpers.serving import Echo, echo_translator, request
from tests.mmt.identify import made_up
from tests.mmt.translate.test_risk import CALIBRATION

PAGE = Path(__file__).resolve().parents[3] / "mmt/serve/page/index.html"
SIZES = {"desk": (1280, 800), "phone": (390, 844)}


@pytest.fixture
def open_page(browser, serve_echo, tmp_path):
    """A function that opens the page; it has no error and asks no other host."""
    arabic = echo_translator(tmp_path / "vocabulary.model", sources=("deu_Latn", "arb_Arab"))

    @contextlib.contextmanager
    def open_page(size="desk", calibration=None, context_lines=0, identifier=None, **options):
        width, height = SIZES[size]
        asked, faults = [], []
        model = dataclasses.replace(arabic, identifier=identifier)
        facts = {"calibration": calibration, "context_lines": context_lines}
        with serve_echo(model, **facts) as (port, _):
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


def test_dropped_files_are_translated_one_after_the_other(open_page):
    with open_page() as page:
        page.evaluate(
            """names => {
                const data = new DataTransfer();
                for (const name of names) data.items.add(new File(["<p>ein Satz</p>"], name));
                const event = {bubbles: true, cancelable: true, dataTransfer: data};
                document.body.dispatchEvent(new DragEvent("dragover", event));
                document.body.dispatchEvent(new DragEvent("drop", event));
            }""",
            ["notes.txt", "page.html"],
        )
        for name in ("notes.txt", "page.html"):
            link = page.get_by_role("link", name=f"Download the translation of {name}")
            with page.expect_download() as download:
                link.click()
            assert Path(download.value.path()).read_text() == "<p>ein Satz</p>"
            assert download.value.suggested_filename == name.replace(".", ".en.")
        page.get_by_role("button", name="Remove notes.txt").click()
        assert page.locator("#files li").count() == 1
        assert page.evaluate("document.activeElement.ariaLabel") == "Remove page.html"


def test_chosen_files_show_progress_and_a_wrong_one_why(open_page):
    with open_page() as page:
        Echo.seconds = 0.3
        lines = "\n".join(f"Satz {i}" for i in range(20)).encode()
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Choose files").press("Enter")
        chooser.value.set_files([
            {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"},
            {"name": "a.txt", "mimeType": "text/plain", "buffer": lines},
            {"name": "b.txt", "mimeType": "text/plain", "buffer": b"ein"},
        ])  # fmt: skip
        files = page.locator("#files li")
        files.nth(1).get_by_text("of 20 sentences").wait_for()
        refusal = files.nth(0).get_by_role("alert").inner_text()
        assert refusal.startswith("a.pdf: .pdf files cannot be translated: a PDF has the places")
        assert contrast(page, "#files [role=alert]") > 4.5
        assert page.get_by_role("progressbar", name="Progress of a.txt").is_visible()
        assert files.nth(2).get_by_text("Waiting").is_visible()
        page.get_by_role("button", name="Remove a.txt").click()  # it is given up
        page.get_by_role("link", name="Download the translation of b.txt").wait_for()
        assert files.count() == 2 and page.get_by_role("progressbar").count() == 0
        assert page.locator("#file-state").inner_text() == "b.txt is translated."


RISKY = "ein \U0001f600 Satz. Satz Satz.\n\nnein nein"  # the echo leaves it untranslated


def test_risky_sentences_are_marked_and_say_why(open_page):
    with open_page("phone", CALIBRATION) as page:
        page.locator("#text").fill(RISKY)
        assert translated(page) == RISKY
        assert page.locator("#state").inner_text() == "Translated. 2 sentences may be wrong."
        marks = page.locator("#translation .doubt")
        assert marks.all_inner_texts() == ["ein \U0001f600 Satz.", "nein nein"]
        underlined = marks.first.evaluate("mark => getComputedStyle(mark).textDecorationStyle")
        assert underlined == "wavy"
        assert page.locator("#doubt").inner_text() == "Choose a marked sentence to read why."
        page.locator("#text").focus()
        while page.evaluate("!document.activeElement.classList.contains('doubt')"):
            page.keyboard.press("Tab")
        for said, place in (("ein \U0001f600 Satz.", 0), ("nein nein", 1)):
            focused = page.evaluate("document.activeElement.textContent")
            shown = page.locator("#doubt").inner_text()
            assert focused == said and re.match(r"Left untranslated.*\. Confidence: \d+\s%$", shown)
            described = marks.nth(place).evaluate(
                "mark => document.getElementById(mark.getAttribute('aria-describedby')).textContent"
            )
            assert described == shown == marks.nth(place).get_attribute("title")
            assert page.locator("#place mark").inner_text() == said  # in the source
            page.keyboard.press("Tab")
        assert page.locator("#place mark").count() == 0
        for _ in ("light", "dark"):
            marks.first.hover()
            boxes = [page.locator(part).bounding_box() for part in ("#text", "#place mark")]
            assert boxes[0]["y"] < boxes[1]["y"] < boxes[0]["y"] + 60  # the first line of the text
            assert contrast(page, "#doubt") > 4.5 and contrast(page, ".doubt.active") > 4.5
            page.locator("#theme").click()
        page.locator("#text").fill(f"{RISKY}\n" * 12)
        page.locator("#state", has_text="24 sentences may be wrong.").wait_for()
        page.evaluate("scrollTo(0, document.querySelector('#translation').offsetTop)")
        marks.first.focus()
        assert page.locator("#doubt").bounding_box()["y"] < SIZES["phone"][1] - 30  # it is seen
        # They go where they no longer apply.
        page.get_by_text("Other translations").click()
        page.locator("#alternatives button").first.click()
        assert page.locator(".doubt").count() == 0 and not page.locator("#doubt").is_visible()
        page.locator("#text").fill("Satz Satz")
        page.locator("#translation", has_text=re.compile("^Satz Satz$")).wait_for()
        assert page.locator("#state").inner_text() == "Translated."
        assert not page.locator("#doubt").is_visible()


def test_every_flag_has_words_and_a_model_without_a_calibration_is_not_asked(open_page):
    with open_page() as page:
        assert set(page.evaluate("Object.keys(FLAGS)")) == set(FLAGS)
        with page.expect_request("**/translate") as asked:
            page.locator("#text").fill(RISKY)
        assert "risk" not in asked.value.post_data_json
        translated(page)
        assert page.locator(".doubt").count() == 0


def test_a_glossary_goes_with_the_text_and_the_field_grows(open_page):
    with open_page() as page:
        page.get_by_text("Glossary", exact=True).press("Enter")
        page.locator("#glossary").fill("nein = nein nein")
        with page.expect_request("**/translate") as asked:
            page.locator("#text").fill("ein\n" * 40)
        assert asked.value.post_data_json["glossary"] == "nein\tnein nein"
        with page.expect_request("**/translate") as asked:
            page.locator("#glossary").fill("x=1\tx=1\nHaus = house = de")
        assert asked.value.post_data_json["glossary"] == "x=1\tx=1\nHaus\thouse\tde"
        hidden = "document.querySelector('#text').scrollHeight - {}".format(
            "document.querySelector('#text').clientHeight"
        )
        assert page.evaluate(hidden) == 0
        assert page.locator("#text").bounding_box()["height"] > 40 * 25


def test_characters_are_counted_as_the_server_does(open_page):
    with open_page() as page:
        limit = page.evaluate("settings.charLimit")
        page.locator("#text").fill("👍" * limit)
        assert page.locator("#count").inner_text() == f"{limit:,} / {limit:,}"
        translated(page)
        assert not page.locator("#error").is_visible()


def test_swapped_languages_are_stored(open_page):
    with open_page() as page:
        page.locator("#source").select_option("de")
        english = "{code: 'en', name: 'English', targets: ['de'], risk: [], context: {}}"
        page.evaluate(f"languages.push({english}); $('source').append(option('en', 'English'))")
        page.evaluate("chooseTargets()")
        page.locator("#swap").click()
        assert page.evaluate("[stored.source, stored.target]") == ["en", "de"]


def test_the_link_of_a_file_is_below_the_page(open_page):
    with open_page() as page:
        origin = page.evaluate("location.origin")
        page.route(  # a proxy
            f"{origin}/mmt/**",
            lambda route: route.fulfill(
                response=route.fetch(url=route.request.url.replace("/mmt/", "/"))
            ),
        )
        page.goto(f"{origin}/mmt/")
        page.locator("#source option").first.wait_for(state="attached")
        choose_file(page)
        link = page.get_by_role("link", name="Download the translation of a.txt")
        link.wait_for()
        assert link.evaluate("link => link.href").startswith(f"{origin}/mmt/download_file/")


RECORD_FORMS = """() => {
    window.sent = {};
    const append = FormData.prototype.append;
    FormData.prototype.append = function (name, value) {
        sent[name] = value;
        append.call(this, name, value);
    };
}"""


def choose_file(page, name="a.txt"):
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files([{"name": name, "mimeType": "text/plain", "buffer": b"ein Satz"}])


def test_an_error_of_the_glossary_is_beside_it_and_stops_neither_files_nor_text(open_page):
    with open_page("phone", reduced_motion="reduce") as page:
        error = page.locator("#glossary-error")
        page.get_by_text("Glossary", exact=True).press("Enter")
        page.locator("#glossary").fill("nein = nein nein\n\nkleiner")
        page.get_by_text("Glossary", exact=True).press("Enter")  # it is folded
        choose_file(page)
        page.get_by_role("link", name="Download the translation of a.txt").wait_for()
        assert "without the glossary" in page.locator("#files li").inner_text()
        assert page.locator("#file-state").inner_text() == (
            "a.txt is translated without the glossary."
        )
        assert error.is_visible() and error.get_attribute("role") == "alert"
        assert error.inner_text() == (
            "Line 3: 'kleiner'; expected source = target or source = target = language. "
            "The glossary is not used until this is corrected."
        )
        assert page.locator("#glossary").get_attribute("aria-invalid") == "true"
        assert "glossary-error" in page.locator("#glossary").get_attribute("aria-describedby")
        for _ in ("light", "dark"):
            assert contrast(page, "#glossary-error") > 4.5
            page.locator("#theme").click()
        page.locator("#text").fill("ein Satz")
        page.locator("#state", has_text="Translated without the glossary.").wait_for()
        assert page.locator("#translation").inner_text() == "ein Satz"
        assert not page.locator("#error").is_visible()
        with page.expect_request("**/translate") as asked:
            page.locator("#glossary").fill("nein = nein nein\n\nkleiner = ein")
        assert asked.value.post_data_json["glossary"].endswith("kleiner\tein")
        page.locator("#state", has_text=re.compile(r"^Translated\.$")).wait_for()
        assert not error.is_visible()
        page.evaluate(RECORD_FORMS)
        choose_file(page, "b.txt")
        page.get_by_role("link", name="Download the translation of b.txt").wait_for()
        assert page.evaluate("sent.glossary.endsWith('kleiner\\tein')")
        assert "without the glossary" not in page.locator("#files li").nth(1).inner_text()


def test_previous_sentences_are_a_switch_where_the_model_was_trained_with_them(open_page):
    with open_page() as page:
        assert page.get_by_role("switch").count() == 0
    with open_page("phone", CALIBRATION, context_lines=2) as page:
        switch = page.get_by_role("switch", name="Use previous sentences as context")
        assert not switch.is_checked()
        described = switch.evaluate(
            "input => document.getElementById(input.getAttribute('aria-describedby')).textContent"
        )
        assert described == "Up to 2, no glossary, no marks of risk"
        with page.expect_request("**/translate") as asked:
            page.locator("#text").fill("ein Satz. Satz Satz.")
        assert asked.value.post_data_json["risk"] and "context" not in asked.value.post_data_json
        translated(page)
        page.get_by_text("Glossary", exact=True).click()
        page.locator("#glossary").fill("nein = nein nein")
        translated(page)
        page.locator("#target").focus()
        page.keyboard.press("Tab")
        with page.expect_request("**/translate") as asked:
            page.keyboard.press("Space")
        content = asked.value.post_data_json
        assert content["context"] == 2 and not {"risk", "glossary"} & set(content)
        assert translated(page) == "ein Satz. Satz Satz."
        assert page.locator("#glossary").is_disabled()
        assert page.locator("#glossary-unused").is_visible()
        assert contrast(page, "#context-hint") > 4.5 and contrast(page, "#glossary-unused") > 4.5
        with page.expect_request("**/translate") as asked:
            page.get_by_text("Other translations").click()
        assert asked.value.post_data_json["context"] == 2
        page.evaluate(RECORD_FORMS)
        choose_file(page)
        page.get_by_role("link", name="Download the translation of a.txt").wait_for()
        assert page.evaluate("sent.context === 2 && !('glossary' in sent)")
        page.reload()
        page.locator("#source option").first.wait_for(state="attached")
        assert switch.is_checked()  # it is remembered
        with page.expect_request("**/translate") as asked:
            switch.press("Space")
            page.locator("#text").fill("ein")
        assert "context" not in asked.value.post_data_json
        assert page.locator("#glossary").is_enabled()


def test_an_uncertain_language_is_not_called_detected(open_page):
    text = made_up.lines(codes=("deu_Latn", "fin_Latn"))
    known = train(text, {}, config=IdentifierConfig(buckets=2**10, dimensions=8, epochs=8))
    unsure = dataclasses.replace(known, output=known.output * 0.3, bias=known.bias * 0.3)
    with open_page(identifier=unsure) as page:
        for language, word in (("deu_Latn", "Detected:"), ("fin_Latn", "Perhaps")):
            page.locator("#text").fill(max(text[language], key=len))
            shown = page.locator("#detected", has_text=re.compile(rf"^{word} German \(\d+\s%\)$"))
            shown.wait_for()


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


def test_a_refusal_is_read_out_and_leaves_no_other_translation(open_page):
    with open_page() as page:
        page.locator("#text").fill("x" * 100_001)
        alert = page.get_by_role("alert")
        alert.wait_for()
        assert alert.inner_text() == "The text is too long: at most 100,000 characters."
        page.locator("#text").fill("ein Satz")
        assert translated(page) == "ein Satz" and not alert.is_visible()
        page.route("**/translate", lambda route: route.fulfill(
            status=503, body='{"error": "Slowdown"}', headers={"Retry-After": "7"}
        ))  # fmt: skip
        page.locator("#text").fill("ein")
        alert.wait_for()
        assert alert.inner_text() == "Slowdown (try again in 7 s)"
        assert page.locator("#translation").inner_text() == ""
        assert not page.locator("#copy").is_visible()
