"""A long phase is announced, and a short one is not."""

import time

from mmt.system import phases


def test_a_phase_that_lasts_is_announced_with_its_progress(monkeypatch):
    monkeypatch.setattr(phases, "QUIET", 0.5)
    monkeypatch.setattr(phases, "REPEAT", 0.5)
    lines, shown = [], []
    run = phases.Phases(lines.append, shown.append)
    run.begin("saving")
    run.end()
    run.begin("validating")
    run.progress("3 of 33")
    time.sleep(1.6)
    run.close()
    assert len(lines) >= 2 and all(line.startswith("validating: 3 of 33 (") for line in lines)
    assert shown == ["saving", "", "validating", "validating: 3 of 33", ""]
    assert [len(seconds) for seconds in run.seconds.values()] == [1, 1]
    assert run.seconds["validating"][0] > 1.5
