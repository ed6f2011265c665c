"""gin files, importable as package data so that gin finds them from anywhere."""
