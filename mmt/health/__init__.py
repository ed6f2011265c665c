"""Health of a run of several processes: heartbeats, and which host is at fault."""

from mmt.health.beat import Beat, Health, read
from mmt.health.diagnosis import HostProblem, examine, stalled, table
from mmt.health.heartbeat import Heart, beating, first_beat

__all__ = [
    "Beat", "Health", "Heart", "HostProblem", "beating", "examine", "first_beat", "read",
    "stalled", "table",
]  # fmt: skip
