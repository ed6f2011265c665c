"""The simulator of failures against the formulas of Young and Daly, for benchmarks/goodput.

The first table has machines whose failures are exponential and that always have a host at hand,
where Daly's mean time is exact. The others have no formula: few spare hosts, a smaller mesh, and
Llama 3 405B (arXiv 2407.21783: 419 interruptions in 54 days on 16,384 GPUs, more than 90 % of the
time effective).
"""

from rich.table import Table

from mmt.plan import goodput
from mmt.plan.goodput import FailingRun, Failures

DAY, HOUR = 86400.0, 3600.0
MACHINES = (  # days of training; seconds of a save, a restart, between failures
    (20.0, 10.0, 300.0, 48 * HOUR), (20.0, 60.0, 300.0, 3 * HOUR), (20.0, 60.0, 900.0, 3 * HOUR),
    (20.0, 120.0, 300.0, 0.5 * HOUR), (60.0, 30.0, 600.0, 6 * HOUR),
)  # fmt: skip


def formulas(seed: int) -> Table:
    """Returns a row for each machine for which Daly's formula is exact."""
    table = Table("days", "save, s", "restart, s", "between failures, h", "Young, s", "Daly, s",
                  "best, s", "days, formula", "simulated", "ratio", "goodput")  # fmt: skip
    for days, save, restart, mean in MACHINES:
        rates = Failures(detection_seconds=0.0, restart_seconds=restart, seed=seed)
        run = goodput.with_rates(FailingRun(days * DAY, save, 0.0, 1024, 256, rates), mean)
        best, daly = goodput.best(run), goodput.daly(save, mean)
        done, expected = goodput.simulate(run, daly), goodput.expected_seconds(run, daly)
        table.add_row(
            f"{days:.0f}", f"{save:.0f}", f"{restart:.0f}", f"{mean / HOUR:g}",
            f"{goodput.young(save, mean):,.0f}", f"{daly:,.0f}", f"{best.interval:,.0f}",
            f"{expected / DAY:.3f}", f"{done.mean / DAY:.3f}", f"{done.mean / expected:.4f}",
            f"{done.share:.1%}",
        )  # fmt: skip
    return table


def without_formula(seed: int) -> Table:
    """Returns a row for each machine without a formula."""
    table = Table("54 days on 16,384 chips", "goodput", "failures", "days, 5 to 95 %", "waiting",
                  "fewer hosts")  # fmt: skip
    rows = {"no spare host": Failures(spare_hosts=0, seed=seed),
            "no spare host, elastic": Failures(spare_hosts=0, elastic=True, seed=seed),
            "1 spare host": Failures(seed=seed),
            "4 spare hosts (Llama 3: above 90 %)": Failures(spare_hosts=4, seed=seed)}  # fmt: skip
    for name, rates in rows.items():
        done = goodput.best(FailingRun(49 * DAY, 10.0, 30.0, 16_384, 2048, rates))
        waiting, fewer = (done.parts[key] / done.mean
                          for key in ("waiting for hosts", "fewer hosts"))  # fmt: skip
        table.add_row(
            name, f"{done.share:.1%}", f"{done.failures:,.0f}",
            f"{done.quantile(0.05) / DAY:.1f} to {done.quantile(0.95) / DAY:.1f}",
            f"{waiting:.1%}", f"{fewer:.1%}",
        )  # fmt: skip
    return table
