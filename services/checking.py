"""Checks of workflows before they are saved, in a process of the pool: a large one takes a second."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

from database import Database
from language.definition import Definition
from language.validation.definition import Report
from models import automations, definitions, secrets
from models.automations import Readings
from models.definitions import LookupFields, Rules
from outbound.guard import Networks
from services.process_pool import Ask, ProcessPool


class Found(NamedTuple):
    """What came of a document, and what its definition reads if there is nothing wrong with it."""

    report: Report
    readings: Readings | None


async def check(
    pool: ProcessPool, database: Database, account_id: UUID, document: Any, rules: Rules
) -> Found:
    """Everything that is wrong with a document of an account, whatever who saves it may do.

    Raises:
        PoolBusy, WorkLost: it was not begun in time, or its process has ended.
    """
    async with database.connection() as connection:
        names = await secrets.names(connection, account_id)
    return await pool.run(account_id, None, _found, document, names, rules.networks, rules.lookup_fields)


async def readings_of(pool: ProcessPool, account_id: UUID, definition: Definition) -> Readings:
    """What a definition reads that is stored already.

    Raises:
        PoolBusy, WorkLost: as `check`.
    """
    return await pool.run(account_id, None, _readings, definition)


def _found(
    ask: Ask, document: Any, names: Collection[str], networks: Networks, fields: LookupFields
) -> Found:
    report = definitions.validate(document, names, networks, fields)
    return Found(report, None if report.definition is None else automations.readings_of(report.definition))


def _readings(ask: Ask, definition: Definition) -> Readings:
    return automations.readings_of(definition)
