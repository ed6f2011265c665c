"""Two targets of one test-set name and one source: neither replaces the other."""

import pytest

from eval import evaluate, systems
from eval.analyses import update
from eval.records import analysis, results
from eval.testsets import Sentences, TestSet
from tests.eval.test_evaluate import Dictionary

REFERENCES = {
    "deu_Latn": ("die Katze sitzt auf der Matte", "ein Hund bellt laut im Hof"),
    "fin_Latn": ("kissa istuu matolla juuri nyt", "koira haukkuu kovaa pihalla nyt"),
}
SOURCES = ("the cat sits on the mat", "a dog barks loudly in the yard")
TESTSETS = [
    TestSet("news", target, {"eng_Latn": Sentences(SOURCES, references)})
    for target, references in REFERENCES.items()
]


@pytest.fixture
def run(tmp_path):
    """A function that evaluates a system on both test sets and returns how many lines it gets."""

    def evaluation(name):
        system = systems.System(name, "multilingual", f"{name}/1", "abc", {})
        seen = []
        for testset in TESTSETS:
            first, second = REFERENCES[testset.target]
            words = [first, second if name == "good" else first]
            translator = Dictionary(dict(zip(SOURCES, words, strict=True)))
            evaluate.evaluate(translator, testset, system=system, out=tmp_path / "results.jsonl")
            seen += translator.seen
        return len(seen)

    return evaluation


def test_each_target_keeps_its_texts_and_tests(run, tmp_path):
    assert [run("good"), run("poor"), run("good"), run("poor")] == [4, 4, 0, 0]
    for target, references in REFERENCES.items():
        stem = tmp_path / f"hypotheses/good/news/eng_Latn-{target}"
        for suffix in ("hyp", "ref"):
            assert tuple(stem.with_suffix(f".{suffix}").read_text().splitlines()) == references
    update.update([tmp_path / "results.jsonl"])
    rows = analysis.read(tmp_path / "analysis.jsonl")
    assert {row.target for row in rows if row.kind == "paired"} == set(REFERENCES)


def test_texts_of_earlier_versions_are_those_of_one_target(run, tmp_path):
    """They had no target in their name, so the last target's replaced the others."""
    run("poor")
    for stem in sorted((tmp_path / "hypotheses/poor/news").iterdir()):
        stem.rename(stem.with_name(f"eng_Latn{stem.suffix}"))
    first, last = (
        update.ScoredTexts(row, tmp_path / "results.jsonl")
        for row in results.read_rows(tmp_path / "results.jsonl")
    )
    assert not first.has_texts and last.texts["ref"] == REFERENCES["fin_Latn"]
    assert run("poor") == 2, "into German"
