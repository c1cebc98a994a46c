"""Benchmarks: ``python -m benchmarks`` measures laser beside others and writes figures. Not part of the wheel."""
