"""Forecasts what a mixture will show before it is trained."""
