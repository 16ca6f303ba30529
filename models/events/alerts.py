"""Alerts: the events that `emit` steps of runs send to the webhooks of the account."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from database import Connection
from models.events import events
from models.events.event_data import WorkflowAlert
from models.runs import step_answers


async def emit_once(connection: Connection, account_id: UUID, alert: WorkflowAlert) -> Any:
    """Emit an alert once for its run and step, even if it is called again.

    Args:
        connection: in a transaction.
        account_id: the owner of the run.
        alert: the data of the event.

    Returns:
        `{"event_id", "webhooks"}`: the event's id, null if the event is not stored because no webhook wants
        it; and the number of webhooks that get it.
    """
    # A concurrent call for the same alert waits here.
    if not await step_answers.answer(connection, alert.run_id, alert.step_id, None):
        return await step_answers.find(connection, alert.run_id, alert.step_id)
    event_id, webhooks = await events.emit_counted(connection, account_id, alert)
    output = {"event_id": str(event_id) if webhooks else None, "webhooks": webhooks}
    await step_answers.replace(connection, alert.run_id, alert.step_id, output)
    return output
