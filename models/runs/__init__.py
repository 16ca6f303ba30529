"""Runs: the record of each, the work that is left of it, and the fenced writes of whoever carries it."""
