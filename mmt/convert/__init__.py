"""Converts models from and to other formats: parameter names, weights and tokenizers."""
