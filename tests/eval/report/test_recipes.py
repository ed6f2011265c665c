"""Recipes: whole in HTML, the settings that differ in Markdown."""

import dataclasses

import pytest

from eval.records.analysis_index import AnalysisIndex
from eval.report import recipes
from tests.helpers.made_up import made_up


@pytest.fixture(scope="module")
def index():
    return AnalysisIndex(made_up(12)[1])


def test_recipes_are_complete_and_shown_once(index):
    made = recipes.recipes(["moe", "bilingual"], index)
    assert made[0].title == "moe" and made[0].text == index.recipes("moe")[0].text
    assert dict(made[0].facts)["jax"] == "0.10" and not made[0].languages
    assert sum(len(recipe.languages) for recipe in made[1:]) == 12
    config = "A = 1\nB = 2\nC = 3\nD = 4\nE = 5\nF = 6\nG = 7\nLONG_NAME = 'one that is long'\n"
    changed = zip(index.recipes("bilingual")[:3], "338", strict=True)
    rows = [dataclasses.replace(recipe, text=config.replace("3", number), chosen="best of 3")
            for recipe, number in changed]  # fmt: skip
    made = recipes.recipes(["bilingual"], AnalysisIndex(rows))
    assert [len(recipe.languages) for recipe in made] == [2, 1]
    assert made[0].text == config and "+C = 8" in made[1].text and "D = 4" not in made[1].text
    assert dict(made[1].facts)["chosen"] == "best of 3"
    assert not {"corpus", "vocabulary"} & set(dict(made[0].facts)), "of rows without"
    corpora, sides = ("c1", "c2", ""), {"source": "s", "target": "t"}
    rows = [dataclasses.replace(recipe, text="A = 1\n", corpus=corpus, vocabulary=sides)
            for recipe, corpus in zip(rows, corpora, strict=True)]  # fmt: skip
    facts = dict(recipes.recipes(["bilingual"], AnalysisIndex(rows))[0].facts)
    assert (facts["corpus"], facts["vocabulary"]) == ("c1, c2", "s, t")


def summaries(index, texts, **changes):
    """Summaries of systems with these configs, first to last."""
    rows = [
        dataclasses.replace(index.recipes(name.rstrip("123"))[0], system=name, text=text)
        for name, text in texts.items()
    ]
    rows = [dataclasses.replace(row, **changes.get(row.system, {})) for row in rows]
    return recipes.summaries(recipes.recipes(list(texts), AnalysisIndex(rows)))


def test_a_summary_has_the_settings_that_differ_from_the_most_similar_recipe(index):
    texts = {
        "moe": "# Macros:\n# ===\nimport optax\nA = 1\nB = 2\n",
        "dense": "# Macros:\nA = 5\nB = 6\nC = 7\n",
        "dense1": "A = 5\nB = 6\nC = 8\n",
    }
    first, second, third = summaries(index, texts, dense={"seed": 3})
    assert (first.against, first.settings) == ("", "A = 1\nB = 2")
    assert (second.against, second.settings) == ("moe", "-A = 1\n-B = 2\n+A = 5\n+B = 6\n+C = 7")
    assert (third.against, third.settings) == ("dense", "-C = 7\n+C = 8")
    assert dict(first.facts)["jax"] == "0.10" and dict(second.facts)["seed"] == "3"
    assert not {"jax", "seed"} & set(dict(third.facts)), "the first has the same"


def test_baselines_that_were_chosen_alike_have_one_summary(index):
    rows = [
        dataclasses.replace(row, text=f"A = {place}\n", chosen=f"class {name} (A) for 0 or more")
        for place, (row, name) in enumerate(zip(index.recipes("bilingual"), "aab", strict=False))
    ]
    made = recipes.recipes(["bilingual"], AnalysisIndex(rows))
    short = recipes.summaries(made)
    assert len(made) == 3
    titles = ["bilingual, 2 languages: class a", "bilingual, 1 language: class b"]
    assert [recipe.title for recipe in short] == titles
    assert sorted(name for recipe in short for name in recipe.languages) == sorted(
        name for recipe in made for name in recipe.languages
    )


def test_a_long_difference_is_cut(index):
    texts = ["".join(f"A{line} = {number}\n" for line in range(99)) for number in range(2)]
    settings = summaries(index, dict(zip(("moe", "dense"), texts, strict=True)))[1].settings
    assert len(settings.splitlines()) == 31 and settings.endswith("… and 168 more lines")
