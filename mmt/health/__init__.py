"""Health of a run of several processes: heartbeats, and which host is at fault."""

from mmt.health.diagnosis import HostProblem, examine, stalled, table
from mmt.health.heartbeat import Health, Heartbeat, read
from mmt.health.heartbeat_thread import StepProgress, first_heartbeat, heartbeats

__all__ = [
    "Health", "Heartbeat", "HostProblem", "StepProgress", "examine", "first_heartbeat",
    "heartbeats", "read", "stalled", "table",
]  # fmt: skip
