"""Measurements: `python -m benchmarks.NAME` prints one table."""
