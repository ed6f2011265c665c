"""The sections of a report: test sets, ablations, experts, recipes and behaviours."""

import dataclasses

from eval import report
from eval.records import analysis, results
from tests.eval.records.test_behaviour import ROW as BEHAVIOUR
from tests.eval.records.test_contrastive import ROW as CONTRASTIVE
from tests.helpers.made_up import made_up
from tests.helpers.report_page import Page, page_words, write_rows
from tests.helpers.report_rows import seven


def test_domain_and_licence_stand_beside_the_test_set(tmp_path):
    texts = analysis.TestsetDescription(
        testset="cldr", target="eng_Latn", domain="dates", licence="<CC0>"
    )
    report.report([write_rows(tmp_path, seven(), [texts])], tmp_path / "out")
    assert "Test set: dates; licence: <CC0>." in page_words(tmp_path / "out")
    assert "dates; licence: " in (tmp_path / "out/report.md").read_text()


def test_an_ablation_s_experts_and_recipes_are_shown_once(tmp_path):
    rows, analyses = made_up(4, ("dense", "moe"), layers=1)
    name = {"moe": "experts:16"}
    rows = [dataclasses.replace(item, system=name.get(item.system, item.system)) for item in rows]
    analyses = [
        dataclasses.replace(item, system=name.get(item.system, item.system)) for item in analyses
        if item.kind in ("routing", "recipe")
    ]  # fmt: skip
    news = [dataclasses.replace(item, testset="news") for item in rows]
    report.report([write_rows(tmp_path, rows + news, analyses)], tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert text.count("### The experts of experts:16") == 1
    assert text.count("<summary>experts:16</summary>") == 1
    assert (tmp_path / "out/experts_experts-16.png").is_file()


def test_systems_with_names_alike_have_figures_of_their_own(tmp_path):
    rows, analyses = made_up(3, ("a dense one", "a b", "a+b"), layers=1)
    report.report([write_rows(tmp_path, rows, analyses)], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").glob("experts_*.svg")} == {
        "experts_a-b.svg", "experts_a-b-1.svg",
    }  # fmt: skip
    page = Page((tmp_path / "out/report.html").read_text())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_behaviours_have_a_section(tmp_path):
    results.add_rows(tmp_path / "results.jsonl", seven())
    others = [dataclasses.replace(BEHAVIOUR, system=name) for name in ("a b", "a-b")]
    analysis.add(tmp_path / "analysis.jsonl", others)
    report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").glob("behaviours_*.svg")} == {
        "behaviours_a-b.svg", "behaviours_a-b-1.svg",
    }  # fmt: skip
    text = (tmp_path / "out/report.md").read_text()
    assert "| links | 75.0 % | 80.0 % | 75.0 % | German | 1 | 4 |" in text
    page = Page((tmp_path / "out/report.html").read_text())
    assert "#behaviours" in [attributes.get("href") for _, attributes in page.tags]
    assert "The behaviours of" in text and "Cases of" in page_words(tmp_path / "out")


def test_contrastive_examples_have_a_section(tmp_path):
    results.add_rows(tmp_path / "results.jsonl", seven())
    analysis.add(tmp_path / "analysis.jsonl", [CONTRASTIVE])
    report.report([tmp_path / "results.jsonl"], tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text()
    assert "| tiny | talks | 1 | she | 90.0 % | 20.0 % | 50.0 % | 10 | 1 |" in text
    page = Page((tmp_path / "out/report.html").read_text())
    assert "#context" in [attributes.get("href") for _, attributes in page.tags]
    assert "context" in [attributes.get("id") for _, attributes in page.tags]


def test_the_page_has_each_figure_of_training_without_a_table_of_losses(tmp_path):
    confidence = analysis.Reliability(
        system="multi", decode="x", confidence=(0.1, 0.5), chrf=(0.2, 0.6), lines=(5, 5)
    )
    report.report([write_rows(tmp_path, seven(), [confidence])], tmp_path / "out")
    assert "(reliability.png)" in (tmp_path / "out/report.md").read_text()
    words = page_words(tmp_path / "out")
    assert "Reliability of the confidence" in words and "Sample efficiency" not in words
