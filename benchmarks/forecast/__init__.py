"""Forecasts of training runs against published ones."""
