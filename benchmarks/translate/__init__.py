"""Measurements of translating beside BLEU and speed."""
