"""Attacks on a separate stack: the cases, and their results. `python -m bench.abuse` runs them all."""
