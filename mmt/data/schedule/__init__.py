"""Mixing rates that follow validation losses: languages overfit, end, or enter late."""

from mmt.data.schedule.rules import Decision, Schedule
from mmt.data.schedule.state import ScheduleState

__all__ = ["ScheduleState", "Decision", "Schedule"]
