"""Massively multilingual machine translation on JAX."""
