"""Attacks on a stack of their own: what was tried, and what held. `python -m bench.abuse` runs them all."""
