"""What differs between runs: configuration, data, training and scores; no weights, no JAX."""

from eval.compare.comparison import RunComparison, compare

__all__ = ["RunComparison", "compare"]
