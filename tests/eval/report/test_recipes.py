"""Recipes: whole in HTML, the settings that differ in Markdown."""

import dataclasses

import pytest

from eval.records.analysis_index import AnalysisIndex
from eval.report import recipes
from tests.helpers.made_up import made_up


@pytest.fixture(scope="module")
def whole():
    rows, about = made_up(12, ("dense", "moe"), layers=1)
    return rows, AnalysisIndex(about)


def test_recipes_are_whole_and_shown_once(whole):
    _, evidence = whole
    made = recipes.recipes(["moe", "bilingual"], evidence)
    assert made[0].title == "moe" and made[0].text == evidence.recipes("moe")[0].text
    assert dict(made[0].versions)["jax"] == "0.10" and not made[0].languages
    assert sum(len(one.languages) for one in made[1:]) == 12
    config = "A = 1\nB = 2\nC = 3\nD = 4\nE = 5\nF = 6\nG = 7\nLONG_NAME = 'one that is long'\n"
    some = zip(evidence.recipes("bilingual")[:3], "338", strict=True)
    rows = [dataclasses.replace(one, text=config.replace("3", number), chosen="best of 3")
            for one, number in some]  # fmt: skip
    made = recipes.recipes(["bilingual"], AnalysisIndex(rows))
    assert [len(one.languages) for one in made] == [2, 1]
    assert made[0].text == config and "+C = 8" in made[1].text and "D = 4" not in made[1].text
    assert dict(made[1].facts)["chosen"] == "best of 3"
    assert not {"corpus", "vocabulary"} & set(dict(made[0].facts)), "of rows without"
    corpora, sides = ("c1", "c2", ""), {"source": "s", "target": "t"}
    rows = [dataclasses.replace(one, text="A = 1\n", corpus=corpus, vocabulary=sides)
            for one, corpus in zip(rows, corpora, strict=True)]  # fmt: skip
    facts = dict(recipes.recipes(["bilingual"], AnalysisIndex(rows))[0].facts)
    assert (facts["corpus"], facts["vocabulary"]) == ("c1, c2", "s, t")


def test_settings_are_differences_to_the_first_recipe(whole):
    _, evidence = whole
    texts = {"moe": "# Macros:\n# ===\nA = 1\nB = 2\n", "dense": "# Macros:\nA = 1\nB = 3\nC = 4\n"}
    rows = [dataclasses.replace(evidence.recipes(name)[0], text=text)
            for name, text in texts.items()]  # fmt: skip
    bilingual = evidence.recipes("bilingual")
    rows += [dataclasses.replace(one, text=f"A = {number}\n", chosen=str(number))
             for number, one in enumerate(bilingual[:2], 1)]  # fmt: skip
    made = recipes.recipes(["moe", "dense", "bilingual"], AnalysisIndex(rows))
    assert (made[0].against, made[0].settings) == ("", texts["moe"])
    assert (made[1].against, made[1].settings) == ("moe", "-B = 2\n+B = 3\n+C = 4")
    assert (made[2].against, made[2].settings) == ("moe", "-B = 2")
    assert made[3].against == "the first recipe of bilingual"
    assert made[3].settings == "-A = 1\n+A = 2"


def test_a_long_difference_is_cut(whole):
    _, evidence = whole
    texts = ["".join(f"A{line} = {number}\n" for line in range(99)) for number in range(2)]
    rows = [dataclasses.replace(evidence.recipes(name)[0], text=text)
            for name, text in zip(("moe", "dense"), texts, strict=True)]  # fmt: skip
    settings = recipes.recipes(["moe", "dense"], AnalysisIndex(rows))[1].settings.splitlines()
    assert len(settings) == 61 and settings[-1] == "… and 138 more lines"
