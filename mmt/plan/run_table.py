"""The forecast of a run as text."""

from mmt.languages import name_of
from mmt.plan.goodput import HOUR
from mmt.plan.run_forecast import DAY, YEAR, RunForecast

_SHOWN = 5  # languages at each end of the list
_LEAST = 0.005  # smallest share that has a line
_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def table(run: RunForecast) -> str:
    """Returns the forecast, one fact per line, then languages, shares of time and notes."""
    lines = [*_machine(run), *_time(run), *_cost(run), *_storage(run)]
    text = [f"{name:<22}{value}" for name, value in lines]
    if run.languages is not None:
        text += ["", *_languages(run)]
    text += ["", "share of the time"]
    text += [f"  {name:<38}{share:>6.1%}" for name, share in run.shares.items() if share >= _LEAST]
    rest = sum(share for share in run.shares.values() if share < _LEAST)
    text += [f"  {'smaller parts':<38}{rest:>6.1%}"] if rest else []
    return "\n".join([*text, *(f"note: {note}" for note in run.notes)])


def _machine(run: RunForecast) -> list[tuple[str, str]]:
    machine = run.plan.machine
    spare = run.failures.spare_hosts
    return [
        ("machine", f"{machine.name}: {machine.chips:,} chips, {machine.devices:,} devices, "
         f"{machine.hosts:,} hosts and {spare} spare"),
        ("step", f"{run.step_seconds:.3f} s; {run.step.products / run.step_seconds:.0%} of the "
         "peak in matrix products"),
        ("steps", f"{run.steps:,} of {run.plan.answer['tokens_per_step']:,} source tokens"),
    ]  # fmt: skip


def _time(run: RunForecast) -> list[tuple[str, str]]:
    days, failing, done = run.days, run.failing, run.goodput
    machine = run.plan.machine
    between = failing.mean_between
    often = "never" if between == float("inf") else f"every {between / HOUR:,.1f} hours"
    return [
        ("without failures", f"{days:,.2f} days, {days * DAY / YEAR * machine.chips:,.2f} "
         f"chip-years, {days * DAY / YEAR * machine.devices:,.2f} core-years"),
        ("failures", f"{often}; {done.failures:,.1f} in the run"),
        ("with failures", f"{done.mean / DAY:,.2f} days on average, "
         f"{done.quantile(0.05) / DAY:,.2f} to {done.quantile(0.95) / DAY:,.2f} in 9 of 10 runs"),
        ("goodput", f"{done.share:.1%}, saving every {done.interval / 60:,.1f} minutes; at best "
         f"{run.best.share:.1%}, every {run.best.interval / 60:,.1f}"),
    ]  # fmt: skip


def _cost(run: RunForecast) -> list[tuple[str, str]]:
    money, energy, assumed = run.money, run.energy, run.conditions
    return [
        ("chip-hours", f"{run.chip_hours:,.0f}"),
        ("energy", "not known: no power is published for this chip" if energy is None else
         f"{energy:,.0f} kWh of chips, PUE {assumed.power_overhead:g}; hosts not included"),
        ("cost", "not known: --gin.PRICE=… is the price of a chip-hour" if money is None else
         f"{money:,.0f} {assumed.currency} at {assumed.price:g} per chip-hour"),
    ]  # fmt: skip


def _storage(run: RunForecast) -> list[tuple[str, str]]:
    saved, needed, cache = run.checkpoint, run.input, run.cache
    cores = run.conditions.cache_cores
    behind = ""
    if saved["blocked_seconds"] < saved["save_seconds"]:
        behind = f" (training waits {saved['blocked_seconds']:,.2f} s)"
    lines = [
        ("checkpoint", f"{size(saved['bytes'])}; saved in {saved['save_seconds']:,.1f} s{behind}, "
         f"restored in {saved['restore_seconds']:,.1f} s"),
        ("input per host", f"{needed['needed']:,.0f} tokens/s needed, {needed['measured']:,.0f} "
         "measured"),
        ("token cache", "not known: --gin.CORPUS=… names a corpus or its sizes" if cache is None
         else f"{size(cache['bytes'])}, {cache['pairs']:,.0f} pairs; built in "
         f"{cache['hours']:,.1f} hours of {cores} cores"),
    ]  # fmt: skip
    return lines


def _languages(run: RunForecast) -> list[str]:
    """Returns the languages that are read most and least."""
    assert run.languages is not None
    rows = list(run.languages.items())
    shown = rows if len(rows) <= 2 * _SHOWN + 1 else [*rows[:_SHOWN], None, *rows[-_SHOWN:]]
    lines = [f"{'language':<30}{'pairs':>16}{'share':>8}{'tokens':>12}{'passes':>10}"]
    for row in shown:
        if row is None:
            lines.append(f"… {len(rows) - 2 * _SHOWN} more languages: --json")
            continue
        code, exposed = row
        lines.append(
            f"{f'{code} {name_of(code)}'[:29]:<30}{exposed.pairs:>16,}{exposed.share:>8.2%}"
            f"{exposed.tokens:>12.3g}{exposed.passes:>10,.2f}"
        )
    return lines


def size(count: float) -> str:
    """Formats 2.5e12 as '2.50 TB'."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count:,.0f} B"
