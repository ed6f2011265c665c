"""The numbers and sentences of a report are the same as HTML, Markdown and CSV."""

import csv
import re

import pytest

from eval import report
from tests.helpers.made_up import made_up
from tests.helpers.report_page import Page, page_words, write_rows
from tests.helpers.report_rows import baseline, row, seven


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
    assert set(means) == {"dense", "moe"} and text in page_words(whole)
    with open(whole / "pairs.csv", newline="") as file:
        pairs = list(csv.DictReader(file))
    (best, other), *_ = ((r["system"], r["less"]) for r in pairs if ":" not in r["system"])
    pairs = [r for r in pairs if r["system"] == best]
    assert {best, other} == {"dense", "moe"} and float(means[best]["delta"]) == max(
        float(r["delta"]) for r in means.values()
    )
    less = {r["Code"]: float(r[f"{best} BLEU"]) - float(r[f"{other} BLEU"]) for r in records}
    assert {r["Code"]: float(r["BLEU difference"]) for r in pairs} == pytest.approx(less, abs=2e-4)
    assert "[pairs.csv](pairs.csv)" in markdown and "pairs.csv" in page_words(whole)


def test_the_answer_comes_first(render, whole):
    text = page_words(render(seven()))
    for sentence in ("7 languages into English",
                 "multi is better than the bilingual model on 3 of 4 languages",
                 "+8.0 BLEU on average", "43.0mean BLEU (95 %: 41.6–44.4)",
                 "no analysis.jsonl"):  # fmt: skip
        assert sentence in text
    text = page_words(whole)
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


@pytest.mark.slow
def test_many_languages_and_systems_fit_a_page(tmp_path):
    rows, analyses = made_up(200, tuple(f"system-{place}" for place in range(10)))
    report.report([write_rows(tmp_path, rows, analyses)], tmp_path / "report")
    assert (tmp_path / "report/report.html").stat().st_size < 8e6
    table = Page((tmp_path / "report/report.html").read_text()).tables["languages-verses"]
    assert len(table) == 201 and len({len(cells) for cells in table}) == 1
