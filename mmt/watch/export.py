"""Writes the page of some runs as one file that needs no server and no network."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from mmt.system import atomic
from mmt.watch.watched_run import WatchedRun
from mmt.watch.web_page import page_with

_COLUMNS = 400  # points of a curve, and columns of a heat map


def export(runs: Sequence[WatchedRun], file: Path) -> None:
    """Writes the page to `file`, with at most 400 points per language and metric.

    Raises:
      ValueError: a file of a run is damaged; nothing is written.
      OSError: the file cannot be written.
    """
    content = []
    for run in runs:
        run.read_all()
        run.check()
        overview = run.overview()
        content.append(
            {
                "overview": overview,
                "series": {
                    name: run.series(name, columns=_COLUMNS, bands=True)
                    for name in overview["metrics"]
                },
                "totals": run.totals(columns=_COLUMNS),
                "samples": run.samples(),
            }
        )
    date = datetime.datetime.now().astimezone().isoformat(" ", "minutes")
    atomic.write_bytes(file, page_with({"date": date, "runs": content}).encode(errors="replace"))
