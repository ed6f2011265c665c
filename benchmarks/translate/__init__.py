"""Measurements of translating beside speed: sentences, glossary, markup, identification, risk."""
