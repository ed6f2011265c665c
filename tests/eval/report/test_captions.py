"""Captions describe what their figure shows for these rows, and nothing else."""

import pytest

from eval.records.analysis_index import AnalysisIndex
from eval.report import captions
from eval.report.comparison import compare
from tests.helpers.made_up import made_up
from tests.helpers.report_rows import seven

NOTHING = AnalysisIndex([])


@pytest.mark.parametrize(
    ("count", "systems", "shown", "not_shown"),
    [(12, "a", ("Dashed line: mean over all",), ("neighbouring", "Dots:")),
     (12, "abcd", ("Dashed lines: mean over all",), ("neighbouring", "Dots:", "Thin vertical")),
     (40, "ab", ("10 neighbouring", "bands", "Thin vertical lines"), ("Dashed", "Dots:")),
     (40, "abcdefg", ("10 neighbouring", "Dots: the languages of"), ("Dashed", "bands"))],
)  # fmt: skip
def test_the_caption_of_deltas_names_the_marks_that_there_are(count, systems, shown, not_shown):
    rows, analyses = made_up(count, tuple(systems))
    _, caption = captions.of("delta_bleu", compare(rows)[0], AnalysisIndex(analyses))
    assert all(text in caption for text in shown)
    assert not any(text in caption for text in not_shown)
    assert "Pale marks" in caption, "one language has few sentences"


@pytest.mark.parametrize(("count", "slides"), [(19, False), (20, False), (21, True)])
def test_the_caption_of_sizes_names_a_sliding_mean_over_languages_that_count(count, slides):
    rows, analyses = made_up(count, ("moe",))  # one of them has few sentences
    _, caption = captions.of("bleu_by_size", compare(rows)[0], AnalysisIndex(analyses))
    assert ("10 neighbouring" in caption) is slides and "Pale marks" in caption
    _, caption = captions.of("bleu_by_size", compare(rows, allow=["small"])[0], NOTHING)
    assert "Pale" not in caption


def test_the_caption_of_costs_names_systems_whose_parents_have_none():
    rows, analyses = made_up(3, ("moe", "student"))
    without = [item for item in analyses if (item.kind, item.system) != ("cost", "moe")]
    for index, unknown in ((analyses, False), (without, True)):
        _, caption = captions.of("quality_by_cost", compare(rows)[0], AnalysisIndex(index))
        assert ("They are unknown for student (see Caveats)." in caption) is unknown


def test_without_tests_no_interval_of_a_language_is_promised():
    (comparison,) = compare(seven())
    _, caption = captions.of("delta_bleu", comparison, NOTHING)
    assert "paired bootstrap" not in caption and "Pale" not in caption


def test_the_headline_has_the_lead_systems_numbers():
    (comparison,) = compare(seven())
    numbers = captions.headline(comparison, NOTHING, comparison.primary_system)
    assert ("+8.0", "mean ΔBLEU", "4 languages with a baseline") in numbers
    assert ("3 of 4", "better than bilingual", "by BLEU") in numbers
