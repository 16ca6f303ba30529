"""Automatic top-up: billed first, then booked."""

from __future__ import annotations

from typing import Literal, Protocol

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from database import Database
from models.credits import topups
from models.credits.topups import TopUp
from temporal.client import TASK_QUEUE

Outcome = Literal["added", "declined", "not_due"]


class Declined(Exception):
    """The payer of the account refuses. The message is for the account's audit log."""


class Billing(Protocol):
    """The interface of a billing service."""

    async def charge(self, top_up: TopUp) -> None:
        """Take the money, once for each `top_up.reference`, even if the call is repeated.

        Raises:
            Declined: for good; auto top-up is turned off.
        """
        ...


class Granting:
    """The billing of an installation without payment: it agrees to everything."""

    async def charge(self, top_up: TopUp) -> None:
        """Agree."""


class CreditActivities:
    """The activities of `TopUp`."""

    def __init__(self, database: Database, billing: Billing) -> None:
        self._database = database
        self._billing = billing

    @activity.defn
    async def top_up(self, reference: str) -> Outcome:
        """Execute the top-up with this reference, if it is still due."""
        async with self._database.connection() as connection:
            due = await topups.find_due(connection, reference)
        if due is None:
            return "not_due"
        try:
            await self._billing.charge(due)
        except Declined as refusal:
            async with self._database.transaction() as connection:
                await topups.decline(connection, due, str(refusal))
            return "declined"
        async with self._database.transaction() as connection:
            await topups.complete(connection, due)
        return "added"


async def start_due(client: Client, database: Database) -> int:
    """Start the top-ups that are due and not under way; return their number. Call it about every second."""
    async with database.connection() as connection:
        due = await topups.list_due(connection)
    started = 0
    for top_up in due:
        try:
            await client.start_workflow(
                "TopUp",
                top_up.reference,
                id=top_up.reference,
                task_queue=TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            )
            started += 1
        except WorkflowAlreadyStartedError:
            continue
    return started
