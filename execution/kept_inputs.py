"""The inputs of runs at work: kept in memory as far as they have room, else read from the rows again."""

from __future__ import annotations

from dataclasses import replace

from language.records import INLINE_BYTES
from models.runs.run_work import ClaimedRun

# As JSON: decoded, records take 6 times as much memory, small objects 25 times.
_MOST_BYTES = 4 * 1024 * 1024


class KeptInputs:
    """The inputs that a process keeps.

    Attributes:
        size: their size, in bytes of JSON.
    """

    def __init__(self) -> None:
        self.size = 0

    def keep(self, runs: list[ClaimedRun]) -> tuple[list[ClaimedRun], int]:
        """Drop inputs that are large, or have no room: the steps that need them read them from the rows.

        Returns:
            The runs, and the size of the inputs that were kept. Release it when the runs have ended.
        """
        before, kept = self.size, list[ClaimedRun]()
        for run in runs:
            if not run.unloaded and run.size <= min(INLINE_BYTES, _MOST_BYTES - self.size):
                self.size += run.size
                kept.append(run)
            else:
                kept.append(replace(run, trigger=None, request=None, unloaded=True))
        return kept, self.size - before

    def release(self, size: int) -> None:
        """Make room for other inputs."""
        self.size -= size
