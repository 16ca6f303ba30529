"""Events as triggers: the runs that an event starts, in the transaction that writes it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, LiteralString
from uuid import UUID

from database import Connection
from models.automations import run_targets
from models.automations.run_targets import RunTarget
from models.errors import Conflict, NotFound
from models.events.event_data import EventData
from models.events.event_types import name_of
from models.runs import acceptance
from models.runs.acceptance import RunAcceptance, RunRequest

_LISTENING: LiteralString = """
select a.id from automations a
join automation_versions v on v.automation_id = a.id and v.version = a.version
where a.account_id = %(account)s and a.status = 'active' and a.deleted_at is null
  and v.definition->'trigger'->>'type' = 'monitor_event'
  and coalesce(v.definition->'trigger'->>'event', 'monitor.run.completed') = %(event)s
  and coalesce(v.definition->'trigger'->>'monitor_id', %(monitor)s) = %(monitor)s
order by a.id
"""


async def start_runs(
    connection: Connection,
    account_id: UUID,
    event_id: UUID,
    data: EventData,
    more: Mapping[str, Any],
) -> list[RunAcceptance]:
    """Accept a run of each active workflow of the account that waits for this event of a monitor.

    A repeated call for the same event accepts nothing more. After the commit, notify
    `models.runs.runs.QUEUED_CHANNEL`.

    Args:
        connection: in the transaction of `models.events.events.emit`.
        account_id: the owner of the event.
        event_id: its id.
        data: its data, which has a `monitor_id`.
        more: further fields of the `trigger` that the runs get.
    """
    shown = data.model_dump(mode="json")
    wanted = {"account": account_id, "event": name_of(data), "monitor": shown["monitor_id"]}
    cursor = await connection.execute(_LISTENING, wanted)
    listening: list[RunTarget] = []
    for row in await cursor.fetchall():
        # A workflow that was just paused or deleted no longer waits for events.
        with contextlib.suppress(NotFound, Conflict):
            listening.append(await run_targets.event_target(connection, account_id, row["id"]))
    payload = shown | dict(more)
    return await acceptance.accept(
        connection,
        [
            RunRequest(target, "monitor_event", payload, dedupe_key=f"event/{event_id}")
            for target in listening
        ],
    )
