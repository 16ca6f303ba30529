"""Priorities of runs: what a claim serves first."""

from __future__ import annotations

WAITED, INTERACTIVE, BULK = 1, 2, 4
"""Of runs for whose answer somebody waits, that somebody has started, and that came in bulk or by a clock."""
ALONE = 10
"""Is added to that of a run that was lost with its worker twice: a worker that has nothing else takes it."""
