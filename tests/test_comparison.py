"""Comparing rows: differences, groups, and what may not be compared."""

import dataclasses

import numpy as np
import pytest

from eval import comparison
from eval.comparison import compare, sliding_mean, thirds
from eval.results import Row

ROW = Row(
    system="multi", kind="multilingual", testset="cldr", source="deu_Latn", target="eng_Latn",
    bleu=50.0, bleu_signature="13a", chrf=60.0, chrf_signature="nw:2", sentences=10,
    train_pairs=1000, checkpoint="multi/1", decode="beam:4|alpha:0.8", seconds=1.0, config="a",
)  # fmt: skip
CODES = ("deu_Latn", "rus_Cyrl", "swh_Latn", "ita_Latn", "fra_Latn", "ukr_Cyrl", "hin_Deva")


def row(**changes) -> Row:
    return dataclasses.replace(ROW, **changes)


def baseline(**changes) -> Row:
    return row(system="bilingual", kind="bilingual", checkpoint="bi/1", **changes)


def seven() -> list[Row]:
    """Seven languages, of which those at even places have a baseline."""
    rows = []
    for place, code in enumerate(CODES):
        rows.append(row(source=code, train_pairs=1000 - place, bleu=40.0 + place))
        if place % 2 == 0:
            rows.append(baseline(source=code, train_pairs=1000 - place, bleu=50.0 - 5 * place))
    return rows


def text(found) -> str:
    return " ".join(map(str, found.notes))


def test_languages_run_from_much_to_little_data_and_ties_by_code():
    rows = [row(source="swh_Latn", train_pairs=5), row(source="ita_Latn", train_pairs=9),
            row(source="deu_Latn", train_pairs=5)]  # fmt: skip
    (found,) = compare(rows)
    assert [e.language.code for e in found.entries] == ["ita_Latn", "deu_Latn", "swh_Latn"]
    assert compare(rows[::-1])[0].entries == found.entries


def test_delta_is_the_difference_and_absent_without_a_baseline():
    (found,) = compare(seven())
    assert [entry.delta("multi") for entry in found.entries] == [-10, None, 2, None, 14, None, 26]
    assert found.all.deltas("multi") == [-10, 2, 14, 26]
    assert found.all.delta("multi") == found.compared.delta("multi") == 8
    assert found.all.bleu("multi") == 43 and found.compared.bleu("multi") == 43
    assert found.all.baseline_bleu == 35
    assert len(found.compared.entries) == 4


def test_missing_baselines_are_counted_and_named():
    (found,) = compare(seven())
    assert "3 of 7 languages: Russian, Italian, Ukrainian" in text(found)
    (found,) = compare([row()])
    assert "No language has a bilingual baseline" in text(found)
    (found,) = compare([baseline()])
    assert "no row of a multilingual system" in text(found)
    assert found.entries[0].delta("multi") is None


def test_thirds_are_nearly_equal_and_in_order():
    (found,) = compare(seven())
    groups = thirds(found.all)
    assert [(group.name, len(group.entries)) for group in groups] == [
        ("high", 3), ("mid", 2), ("low", 2),
    ]  # fmt: skip
    assert sum((group.entries for group in groups), ()) == found.entries
    expected = [part.tolist() for part in np.array_split(np.arange(7), 3)]
    assert [len(part) for part in expected] == [len(group.entries) for group in groups]


def test_groups_by_script_and_family():
    (found,) = compare(seven())
    scripts = found.by(lambda language: language.script)
    assert [(group.name, len(group.entries)) for group in scripts] == [
        ("Latin", 4), ("Cyrillic", 2), ("Devanagari", 1),
    ]  # fmt: skip
    assert sum(len(group.entries) for group in found.by(lambda language: language.family)) == 7


def test_sliding_mean():
    assert sliding_mean([1, 3, 5], 2) == [1, 2, 4]
    values = np.random.default_rng(0).normal(size=40)
    means = sliding_mean(values.tolist())
    assert len(means) == 40
    np.testing.assert_allclose(means[5:36], np.convolve(values, np.ones(10) / 10, "valid"))
    assert means[0] == pytest.approx(values[:5].mean())
    assert means[-1] == pytest.approx(values[-6:].mean())
    assert sliding_mean([]) == []


@pytest.mark.parametrize(
    ("field", "value"), [("bleu_signature", "zh"), ("chrf_signature", "nw:0"), ("sentences", 11)]
)
def test_what_differs_in_measure_is_not_compared(field, value):
    with pytest.raises(ValueError) as error:
        compare([row(), baseline(**{field: value})])
    for part in ("deu_Latn", "'cldr'", "multi/1", "bi/1", field, repr(value)):
        assert part in str(error.value)


def test_an_old_row_of_another_measure_is_no_obstacle():
    old = row(bleu_signature="old", checkpoint="multi/0")
    (found,) = compare([old, row(), baseline()])
    assert found.entries[0].rows["multi"] == row()


def test_the_newest_row_counts_and_that_is_said():
    rows = [row(checkpoint="multi/2", bleu=1.0), row(checkpoint="multi/1", bleu=2.0)]
    (found,) = compare(rows)
    assert found.used == (rows[1],)
    assert "Several rows of multi, of which the last one in the file counts, for 1: German" in text(
        found
    )


def test_the_best_of_several_baselines_counts_and_that_is_said():
    rows = [row(), baseline(bleu=30.0), row(system="big", kind="bilingual", bleu=40.0),
            row(source="swh_Latn"), baseline(source="swh_Latn")]  # fmt: skip
    (found,) = compare(rows)
    assert found.entries[0].baseline == rows[2]
    assert "2 bilingual systems (big, bilingual)" in text(found)


def test_unevenness_is_said():
    rows = [row(), row(source="swh_Latn", checkpoint="multi/2"),
            baseline(train_pairs=10, decode="beam:1|alpha:0"), row(system="other")]  # fmt: skip
    notes = text(compare(rows)[0])
    assert "Rows of multi differ in checkpoint: multi/1 for 1, multi/2 for 1" in notes
    assert "another number of training pairs for 1: German" in notes
    assert "another decoding for 1: German" in notes
    assert "No row of other for 1: Swahili" in notes


def test_every_test_set_and_target_by_itself():
    rows = [row(), row(testset="ntrex"), row(target="fra_Latn"), baseline(testset="ntrex")]
    found = compare(rows)
    assert [(c.testset, c.target.code) for c in found] == [
        ("cldr", "eng_Latn"), ("ntrex", "eng_Latn"), ("cldr", "fra_Latn"),
    ]  # fmt: skip
    assert [len(c.compared.entries) for c in found] == [0, 1, 0]


def test_a_system_is_of_one_kind():
    with pytest.raises(ValueError, match="'multi' is both multilingual and bilingual"):
        compare([row(), row(kind="bilingual", source="swh_Latn")])


def test_notes_read_as_sentences():
    assert str(comparison.Note("Missing for 2", ("A", "B"))) == "Missing for 2: A, B."
    assert str(comparison.Note("Nothing")) == "Nothing."
