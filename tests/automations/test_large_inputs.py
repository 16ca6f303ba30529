"""Inputs for which there is no room in memory are read from their rows; accounts share the room for that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import worker
from database import Database
from execution import executor, kept_inputs
from models.runs.runs import QUEUED_CHANNEL
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    accept_each,
    ended,
    requested,
    transform,
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


async def test_runs_begin_however_much_they_were_started_with_and_little_of_it_is_kept(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is claimed when there is no room reads its input from its row."""
    monkeypatch.setattr(kept_inputs, "_MOST_BYTES", 150_000)
    made: list[executor.Executor] = []

    def make(*arguments: Any, **options: Any) -> executor.Executor:
        made.append(executor.Executor(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(worker, "Executor", make)
    steps = [
        transform("n", "length(trigger.text)"),
        webhook(f"{receiver.url}/held", body="{{ trigger.text }}"),
    ]
    target = await new_target(steps)
    texts = [letter * 60_000 for letter in "abcdef"]
    run_ids = await accept_each(database, target, [{"text": text} for text in texts])
    async with at_work() as notifier:
        await requested(receiver, len(run_ids))
        assert 120_000 < made[0].inputs.size <= 150_000
        receiver.open.set()
        views = await asyncio.gather(
            *(ended(database, notifier, target.account_id, run_id) for run_id in run_ids)
        )
    assert {view.status for view in views} == {"completed"}
    assert sorted(request["body"] for request in receiver.requests) == texts
    assert made[0].inputs.size == 0
