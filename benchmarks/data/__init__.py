"""Measurements of the data: reading, cleaning, caching, batching."""
