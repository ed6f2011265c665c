"""Judging translation models: test sets, scores, rows of results, and the report over them."""
