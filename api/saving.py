"""The saving of workflows: read the inputs, check without a connection, store if nothing has changed.

Checking a large document keeps a processor busy for a second. Another process does it, and no connection is
held meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from api.deps import Services
from database import Connection
from language.definition import Definition
from models.accounts import agents, secrets
from models.audit import Actor, differences
from models.automations import automation_views, automations
from models.automations.automation_views import WorkflowView
from models.automations.automations import CurrentWorkflow, Edit
from models.automations.definitions import READ_ONLY, CheckedDefinition, DataReads, Rules
from models.automations.versions import changed_fields
from models.errors import FieldError, Forbidden, Invalid
from services import checking, sub_workflows
from services.checking import SubmittedWorkflow

JSONObject = dict[str, Any]

POOLED = ("too_busy", "work_lost")
"""The codes of work that a process of the pool could not do."""

REFUSED = ("saves_in_progress", *POOLED)
"""The codes of a save that was not started or not done."""
# Usually intended, so only validation reports it.
_ONLY_OF_VALIDATION = {"field_of_trigger"}


@dataclass(frozen=True, slots=True)
class Editor:
    """The author of a change to a workflow.

    Attributes:
        actor: the owner of the workflow, and author of the change.
        rules: the rules for the result; without rules, it is not checked.
        expected_version: the version that the change is meant for, if the client named one.
    """

    actor: Actor
    rules: Rules | None
    expected_version: int | None


async def check(services: Services, submitted: SubmittedWorkflow, rules: Rules) -> CheckedDefinition:
    """Return the definition in a document, if it can be saved as this workflow.

    Raises:
        Invalid: with all errors in it.
        Forbidden: if it has lookup steps, and the caller may not look things up.
        PoolBusy, WorkLost: it was not started in time, or its process ended.
    """
    found = await checking.check(services.pool, services.database, services.keyring, submitted, rules)
    report = found.report
    if report.definition is None or found.readings is None:
        raise Invalid([FieldError(*finding) for finding in report.errors])
    if not rules.may_look_up and report.definition.looks_up:
        raise Forbidden("insufficient_scope", "To save lookup steps the key needs the scope lookups too.")
    return CheckedDefinition(report.definition, report.status, found.readings, report.warnings)


def check_agent(actor: Actor, document: JSONObject, readings: DataReads) -> None:
    """Refuse an agent a new workflow that sends resume URLs, except by the steps of a template.

    Raises:
        Forbidden: `person_required`.
    """
    copies_steps = document.get("template_id") is not None and "steps" not in document
    agents.check_new_workflow(actor, sends_resume_urls=readings.resume_urls, has_own_steps=not copies_steps)


async def create(services: Services, actor: Actor, document: JSONObject, rules: Rules) -> WorkflowView:
    """Store a new workflow, possibly a copy of a template, and the `secrets` that come with it.

    Raises:
        Conflict: one of the secrets exists already, or the account has its most workflows. Nothing is stored
            then.
        SavesInProgress: it was not started.
        Invalid, Forbidden, PoolBusy, WorkLost: as `check` and `check_agent`.
    """
    given = secrets.read_given(document.get("secrets"))
    agents.check_new_secrets(actor, given)
    document = {name: value for name, value in document.items() if name != "secrets"}
    async with services.saves.hold(actor.account_id):
        return await _create(services, actor, document, rules, given)


async def _create(
    services: Services, actor: Actor, document: JSONObject, rules: Rules, given: Mapping[str, str]
) -> WorkflowView:
    submitted = SubmittedWorkflow(actor.account_id, document, given_secrets=given)
    while True:
        checked = await check(services, submitted, rules)
        check_agent(actor, document, checked.readings)
        async with services.database.transaction() as connection:
            # A copy that lacks a secret is a draft. Other secrets that were deleted meanwhile are missing,
            # too.
            lacking = any(warning.code == "unknown_secret" for warning in checked.warnings)
            others = set(checked.readings.secrets) - given.keys()
            if lacking or await secrets.hold(connection, actor.account_id, others):
                await secrets.add(connection, services.keyring, actor, given)
                created = await automations.create(
                    connection, services.keyring, actor, checked,
                    template_id=document.get("template_id"), most=services.settings.max_workflows,
                )  # fmt: skip
                return await _view(connection, services, actor.account_id, created, checked)


async def change(
    services: Services, editor: Editor, automation_id: UUID, changes: JSONObject
) -> WorkflowView:
    """Store a new version with these fields changed; the absent ones stay.

    Args:
        services: of the application.
        editor: the author of the change.
        automation_id: the workflow.
        changes: fields of a definition, and `status`; read-only ones are ignored.

    Raises:
        NotFound: unknown, or another account's.
        VersionMismatch: it has changed since.
        SavesInProgress: it was not started.
        Invalid, Forbidden: as `check` and `agents.check_workflow_change`. A change that only stops a workflow
            is not checked, so a deleted secret or a key without lookups cannot keep it running.
    """
    changes = {name: changes[name] for name in sorted(changes) if name not in READ_ONLY}

    async def make_document(_: Connection, current: CurrentWorkflow) -> JSONObject:
        return {**current.definition, "status": current.status, **changes}

    if changes in ({"status": "paused"}, {"status": "draft"}):
        editor = replace(editor, rules=None)
    async with services.saves.hold(editor.actor.account_id):
        return await _replace(services, editor, automation_id, make_document, Edit("workflow.updated", {}))


async def restore(services: Services, editor: Editor, automation_id: UUID, version: int) -> WorkflowView:
    """Store an earlier definition as a new version; the status stays.

    Raises the errors of `change`, and NotFound if there is no such version.
    """

    async def make_document(connection: Connection, current: CurrentWorkflow) -> JSONObject:
        return {
            **await automations.get_earlier_definition(connection, automation_id, version),
            "status": current.status,
        }

    edit = Edit("workflow.restored", {"restored": version})
    async with services.saves.hold(editor.actor.account_id):
        return await _replace(services, editor, automation_id, make_document, edit)


async def _replace(
    services: Services,
    editor: Editor,
    automation_id: UUID,
    make_document: Callable[[Connection, CurrentWorkflow], Awaitable[JSONObject]],
    edit: Edit,
) -> WorkflowView:
    """Store what `make_document` returns for the current workflow; repeat if that changed meanwhile.

    Without rules, the definition is the stored one and is not checked.
    """
    actor, rules = editor.actor, editor.rules
    while True:
        async with services.database.connection() as connection:
            current = await automations.get_current(
                connection, actor.account_id, automation_id, editor.expected_version
            )
            wanted = await make_document(connection, current)
        submitted = SubmittedWorkflow(actor.account_id, wanted, automation_id)
        checked = await _read_submitted(services, submitted, rules)
        told = _with_differences(edit, current, checked)
        async with services.database.transaction() as connection:
            if told.changes.keys() - {"status", "restored"}:
                await agents.check_workflow_change(
                    connection, actor, automation_id, sends_resume_urls=checked.readings.resume_urls
                )
            held = rules is None or await secrets.hold(connection, actor.account_id, checked.readings.secrets)
            if rules is not None:
                await sub_workflows.check_at_last(
                    connection, actor.account_id, automation_id, checked.definition
                )
            if held and await automations.replace(
                connection, actor, automation_id, current.version, checked, told
            ):
                return await _view(connection, services, actor.account_id, automation_id, checked)


def _with_differences(edit: Edit, current: CurrentWorkflow, checked: CheckedDefinition) -> Edit:
    definition = checked.definition.model_dump(mode="json", exclude_unset=True)
    changes = differences(
        {**current.definition, "status": current.status}, {**definition, "status": checked.status}
    )
    return Edit(edit.action, edit.changes | changes, changed_fields(current.definition, definition))


async def _read_submitted(
    services: Services, submitted: SubmittedWorkflow, rules: Rules | None
) -> CheckedDefinition:
    if rules is not None:
        return await check(services, submitted, rules)
    document: JSONObject = dict(submitted.document)
    status = document.pop("status")
    definition = Definition.model_validate(document)
    readings = await checking.readings_of(services.pool, submitted.account_id, definition)
    return CheckedDefinition(definition, status, readings)


async def _view(
    connection: Connection,
    services: Services,
    account_id: UUID,
    automation_id: UUID,
    checked: CheckedDefinition,
) -> WorkflowView:
    view = await automation_views.get(
        connection, services.keyring, account_id, automation_id, services.settings.address
    )
    shown = [finding._asdict() for finding in checked.warnings if finding.code not in _ONLY_OF_VALIDATION]
    return view.model_copy(update={"warnings": shown})
