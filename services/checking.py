"""Checks of workflows before they are saved, in a process of the pool, because a large one takes a second."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from uuid import UUID

from database import Connection, Database
from language.definition import Definition
from language.findings import Finding, describe_named, suggestion
from language.steps import EmitStep
from language.validation.definition import MAX_FINDINGS, Report
from language.validation.doubts import Answers
from models.accounts import secrets
from models.automations import definitions, templates
from models.automations.definitions import READ_ONLY, DataReads, LookupFields, Rules
from models.identifiers import parse_id
from models.monitors import monitors
from models.webhooks import endpoints
from outbound.guard import Networks
from sealing import Keyring, UnsealError
from services import signatures, sub_workflows
from services.naming import resolve_names
from services.process_pool import Ask, ProcessPool

_LACKING = {
    "unknown_secret": 'Copy the template with "secrets": {NAME: value}, or store the secret by'
    ' POST /api/workflows/secrets and then PATCH the copy with {"status": "active"}.',
    "unknown_monitor": "PATCH the copy with a trigger that names a monitor, or none, and the status active.",
    "missing_input": 'Copy the template with "trigger": {"input": …}, or PATCH the copy with its whole'
    " trigger and the status active.",
}
"""The things that a copy of a template may lack, each with the advice to provide it."""
_UNHEARD = (
    "No webhook of the account asks for workflow.alert: only the run shows the alert, until"
    ' POST /api/webhooks {"url", "events": ["workflow.alert"]} has one do so.'
)


class CheckResult(NamedTuple):
    """The report on a document, and what its definition reads if the document is valid."""

    report: Report
    readings: DataReads | None


@dataclass(frozen=True, slots=True)
class SubmittedWorkflow:
    """A document that is to be saved as a workflow.

    Attributes:
        account_id: the owner.
        document: JSON, of any shape.
        automation_id: the workflow that it will be stored as; None for a new one.
        given_secrets: secrets that come with the document, by name.
    """

    account_id: UUID
    document: Any
    automation_id: UUID | None = None
    given_secrets: Mapping[str, str] = field(default_factory=dict[str, str])


async def check(
    pool: ProcessPool, database: Database, keyring: Keyring, submitted: SubmittedWorkflow, rules: Rules
) -> CheckResult:
    """Check a document of an account, whatever permissions its author has.

    A new document may be a copy of a template. It may then lack secrets, monitors and inputs, and is a draft.

    Args:
        pool: runs the check.
        database: holds the objects that the document names.
        keyring: opens the secret that signs the workflow's events.
        submitted: the document.
        rules: the limits that it must meet.

    Raises:
        PoolBusy, WorkLost: it was not started in time, or its process ended.
    """
    account_id, automation_id = submitted.account_id, submitted.automation_id
    document, given_secrets = submitted.document, submitted.given_secrets
    async with database.connection() as connection:
        names = await secrets.list_names(connection, account_id) | given_secrets.keys()
        given = templates.fill_in(document, names) if automation_id is None else document
        if isinstance(given, Finding):
            return CheckResult(Report(None, "draft", [given], []), None)
        is_copy = given is not document and document["template_id"] is not None
        given, ambiguous = await resolve_names(connection, account_id, given)
        heard = await endpoints.has_listener(connection, account_id, "workflow.alert")
        unknown = [
            *ambiguous,
            *await _find_unknown_monitor(connection, account_id, given),
            *await _find_weak_secret(connection, keyring, account_id, given, given_secrets),
            *await sub_workflows.errors_of(connection, account_id, automation_id, given),
        ]
    known = (names, rules.networks, rules.lookup_fields, rules.answers)
    found: CheckResult = await pool.run(account_id, None, _check_document, given, *known)
    errors = [*found.report.errors, *unknown]
    if is_copy and len(errors) < MAX_FINDINGS and all(error.code in _LACKING for error in errors):
        found = await _of_copy(pool, account_id, given, found, errors)
    elif errors:
        return CheckResult(Report(None, found.report.status, errors, found.report.warnings), None)
    report, readings = found
    assert report.definition is not None and readings is not None
    if unused := [*_unused_secrets(given_secrets, readings.secrets)]:
        return CheckResult(Report(None, report.status, unused, report.warnings), None)
    unheard = [] if heard else [*_unheard(report)]
    return CheckResult(report._replace(warnings=[*report.warnings, *unheard]), readings)


async def _of_copy(
    pool: ProcessPool,
    account_id: UUID,
    given: dict[str, Any],
    found: CheckResult,
    errors: Collection[Finding],
) -> CheckResult:
    """Return a copy of a template as a draft, with a warning for everything it lacks."""
    definition = found.report.definition or _definition_of(given)
    shown = definition.model_dump(mode="json", include={"trigger"}, exclude_unset=True)
    missing = [*templates.missing_inputs(shown)] if "trigger" in shown else []
    lacking = [
        finding._replace(message=f"{finding.message} {_LACKING[finding.code]}")
        for finding in (*errors, *missing)
    ]
    if not lacking:
        return found
    report = Report(definition, "draft", [], [*lacking, *found.report.warnings])
    return CheckResult(report, found.readings or await readings_of(pool, account_id, definition))


def _unused_secrets(given: Collection[str], used: Collection[str]) -> Iterator[Finding]:
    for name in given:
        if name not in used:
            message = (
                f"The workflow does not use the {describe_named('secret', name)}.{suggestion(name, used)}"
            )
            yield Finding(f"/secrets/{name}", "unused_secret", message)


def _unheard(report: Report) -> Iterator[Finding]:
    """Yield a warning that alerts have no recipient."""
    assert report.definition is not None
    for index, step in enumerate(report.definition.steps):
        if isinstance(step, EmitStep):
            yield Finding(f"/steps/{index}/config/event", "alert_unheard", _UNHEARD)


def _definition_of(document: dict[str, Any]) -> Definition:
    """Return the definition in a document whose shape is valid."""
    ignored = {"status", *READ_ONLY}
    return Definition.model_validate({name: document[name] for name in document if name not in ignored})


async def _find_unknown_monitor(
    connection: Connection, account_id: UUID, document: Any
) -> Collection[Finding]:
    """Return an error if the trigger names a monitor that does not exist."""
    named = _member(_member(document, "trigger"), "monitor_id")
    monitor_id = parse_id(named) if isinstance(named, str) else None
    if monitor_id is None or await monitors.exists(connection, account_id, monitor_id):
        return []
    message = "The account has no such monitor; leave it out for any."
    return [Finding("/trigger/monitor_id", "unknown_monitor", message)]


async def _find_weak_secret(
    connection: Connection, keyring: Keyring, account_id: UUID, document: Any, given: Mapping[str, str]
) -> Collection[Finding]:
    """Return an error if the secret that signs events is easy to guess or invalid for the scheme."""
    signature = _member(_member(document, "trigger"), "signature")
    scheme, name = _member(signature, "scheme"), _member(signature, "secret")
    if not isinstance(scheme, str) or not isinstance(name, str) or scheme not in signatures.SIGNED_BY:
        return []
    try:
        stored = await secrets.load_values(connection, keyring, account_id, [name])
    except UnsealError:
        return []  # events are refused until it is stored again
    value = given.get(name) or stored.get(name)
    flaw = None if value is None else signatures.flaw_of(scheme, value)
    return [] if flaw is None else [Finding("/trigger/signature/secret", "weak_secret", flaw)]


def _member(value: Any, name: str) -> Any:
    """Return a member of a value, or None if the value is not an object."""
    return cast(dict[str, Any], value).get(name) if isinstance(value, dict) else None


async def readings_of(pool: ProcessPool, account_id: UUID, definition: Definition) -> DataReads:
    """Return what a stored definition reads.

    Raises:
        PoolBusy, WorkLost: as `check`.
    """
    return await pool.run(account_id, None, _readings, definition)


def _check_document(
    ask: Ask,
    document: Any,
    names: Collection[str],
    networks: Networks,
    fields: LookupFields,
    answers: Answers,
) -> CheckResult:
    report = definitions.validate(document, names, networks, fields, answers)
    return CheckResult(
        report, None if report.definition is None else definitions.find_data_reads(report.definition)
    )


def _readings(ask: Ask, definition: Definition) -> DataReads:
    return definitions.find_data_reads(definition)
