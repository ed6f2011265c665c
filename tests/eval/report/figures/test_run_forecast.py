"""The picture of a forecast: all panels, with and without a corpus."""

from eval.report.figures import run_forecast

RUN = {
    "topology": "v3:32x32", "step_seconds": 1.25, "days": {"mean": 3.5}, "goodput": 0.97,
    "days_without_failures": 3.4,
    "step_parts_seconds": {f"part {number}": 1.0 / (1 + number) for number in range(14)},
    "shares": {"attention: products": 0.6, "lost work": 0.4},
    "languages": {"deu_Latn": {"pairs": 10**9, "passes": 0.4},
                  "swh_Latn": {"pairs": 10**5, "passes": 40.0}},
}  # fmt: skip


def test_parts_are_named_and_small_ones_are_summed():
    pictures = run_forecast.draw(RUN, [3.5 * 86400, 3.6 * 86400])
    assert pictures["forecast.png"].startswith(b"\x89PNG")
    text = pictures["forecast.svg"]
    for words in ("part 8", "smaller parts", "lost work", "without failures", "passes",
                  "1.25 s a step, 3.5 days, 97% of them training"):  # fmt: skip
        assert words in text
    assert "part 9" not in text and "no corpus" not in text


def test_without_a_corpus_the_panel_says_so():
    assert "no corpus" in run_forecast.draw(RUN | {"languages": None}, [1e5])["forecast.svg"]
