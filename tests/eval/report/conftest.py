"""Reports that several files of tests read."""

import dataclasses

import pytest

from eval import report
from eval.records import results
from tests.eval.report.test_examples import interval_of, keep
from tests.helpers.made_up import made_up
from tests.helpers.report_page import write_rows


@pytest.fixture
def render(tmp_path):
    """A function that reports on rows; the folder of the report."""

    def rendered(rows, out="report", **options):
        file = tmp_path / "results.jsonl"
        results.add_rows(file, rows)
        report.report([file], tmp_path / out, **options)
        return tmp_path / out

    return rendered


@pytest.fixture(scope="package")
def whole(tmp_path_factory):
    """The folder of a report on rows of every kind, with texts and an ablation."""
    folder = tmp_path_factory.mktemp("whole")
    rows, analyses = made_up(12, ("dense", "moe"), layers=1)
    varied = [dataclasses.replace(r, system=f"T:{value}") for r in rows[:12] for value in "15"]
    lines = [f"a line with the number {n} at its end, and that is all" for n in range(400)]
    keep(folder, rows[13], lines, lines, lines)
    texts = interval_of(rows[13], folder)
    analyses = [
        dataclasses.replace(item, hypotheses=texts.hypotheses) if item.key == texts.key else item
        for item in analyses
    ]
    report.report([write_rows(folder, rows + varied, analyses)], folder / "report")
    return folder / "report"
