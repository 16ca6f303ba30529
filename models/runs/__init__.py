"""Runs: the record of each run, its remaining work, and the fenced writes of its carrier."""
