"""Both carriers in turn, whatever room there is for workflows."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from execution import hand_over
from execution.hand_over import OwnPlaces
from models.runs.run_work import ClaimedRun


def take_turns(patch: pytest.MonkeyPatch) -> None:
    """Have each claim of a run under `auto` go by another carrier than the one before."""
    claims: Counter[UUID] = Counter()

    def takes(run: ClaimedRun, mode: str) -> bool:
        claims[run.run_id] += mode == "auto"
        return mode == "workflow" or (mode == "auto" and (claims[run.run_id] + run.run_id.int) % 2 == 0)

    patch.setattr(OwnPlaces, "_takes", staticmethod(takes))
    # On a machine that is busy with other tests, a start may take longer than the second that it has.
    patch.setattr(hand_over, "_START_SECONDS", 20)
