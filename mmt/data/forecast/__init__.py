"""Forecasts the examples that a mixture will draw, before training."""
