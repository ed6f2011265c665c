"""Cleans corpora: rules, their order, reports and language identification."""
