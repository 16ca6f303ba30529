"""Checks of workflows before they are saved, in a process of the pool: a large one takes a second."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

from database import Connection, Database
from language.definition import Definition
from language.validation.definition import MAX_FINDINGS, Report
from language.validation.doubts import Answers
from language.validation.findings import Finding
from models import automations, definitions, secrets, templates
from models.automations import Readings
from models.definitions import READ_ONLY, LookupFields, Rules
from models.identifiers import parse_id
from models.monitors import monitors
from outbound.guard import Networks
from services import sub_workflows
from services.process_pool import Ask, ProcessPool

_LACKING = {"unknown_secret", "unknown_monitor"}
"""What an account need not have to copy a template."""


class Found(NamedTuple):
    """What came of a document, and what its definition reads if there is nothing wrong with it."""

    report: Report
    readings: Readings | None


async def check(
    pool: ProcessPool,
    database: Database,
    account_id: UUID,
    document: Any,
    rules: Rules,
    automation_id: UUID | None = None,
) -> Found:
    """Everything that is wrong with a document of an account, whatever who saves it may do.

    A new one may be a copy of a template, and then it may lack secrets and monitors: it is a draft.

    Args:
        pool: where it is checked.
        database: what it names is looked for there.
        account_id: whose it is.
        document: JSON, of any shape.
        rules: that it must meet.
        automation_id: the workflow that it is to be; None for a new one.

    Raises:
        PoolBusy, WorkLost: it was not begun in time, or its process has ended.
    """
    given = templates.fill_in(document) if automation_id is None else document
    if isinstance(given, Finding):
        return Found(Report(None, "draft", [given], []), None)
    async with database.connection() as connection:
        names = await secrets.names(connection, account_id)
        unknown = [
            *await _find_unknown_monitor(connection, account_id, given),
            *await sub_workflows.errors_of(connection, account_id, automation_id, given),
        ]
    known = (names, rules.networks, rules.lookup_fields, rules.answers)
    found: Found = await pool.run(account_id, None, _found, given, *known)
    errors = [*found.report.errors, *unknown]
    if not errors:
        return found
    is_copy = given is not document and document["template_id"] is not None
    if is_copy and len(errors) < MAX_FINDINGS and all(error.code in _LACKING for error in errors):
        definition = _definition_of(given)
        report = Report(definition, "draft", [], [*errors, *found.report.warnings])
        return Found(report, await readings_of(pool, account_id, definition))
    return Found(Report(None, found.report.status, errors, found.report.warnings), None)


def _definition_of(document: dict[str, Any]) -> Definition:
    """The definition in a document whose shape is right."""
    ignored = {"status", *READ_ONLY}
    return Definition.model_validate({name: document[name] for name in document if name not in ignored})


async def _find_unknown_monitor(
    connection: Connection, account_id: UUID, document: Any
) -> Collection[Finding]:
    """That there is no such monitor, if the trigger names one."""
    trigger: Any = document.get("trigger") if isinstance(document, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    named: Any = trigger.get("monitor_id") if isinstance(trigger, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    monitor_id = parse_id(named) if isinstance(named, str) else None
    if monitor_id is None or await monitors.exists(connection, account_id, monitor_id):
        return []
    message = "The account has no such monitor; leave it out for any."
    return [Finding("/trigger/monitor_id", "unknown_monitor", message)]


async def readings_of(pool: ProcessPool, account_id: UUID, definition: Definition) -> Readings:
    """What a definition reads that is stored already.

    Raises:
        PoolBusy, WorkLost: as `check`.
    """
    return await pool.run(account_id, None, _readings, definition)


def _found(
    ask: Ask,
    document: Any,
    names: Collection[str],
    networks: Networks,
    fields: LookupFields,
    answers: Answers,
) -> Found:
    report = definitions.validate(document, names, networks, fields, answers)
    return Found(report, None if report.definition is None else automations.readings_of(report.definition))


def _readings(ask: Ask, definition: Definition) -> Readings:
    return automations.readings_of(definition)
