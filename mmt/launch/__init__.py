"""Starts the processes of a run on this machine, also those of a file for a cluster."""

from mmt.launch.jobs import launch

__all__ = ["launch"]
