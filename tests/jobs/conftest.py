"""An account with bulk jobs, a worker, and the sources on loopback that the tests of monitors have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from database import Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.identifiers import new_id
from tests.jobs.jobs import Jobber
from tests.monitors.conftest import (
    at_work,
    client,
    forget_answers,
    notifier,
    scanned,
    scanner,
    watching_settings,
)

NewJobber = Callable[..., Awaitable[Jobber]]

__all__ = ["at_work", "client", "notifier", "scanned", "scanner", "watching_settings"]


@pytest.fixture
def new_jobber(database: Database) -> NewJobber:
    """Makes an account with so many credits; sources may be asked as if for the first time."""

    async def create(balance: int = 1000) -> Jobber:
        await forget_answers(database)
        async with database.transaction() as connection:
            account = await accounts.create_account(
                connection, NewAccount(f"{new_id()}@example.com", "-", credits=balance)
            )
        return Jobber(database, account.id)

    return create


@pytest.fixture
async def jobber(new_jobber: NewJobber) -> Jobber:
    """An account with 1,000 credits."""
    return await new_jobber()
