"""Measurements of what happens around a search: sentences, glossary, placeholders, markup."""
