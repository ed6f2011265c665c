"""Analyses of hypotheses and runs; each writes rows of analysis.jsonl."""
