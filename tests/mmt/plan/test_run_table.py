"""The text of a forecast; whole texts are in test_run_inputs.py."""

import pytest

from mmt.plan import TopologyPlan, run_table, step_time, topology
from mmt.plan.corpus_sizes import CorpusSizes, Exposure, LanguageSize
from mmt.plan.goodput import Failures
from mmt.plan.run_forecast import RunForecast


def test_many_languages_are_shortened_and_unknown_values_are_named(gshard):
    plan = TopologyPlan(topology.parse("v5e:16x16"), gshard)
    codes = ("deu_Latn", "fra_Latn", "spa_Latn", "ita_Latn", "por_Latn", "nld_Latn", "pol_Latn",
             "ces_Latn", "swe_Latn", "dan_Latn", "fin_Latn", "est_Latn", "swh_Latn")  # fmt: skip
    run = RunForecast(
        plan, step_time.forecast(plan), failures=Failures(runs=5),
        sizes=CorpusSizes({code: LanguageSize(1000, 30.0, 30.0) for code in codes}),
        languages={code: Exposure(1000, 1 / 13, 1e12 / 13, 5.0) for code in codes},
    )  # fmt: skip
    text = run_table.table(run)
    assert "… 3 more languages: --json" in text and "swh_Latn Swahili" in text
    assert "energy                not known: no power is published" in text
    assert "cost                  not known: --gin.PRICE=…" in text
    assert "note: outside the checked range" in text


@pytest.mark.parametrize(
    ("count", "text"), [(2.5e12, "2.50 TB"), (1e9, "1.00 GB"), (3e6, "3.00 MB"), (10.0, "10 B")]
)
def test_sizes(count, text):
    assert run_table.size(count) == text
