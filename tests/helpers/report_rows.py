"""Rows of results for the tests of the report, and what they read in its tables and figures."""

import dataclasses
import xml.etree.ElementTree as ElementTree

from eval.records.results import Row

SVG = "{http://www.w3.org/2000/svg}"
ROW = Row(
    system="multi", kind="multilingual", testset="cldr", source="deu_Latn", target="eng_Latn",
    bleu=50.0, bleu_signature="13a", chrf=60.0, chrf_signature="nw:2", sentences=200,
    train_pairs=1000, checkpoint="multi/1", decode="beam:4|alpha:0.8", seconds=1.0, config="a",
)  # fmt: skip
CODES = ("deu_Latn", "rus_Cyrl", "swh_Latn", "ita_Latn", "fra_Latn", "ukr_Cyrl", "hin_Deva")


def row(**changes) -> Row:
    """Returns a multilingual system's row, so changed."""
    return dataclasses.replace(ROW, **changes)


def baseline(**changes) -> Row:
    """Returns a bilingual model's row, so changed."""
    return row(system="bilingual", kind="bilingual", checkpoint="bi/1", **changes)


def seven() -> list[Row]:
    """Seven languages, of which those at even places have a baseline."""
    rows = []
    for place, code in enumerate(CODES):
        rows.append(row(source=code, train_pairs=1000 - place, bleu=40.0 + place))
        if place % 2 == 0:
            rows.append(baseline(source=code, train_pairs=1000 - place, bleu=50.0 - 5 * place))
    return rows


def by_heading(table, place) -> dict:
    """Returns a row of a table: heading -> value; checks that every row has all values."""
    assert all(len(values) == len(table.columns) for values in table.rows)
    headings = [column.heading for column in table.columns]
    return dict(zip(headings, table.rows[place], strict=True))


def titles(svg: str) -> list[str]:
    """Returns the titles of a figure's marks: what a browser shows under the pointer."""
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]
