"""What differs between runs: configuration, data, training and scores; no weights, no JAX."""

from eval.compare.comparison import RunComparison, check_page, compare

__all__ = ["RunComparison", "check_page", "compare"]
