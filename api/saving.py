"""Saving workflows: read what is needed, check it without a connection, store it if all is still as it was.

Checking a large document keeps a processor busy for a second: another process does it, and meanwhile no
connection is held.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from api.deps import Services
from database import Connection
from language.definition import Definition
from models.accounts import agents, secrets
from models.audit import Actor, differences
from models.automations import automation_views, automations
from models.automations.automation_views import WorkflowView
from models.automations.automations import CurrentWorkflow, DataReads, Edit
from models.automations.definitions import READ_ONLY, CheckedDefinition, Rules
from models.automations.versions import changed_fields
from models.errors import FieldError, Forbidden, Invalid
from services import checking, sub_workflows

JSONObject = dict[str, Any]

POOLED = ("too_busy", "work_lost")
"""The codes of what a process of the pool could not do."""

REFUSED = ("saves_in_progress", *POOLED)
"""The codes of a save that was not begun or not done."""
# What it says is mostly meant: only who validates is told.
_ONLY_OF_VALIDATION = {"field_of_trigger"}


async def check(
    services: Services,
    account_id: UUID,
    document: Any,
    rules: Rules,
    automation_id: UUID | None = None,
    given_secrets: Mapping[str, str] | None = None,
) -> tuple[CheckedDefinition, DataReads]:
    """The definition in a document, if it can be saved as this workflow, and what it reads.

    Raises:
        Invalid: naming everything that is wrong with it.
        Forbidden: if it has lookup steps, and who saves it may not look things up.
        PoolBusy, WorkLost: it was not begun in time, or its process has ended.
    """
    found = await checking.check(
        services.pool,
        services.database,
        services.keyring,
        account_id,
        document,
        rules,
        automation_id,
        given_secrets,
    )
    report = found.report
    if report.definition is None or found.readings is None:
        raise Invalid([FieldError(*finding) for finding in report.errors])
    if not rules.may_look_up and report.definition.looks_up:
        raise Forbidden("insufficient_scope", "To save lookup steps the key needs the scope lookups too.")
    return CheckedDefinition(report.definition, report.status, report.warnings), found.readings


def check_agent(actor: Actor, document: JSONObject, readings: DataReads) -> None:
    """Refuse an agent a new workflow that sends resume URLs, other than by the steps of a template.

    Raises:
        Forbidden: `person_required`.
    """
    copies_steps = document.get("template_id") is not None and "steps" not in document
    agents.check_new_workflow(actor, sends_resume_urls=readings.resume_urls, has_own_steps=not copies_steps)


async def create(services: Services, actor: Actor, document: JSONObject, rules: Rules) -> WorkflowView:
    """Store a new workflow, a copy of a template perhaps, and the `secrets` that come with it.

    Raises:
        Conflict: the account has one of the secrets, or as many workflows as it may. Nothing is stored then.
        SavesInProgress: it was not begun.
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
    while True:
        checked, readings = await check(services, actor.account_id, document, rules, given_secrets=given)
        check_agent(actor, document, readings)
        async with services.database.transaction() as connection:
            # A copy that lacks a secret is a draft: what else is deleted now, it lacks too.
            lacking = any(warning.code == "unknown_secret" for warning in checked.warnings)
            others = set(readings.secrets) - given.keys()
            if lacking or await secrets.hold(connection, actor.account_id, others):
                await secrets.add(connection, services.keyring, actor, given)
                created = await automations.create(
                    connection, services.keyring, actor, checked.definition, checked.status, readings,
                    template_id=document.get("template_id"), most=services.settings.max_workflows,
                )  # fmt: skip
                return await _view(connection, services, actor.account_id, created, checked)


async def change(
    services: Services,
    actor: Actor,
    automation_id: UUID,
    changes: JSONObject,
    *,
    rules: Rules,
    expected_version: int | None,
) -> WorkflowView:
    """Store a new version with these fields changed; the absent ones stay.

    Args:
        services: of the application.
        actor: whose workflow it is, and who changes it.
        automation_id: which.
        changes: fields of a definition, and `status`; those that nobody can set are ignored.
        rules: what the result must meet.
        expected_version: the version that the change is meant for, if the client named one.

    Raises:
        NotFound: unknown, or another account's.
        VersionMismatch: it has changed since.
        SavesInProgress: it was not begun.
        Invalid, Forbidden: as `check` and `agents.check_workflow_change`. What only stops a workflow is not
            checked: a secret that is gone, or a key that may not look up, is no reason to let it go on.
    """
    changes = {name: changes[name] for name in sorted(changes) if name not in READ_ONLY}

    async def document(_: Connection, current: CurrentWorkflow) -> JSONObject:
        return {**current.definition, "status": current.status, **changes}

    wanted_rules = None if changes in ({"status": "paused"}, {"status": "draft"}) else rules
    edit = Edit("workflow.updated", {})
    async with services.saves.hold(actor.account_id):
        return await _replace(services, actor, automation_id, document, edit, wanted_rules, expected_version)


async def restore(
    services: Services,
    actor: Actor,
    automation_id: UUID,
    version: int,
    *,
    rules: Rules,
    expected_version: int | None,
) -> WorkflowView:
    """Store an earlier definition as a new version; the status stays.

    Raises what `change` does; NotFound also if there is no such version.
    """

    async def document(connection: Connection, current: CurrentWorkflow) -> JSONObject:
        return {
            **await automations.get_earlier_definition(connection, automation_id, version),
            "status": current.status,
        }

    edit = Edit("workflow.restored", {"restored": version})
    async with services.saves.hold(actor.account_id):
        return await _replace(services, actor, automation_id, document, edit, rules, expected_version)


async def _replace(
    services: Services,
    actor: Actor,
    automation_id: UUID,
    document: Callable[[Connection, CurrentWorkflow], Awaitable[JSONObject]],
    edit: Edit,
    rules: Rules | None,
    expected_version: int | None,
) -> WorkflowView:
    """Store what `document` makes of the workflow as it stands; anew when it has changed meanwhile.

    Without rules its definition is what is stored already.
    """
    while True:
        async with services.database.connection() as connection:
            current = await automations.get_current(
                connection, actor.account_id, automation_id, expected_version
            )
            wanted = await document(connection, current)
        checked, readings = await _read(services, actor.account_id, wanted, rules, automation_id)
        told = _with_differences(edit, current, checked)
        async with services.database.transaction() as connection:
            if told.changes.keys() - {"status", "restored"}:
                await agents.check_workflow_change(
                    connection, actor, automation_id, sends_resume_urls=readings.resume_urls
                )
            held = rules is None or await secrets.hold(connection, actor.account_id, readings.secrets)
            if rules is not None:
                await sub_workflows.check_at_last(
                    connection, actor.account_id, automation_id, checked.definition
                )
            if held and await automations.replace(
                connection, actor, automation_id, current.version, checked, readings, told
            ):
                return await _view(connection, services, actor.account_id, automation_id, checked)


def _with_differences(edit: Edit, current: CurrentWorkflow, checked: CheckedDefinition) -> Edit:
    definition = checked.definition.model_dump(mode="json", exclude_unset=True)
    changes = differences(
        {**current.definition, "status": current.status}, {**definition, "status": checked.status}
    )
    return Edit(edit.action, edit.changes | changes, changed_fields(current.definition, definition))


async def _read(
    services: Services,
    account_id: UUID,
    document: JSONObject,
    rules: Rules | None,
    automation_id: UUID | None = None,
) -> tuple[CheckedDefinition, DataReads]:
    if rules is not None:
        return await check(services, account_id, document, rules, automation_id)
    status = document.pop("status")
    definition = Definition.model_validate(document)
    readings = await checking.readings_of(services.pool, account_id, definition)
    return CheckedDefinition(definition, status, []), readings


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
