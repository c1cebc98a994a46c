"""Benchmarks: ``python -m benchmarks.NAME`` prints figures as JSON. Not part of the wheel."""
