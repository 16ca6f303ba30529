"""Runs in every state, as revision 0009 has them: all in one table, with progress in its first form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Json

from database import Connection
from models.automations.run_targets import RunTarget
from models.identifiers import new_id

REVISION = "0009"
PAYLOAD = {"items": [7, 8]}
HOUR = timedelta(hours=1)


def steps(url: str) -> list[dict[str, Any]]:
    """A call, a call for each of two items, a delay of two days, and what came of the calls."""
    return [
        {"id": "a", "type": "webhook", "config": {"url": f"{url}/a"}},
        {
            "id": "each", "type": "webhook", "for_each": "trigger.items",
            "config": {"url": url + "/{{ item }}"},
        },
        {"id": "nap", "type": "delay", "config": {"days": 2}},
        {"id": "end", "type": "transform", "config": {"expression": "[a.body, each[].body]"}},
    ]  # fmt: skip


def answered(body: Any) -> dict[str, Any]:
    return {"status": 200, "headers": {}, "body": body}


OUTPUTS: dict[str, Any] = {
    "a": answered("a"),
    "each": [answered(7), answered(8)],
    "nap": {"until": "2026-01-02T00:00:00Z"},
    "end": ["a", [7, 8]],
}
BEFORE_NAP = ["a", "each"]
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NO_PROGRESS: dict[str, Any] = {"attempts": {}, "began": {}, "backoffs": {}, "pauses": {}, "items": {}}


def napping(until: datetime) -> dict[str, Any]:
    """The progress of a run in its delay."""
    pause = {"since": BEGAN.isoformat(), "until": until.isoformat()}
    return NO_PROGRESS | {"began": {"nap": BEGAN.isoformat()}, "pauses": {"nap": pause}}


def backing_off(until: datetime) -> dict[str, Any]:
    """The progress of a run whose first step has failed twice."""
    at = {"a": until.isoformat()}
    return NO_PROGRESS | {"attempts": {"a": 2}, "began": {"a": BEGAN.isoformat()}, "backoffs": at}


async def insert_runs(connection: Connection, target: RunTarget, until: datetime) -> dict[str, UUID]:
    """Insert a run for each state; by its name its id.

    Args:
        connection: to a database of this revision.
        target: with a workflow of these steps.
        until: when what waits goes on.
    """
    begun = {"started_at": BEGAN, "attempts": 1, "batch_id": new_id(), "progressed_at": BEGAN}
    waits = {**begun, "status": "waiting", "wake_at": until}
    over = {**begun, "completed_at": BEGAN + HOUR}
    error = {"step": "a", "code": "http_status", "message": "The endpoint answered 404."}
    states: dict[str, tuple[dict[str, Any], list[str]]] = {
        "queued": ({"status": "queued"}, []),
        "running": ({**begun, "status": "running"}, ["a"]),
        "napping": ({**waits, "progress": Json(napping(until))}, BEFORE_NAP),
        "backing off": ({**waits, "progress": Json(backing_off(until))}, []),
        "to be cancelled": ({**begun, "status": "running", "cancel_requested_at": BEGAN}, ["a"]),
        "completed": ({**over, "status": "completed", "output": Json(OUTPUTS["end"])}, [*OUTPUTS]),
        "failed": ({**over, "status": "failed", "error": Json(error)}, []),
        "cancelled": ({**over, "status": "cancelled"}, ["a"]),
    }
    ids: dict[str, UUID] = {}
    for name, (columns, done) in states.items():
        ids[name] = run_id = await _insert_run(connection, target, {**columns, "dedupe_key": name})
        for step_id in done:
            await _insert_step(connection, run_id, step_id)
        items = {"running": [7], "completed": [7, 8], "napping": [7, 8]}.get(name, [])
        for item, value in enumerate(items):
            await connection.execute(
                "insert into run_step_items (run_id, step_id, item, status, output, attempts)"
                " values (%s, 'each', %s, 'completed', %s, 1)",
                (run_id, item, Json(answered(value))),
            )
    return ids


async def _insert_run(connection: Connection, target: RunTarget, columns: dict[str, Any]) -> UUID:
    run_id = new_id()
    cursor = await connection.execute(
        "select id from lanes where automation_id = %s order by priority limit 1", (target.automation_id,)
    )
    lane = await cursor.fetchone()
    assert lane is not None
    row: dict[str, Any] = {
        "id": run_id, "account_id": target.account_id, "automation_id": target.automation_id,
        "version": target.version, "lane_id": lane["id"], "trigger": "manual", "input": Json(PAYLOAD),
        "input_bytes": 20, "queued_at": BEGAN, **columns,
    }  # fmt: skip
    await connection.execute(
        SQL("insert into runs ({}) values ({})").format(
            SQL(", ").join(map(Identifier, row)), SQL(", ").join(map(Placeholder, row))
        ),
        row,
    )
    return run_id


async def _insert_step(connection: Connection, run_id: UUID, step_id: str) -> None:
    await connection.execute(
        "insert into run_steps (run_id, step_id, position, status, output, attempts, started_at,"
        " completed_at) values (%s, %s, %s, 'completed', %s, 1, %s, %s)",
        (run_id, step_id, list(OUTPUTS).index(step_id), Json(OUTPUTS[step_id]), BEGAN, BEGAN),
    )
