"""Runs that a shift has claimed, whose worker does nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest

from database import Database
from language.definition import Definition
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.automations import automations, run_targets
from models.runs.acceptance import RunRequest, accept
from sealing import Keyring
from tests.automations.claims import claimed, new_shift
from tests.automations.conftest import new_account, new_target, nothing_waits
from tests.checked_definitions import checked

__all__ = ["new_account", "new_target", "nothing_waits"]


@dataclass(frozen=True)
class Carried:
    """Runs of one workflow, in the order of their ids.

    Attributes:
        claims: by run, its `claim_id`.
    """

    account_id: UUID
    automation_id: UUID
    shift_id: UUID
    claims: dict[UUID, UUID]

    @property
    def run_ids(self) -> list[UUID]:
        """The runs."""
        return list(self.claims)

    @property
    def only(self) -> tuple[UUID, UUID]:
        """The one run, and its `claim_id`."""
        [one] = self.claims.items()
        return one


NewRuns = Callable[[Sequence[Any]], Awaitable[Carried]]


@pytest.fixture(scope="module")
def new_runs(database: Database, keyring: Keyring) -> NewRuns:
    """Makes runs with these payloads, claimed by one shift; what else waited is gone."""

    async def create(payloads: Sequence[Any]) -> Carried:
        async with database.transaction() as connection:
            await connection.execute("delete from run_work where status = 'queued'")
            account = await accounts.create_account(connection, NewAccount(f"{uuid4().hex}@example.com", "-"))
            definition = Definition.model_validate({"name": "test"})
            created = await automations.create(
                connection, keyring, Actor(account.id, "system", name="test"), checked(definition, "active")
            )
            target = await run_targets.run_target(connection, account.id, created)
            await accept(connection, [RunRequest(target, "manual", payload) for payload in payloads])
        shift_id = await new_shift(database)
        runs = await claimed(database, shift_id)
        assert len(runs) == len(payloads)
        return Carried(account.id, created, shift_id, {run.run_id: run.claim_id for run in runs})

    return create
