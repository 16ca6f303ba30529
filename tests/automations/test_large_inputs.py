"""Large inputs are read from their rows; accounts share the room for that."""

from __future__ import annotations

import asyncio

from database import Database
from models.runs.runs import QUEUED_CHANNEL
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    requested,
    webhook,
)

EXECUTION = "shift"
LARGE = {"text": "x" * 900_000}


async def test_an_account_with_many_large_inputs_keeps_nobody_else_waiting(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """The calls of the one hang, with the room that they have."""
    body = "{{ length(trigger.text) }}"
    many = await new_target([webhook(f"{receiver.url}/held", body=body)])
    single = await new_target([webhook(f"{receiver.url}/single", body=body)])
    async with at_work() as notifier:
        held = await accept(database, many, 24, LARGE)
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 3)
        [run_id] = await accept(database, single, 1, LARGE)
        view = await ended(database, notifier, single.account_id, run_id)
        assert view.status == "completed"
        assert len(receiver.requests) < len(held)
        receiver.open.set()
        views = await asyncio.gather(*(ended(database, notifier, many.account_id, one) for one in held))
    assert {view.status for view in views} == {"completed"}
