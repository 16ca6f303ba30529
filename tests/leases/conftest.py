"""Batches at work, and connections on which statements can wait for each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest

from database import Database
from language.definition import Definition
from models import accounts, automations, targets
from models.accepting import Event, accept
from models.audit import Actor
from models.identifiers import new_id
from sealing import Keyring


@dataclass(frozen=True)
class Batch:
    """Runs of one workflow, claimed by nobody yet."""

    id: UUID
    run_ids: list[UUID]


NewBatch = Callable[[Sequence[Any]], Awaitable[Batch]]


@pytest.fixture(scope="module")
def new_batch(database: Database, keyring: Keyring) -> NewBatch:
    """Makes a batch of runs with these payloads, all at work, and silent."""

    async def create(payloads: Sequence[Any]) -> Batch:
        async with database.transaction() as connection:
            account = await accounts.create_account(
                connection, f"{uuid4().hex}@example.com", "-", None, credits_granted=0
            )
            definition = Definition.model_validate({"name": "test"})
            created = await automations.create(
                connection, keyring, Actor(account.id, "system", name="test"), definition, "active"
            )
            target: Any = await targets.run_target(connection, account.id, created)
            accepted = await accept(connection, [Event(target, "manual", payload) for payload in payloads])
            run_ids, batch_id = [one.run_id for one in accepted], new_id()
            await connection.execute(
                "insert into batches (id, account_id, lane_id, beat_at, runs, trigger)"
                " values (%s, %s, %s, '-infinity', %s, 'manual')",
                (batch_id, account.id, target.lane_id, len(run_ids)),
            )
            await connection.execute(
                "update run_work set status = 'running', begun = true, started_at = now(), batch_id = %s"
                " where run_id = any(%s)",
                (batch_id, run_ids),
            )
        return Batch(batch_id, run_ids)

    return create
