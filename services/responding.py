"""The rendering of a workflow's `respond` for a completed run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from database import Database
from engine.inline import INLINE_NODES
from language.delays import write_time
from language.expressions import WHOLE_SCOPE, Budget, ExpressionError
from language.expressions.values import MAX_NODES
from language.responding import RespondError, Response, ResponseTemplates
from language.triggers import Respond, WebhookTrigger
from models.automations import run_targets
from models.automations.run_targets import RunTarget
from models.run_values import ROOM, Omitted
from models.runs import run_loading, runs
from models.runs.run_views import RunView
from models.views import StoredJson
from services.event_checks import UNDECIDED, Charge, ChecksWaiting, EventChecks
from services.process_pool import PoolBusy, WorkLost


class RenderingFailed(NamedTuple):
    """A failed rendering, with the reason, without values of the run."""

    code: str
    message: str


async def respond(
    database: Database, checks: EventChecks, target: RunTarget, run: RunView, charge: Charge
) -> Response | RenderingFailed | None:
    """Return the workflow's answer for a run; None if it defines none for it.

    The answer is that of the version that the run used.

    Args:
        database: holds values that the run object lacks.
        checks: runs expensive rendering, in the account's turn.
        target: the workflow as it is now.
        run: a finished run of it.
        charge: receives the cost beyond what is free for every event.
    """
    entry = target.spec
    if run.workflow_version != target.version:
        async with database.connection() as connection:
            entry = await run_targets.load_trigger_spec(
                connection, target.automation_id, run.workflow_version
            )
    given = entry.trigger.respond if isinstance(entry.trigger, WebhookTrigger) else None
    if given is None or run.status != "completed":
        return None
    roots = {reference.root for reference in ResponseTemplates(given).references}
    values = await _values(database, run, roots)
    if values is None:
        return RenderingFailed("", f"It reads values of more than {ROOM} bytes.")
    scope = await _scope(database, run, entry.name, roots, values)
    found = _render_response(scope, given, INLINE_NODES)
    if isinstance(found, RenderingFailed) and found.code in UNDECIDED:
        try:
            raw = orjson.dumps(scope)
            return await checks.run_in_pool(
                target.account_id, charge, _render_response, raw, given, MAX_NODES
            )
        except (ChecksWaiting, PoolBusy, WorkLost) as error:
            return RenderingFailed(error.code, error.message)
    return found


async def _values(database: Database, run: RunView, roots: set[str]) -> dict[str, Any] | None:
    """Return the values that the templates name, with the event as `trigger`; None if they are too large."""
    every = WHOLE_SCOPE in roots
    stored = {step.id: step.output for step in run.steps if every or roots & {"steps", step.id}}
    if every or "trigger" in roots:
        stored["trigger"] = run.input
    missing = [name for name, value in stored.items() if isinstance(value, Omitted)]
    if missing:
        async with database.connection() as connection:
            if await run_loading.measure_values(connection, run.id, missing) > ROOM:
                return None
            stored |= await run_loading.load_values(connection, run.id, missing)
    return {
        name: orjson.loads(value.raw) if isinstance(value, StoredJson) else value
        for name, value in stored.items()
    }


async def _scope(
    database: Database, run: RunView, name: str, roots: set[str], values: dict[str, Any]
) -> dict[str, Any]:
    """Return the scope of the templates: steps as later steps read them, and null for a skipped step."""
    every = WHOLE_SCOPE in roots
    scope = dict(values)
    if every or "workflow" in roots:
        scope["workflow"] = {"id": str(run.workflow_id), "name": name}
    if every or "steps" in roots:
        scope["steps"] = {
            step.id: {
                "status": step.status, "output": values[step.id],
                "error": step.error and {part: step.error.get(part) for part in ("code", "message")},
            }
            for step in run.steps
        }  # fmt: skip
    if every or roots & {"request", "run"}:
        async with database.connection() as connection:
            origin = await runs.get_origin(connection, run.id)
        began = run.started_at or origin.queued_at
        times = {"queued_at": write_time(origin.queued_at), "started_at": write_time(began)}
        scope |= {"request": origin.request, "run": {"id": str(run.id), **times}}
    return scope


def _render_response(scope: Mapping[str, Any], given: Respond, nodes: int) -> Response | RenderingFailed:
    try:
        return ResponseTemplates(given).render(scope, Budget(nodes))
    except RespondError as error:
        return RenderingFailed("", str(error))
    except ExpressionError as error:
        return RenderingFailed(error.code, error.message)
