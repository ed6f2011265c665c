"""The forecast of a run as text."""

from mmt.languages import name_of
from mmt.plan.goodput import HOUR
from mmt.plan.run_forecast import DAY, YEAR, RunForecast

_LISTED_LANGUAGES = 5  # languages at each end of the list
_MIN_SHARE = 0.005  # smallest share that has a line
_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def table(run: RunForecast) -> str:
    """Returns the forecast, one fact per line, then languages, shares of time and notes."""
    lines = [*_machine(run), *_time(run), *_cost(run), *_storage(run)]
    text = [f"{name:<22}{value}" for name, value in lines]
    if run.languages is not None:
        text += ["", *_languages(run)]
    text += ["", "share of the time"]
    text += [
        f"  {name:<38}{share:>6.1%}" for name, share in run.shares.items() if share >= _MIN_SHARE
    ]
    small_parts = sum(share for share in run.shares.values() if share < _MIN_SHARE)
    text += [f"  {'smaller parts':<38}{small_parts:>6.1%}"] if small_parts else []
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
    days, failing, goodput = run.days, run.failing, run.goodput
    machine = run.plan.machine
    between = failing.mean_between
    failure_rate = "never" if between == float("inf") else f"every {between / HOUR:,.1f} hours"
    return [
        ("without failures", f"{days:,.2f} days, {days * DAY / YEAR * machine.chips:,.2f} "
         f"chip-years, {days * DAY / YEAR * machine.devices:,.2f} core-years"),
        ("failures", f"{failure_rate}; {goodput.failures:,.1f} in the run"),
        ("with failures", f"{goodput.mean / DAY:,.2f} days on average, "
         f"{goodput.quantile(0.05) / DAY:,.2f} to {goodput.quantile(0.95) / DAY:,.2f} "
         "in 9 of 10 runs"),
        ("goodput", f"{goodput.share:.1%}, saving every {goodput.interval / 60:,.1f} minutes; "
         f"at best {run.best.share:.1%}, every {run.best.interval / 60:,.1f}"),
    ]  # fmt: skip


def _cost(run: RunForecast) -> list[tuple[str, str]]:
    money, energy, conditions = run.money, run.energy, run.conditions
    return [
        ("chip-hours", f"{run.chip_hours:,.0f}"),
        ("energy", "not known: no power is published for this chip" if energy is None else
         f"{energy:,.0f} kWh of chips, PUE {conditions.power_overhead:g}; hosts not included"),
        ("cost", "not known: --gin.PRICE=… is the price of a chip-hour" if money is None else
         f"{money:,.0f} {conditions.currency} at {conditions.price:g} per chip-hour"),
    ]  # fmt: skip


def _storage(run: RunForecast) -> list[tuple[str, str]]:
    checkpoint, host_input, cache = run.checkpoint, run.input, run.cache
    cores = run.conditions.cache_cores
    waiting = ""
    if checkpoint["blocked_seconds"] < checkpoint["save_seconds"]:
        waiting = f" (training waits {checkpoint['blocked_seconds']:,.2f} s)"
    lines = [
        ("checkpoint", f"{size(checkpoint['bytes'])}; "
         f"saved in {checkpoint['save_seconds']:,.1f} s{waiting}, "
         f"restored in {checkpoint['restore_seconds']:,.1f} s"),
        ("input per host", f"{host_input['needed']:,.0f} tokens/s needed, "
         f"{host_input['measured']:,.0f} measured"),
        ("token cache", "not known: --gin.CORPUS=… names a corpus or its sizes" if cache is None
         else f"{size(cache['bytes'])}, {cache['pairs']:,.0f} pairs; built in "
         f"{cache['hours']:,.1f} hours of {cores} cores"),
    ]  # fmt: skip
    return lines


def _languages(run: RunForecast) -> list[str]:
    """Returns the languages that are read most and least."""
    assert run.languages is not None
    rows = list(run.languages.items())
    listed = (
        rows
        if len(rows) <= 2 * _LISTED_LANGUAGES + 1
        else [*rows[:_LISTED_LANGUAGES], None, *rows[-_LISTED_LANGUAGES:]]
    )
    lines = [f"{'language':<30}{'pairs':>16}{'share':>8}{'tokens':>12}{'passes':>10}"]
    for row in listed:
        if row is None:
            lines.append(f"… {len(rows) - 2 * _LISTED_LANGUAGES} more languages: --json")
            continue
        code, exposure = row
        lines.append(
            f"{f'{code} {name_of(code)}'[:29]:<30}{exposure.pairs:>16,}{exposure.share:>8.2%}"
            f"{exposure.tokens:>12.3g}{exposure.passes:>10,.2f}"
        )
    return lines


def size(count: float) -> str:
    """Formats 2.5e12 as '2.50 TB'."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:,.2f} {name}"
    return f"{count:,.0f} B"
