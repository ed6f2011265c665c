"""Health of a run of several processes: heartbeats, and which host is at fault."""

from mmt.health.diagnosis import HostProblem, examine, stalled, table
from mmt.health.heartbeat import Health, Heartbeat, read, remove_heartbeats
from mmt.health.heartbeat_thread import StepProgress, first_heartbeat, heartbeats

__all__ = [
    "Health", "Heartbeat", "HostProblem", "StepProgress", "examine", "first_heartbeat",
    "heartbeats", "read", "remove_heartbeats", "stalled", "table",
]  # fmt: skip
