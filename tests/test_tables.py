"""Tables: a value under every column, written for people and whole for programs."""

import pytest
from test_comparison import baseline, row, seven

from eval import tables
from eval.comparison import compare, thirds


@pytest.fixture
def compared():
    """Seven languages in two multilingual systems, four of them with a baseline."""
    rows = seven()
    others = [row(system="other", source=r.source, train_pairs=r.train_pairs, bleu=r.bleu + 1)
              for r in rows if r.kind == "multilingual"]  # fmt: skip
    return compare([*rows, *others[:-1]])[0]


def test_every_row_has_a_value_under_every_column(compared):
    groups = thirds(compared.all)
    for table in (
        tables.by_language(compared), tables.by_group(compared, groups, "Third"),
        tables.by_size(compared, groups), tables.recipe(compared),
    ):  # fmt: skip
        assert all(len(values) == len(table.columns) for values in table.rows)


def test_a_language_s_row(compared):
    table = tables.by_language(compared)
    headings = [column.heading for column in table.columns]
    values = dict(zip(headings, table.rows[2], strict=True))
    assert values["Language"] == "Swahili" and values["Code"] == "swh_Latn"
    assert values["Script"] == "Latin" and values["Train pairs"] == 998
    assert values["multi BLEU"] == 42 and values["other BLEU"] == 43
    assert values["baseline BLEU"] == 40
    assert (values["multi ΔBLEU"], values["other ΔBLEU"]) == (2, 3)
    last = dict(zip(headings, table.rows[-1], strict=True))
    assert last["other BLEU"] is last["other ΔBLEU"] is None
    assert table.reach == (10, 26)


def test_a_group_s_row(compared):
    table = tables.by_group(compared, [compared.all], "Third")
    values = dict(zip([c.heading for c in table.columns], table.rows[0], strict=True))
    assert values["Languages"] == 7 and values["with baseline"] == 4
    assert values["multi BLEU"] == 43 and values["multi ΔBLEU"] == 8


def test_records_carry_the_recipe_and_full_precision():
    (found,) = compare([row(bleu=45.6789), baseline(bleu=40.0)])
    (record,) = tables.records(found)
    assert record["multi BLEU"] == 45.6789 and record["multi ΔBLEU"] == 5.6789
    assert record["multi checkpoint"] == "multi/1" and record["baseline checkpoint"] == "bi/1"
    assert record["baseline system"] == "bilingual" and record["multi bleu_signature"] == "13a"


def test_the_recipe_counts_what_was_done(compared):
    table = tables.recipe(compared)
    headings = [column.heading for column in table.columns]
    by_system = {values[0]: dict(zip(headings, values, strict=True)) for values in table.rows}
    assert by_system["multi"]["Languages"] == 7 and by_system["multi"]["Sentences"] == 70
    assert by_system["multi"]["Sentences/s"] == 10 and by_system["other"]["Languages"] == 6
    assert tables.signatures(compared) == [("BLEU", "13a"), ("chrF++", "nw:2")]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(20000, "count", "20,000"), (45.67, "score", "45.7"), (3.0, "delta", "+3.0"),
     (-3.04, "delta", "−3.0"), (None, "delta", ""), (None, "text", ""), ("x", "code", "x")],
)  # fmt: skip
def test_values_as_people_read_them(value, kind, text):
    assert tables.text(value, kind) == text
