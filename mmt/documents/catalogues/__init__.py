"""Catalogues of applications, and files of two languages."""
