"""The engine: it decides what a run does next.

It is pure: its driver provides the clock and executes calls.
"""
