"""Priorities of runs, in the order in which claims serve them."""

from __future__ import annotations

WAITED, INTERACTIVE, BULK = 1, 2, 4
"""Runs that a client waits for, runs that a person started, and bulk or scheduled runs."""
ALONE = 10
"""Added for a run that was lost twice with its worker: only a worker with nothing else claims it."""
