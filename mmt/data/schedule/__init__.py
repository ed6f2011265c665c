"""Mixing rates that follow validation losses: languages overfit, end, or enter late."""

from mmt.data.schedule.acting import Acting
from mmt.data.schedule.rules import Decision, Schedule

__all__ = ["Acting", "Decision", "Schedule"]
