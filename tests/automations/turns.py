"""Both carriers in turn, whatever room there is for workflows."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from activities import handing_over
from activities.handing_over import HandingOver
from models.run_work import ClaimedRun


def take_turns(patch: pytest.MonkeyPatch) -> None:
    """Have each claim of a run under `auto` go by another carrier than the one before."""
    claims: Counter[UUID] = Counter()

    def takes(run: ClaimedRun, mode: str) -> bool:
        claims[run.run_id] += mode == "auto"
        return mode == "workflow" or (mode == "auto" and (claims[run.run_id] + run.run_id.int) % 2 == 0)

    patch.setattr(HandingOver, "_takes", staticmethod(takes))
    # On a machine that is busy with other tests, a start may take longer than the second that it has.
    patch.setattr(handing_over, "_START_SECONDS", 20)
