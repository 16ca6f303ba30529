"""A run goes on where the history of its workflow gets long: as new, or in another workflow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.workflow import Info

from database import Database
from notifications import Notifier
from settings import Settings
from tests.automations.engine import Endpoint, NewTarget, ended, events_of, waiting, webhook
from tests.automations.own_runs import begun, delay
from workflows import runs as workflows_of_runs

pytestmark = pytest.mark.usefixtures("quick_watch")


@pytest.fixture
def short_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the ratio of the real ones; Temporal terminates a workflow at two and a half times the second."""
    monkeypatch.setattr(
        Info, "is_continue_as_new_suggested", lambda info: info.get_current_history_length() > 20
    )
    monkeypatch.setattr(workflows_of_runs, "_MOST_EVENTS", 60)


@pytest.mark.long
@pytest.mark.usefixtures("short_histories")
async def test_a_run_whose_calls_always_overlap_continues_as_new(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.json_response({})

    def chain(name: str) -> list[dict[str, Any]]:
        each = {"for_each": "trigger", "max_concurrency": 2}
        steps = [{**webhook(f"{receiver.url}/{name}{index}", f"{name}{index}"), **each} for index in range(3)]
        return [
            {**step, "needs": [f"{name}{index - 1}"] if index else []} for index, step in enumerate(steps)
        ]

    receiver.handler = answer
    target = await new_target([*chain("a"), *chain("b")], execution="workflow")
    run_id, handle = await begun(notifier, client, database, target, list(range(10)))
    view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    ids = [request["headers"]["webhook-id"] for request in receiver.requests]
    assert len(ids) == len({*ids}) == 60
    [started] = await events_of(client.get_workflow_handle(handle.id), "workflow_execution_started")
    assert started.workflow_execution_started_event_attributes.continued_execution_run_id


@pytest.mark.long
async def test_a_run_whose_workflow_temporal_has_terminated_goes_on(
    notifier: Notifier, client: Client, open_settings: Settings, database: Database, new_target: NewTarget
) -> None:
    target = await new_target([delay(5)], execution="workflow")
    run_id, handle = await begun(notifier, client, database, target)
    await waiting(database, target.account_id, run_id)
    server = await Client.connect(
        str(open_settings.temporal_address),
        identity="history-service",
        data_converter=pydantic_data_converter,
    )
    await server.get_workflow_handle(handle.id).terminate("Workflow history count exceeds limit.")
    assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
