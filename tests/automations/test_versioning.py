"""Workers with a build id: Temporal gives them nothing before their version is made the current one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from database import Database
from embedded.report import Report
from embedded.temporal import Temporal
from models.runs import own_runs
from models.runs.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from temporal.client import connect
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    events_of,
    run_workflow,
    transform,
    until,
    webhook,
    working,
)
from tests.automations.own_runs import performers

BUILD = "build-7"


@pytest.fixture
async def versioned(scratch: Path, open_settings: Settings) -> AsyncGenerator[Settings]:
    """Settings with a build id, and a server of their own: a current version takes every worker's tasks."""
    folder = scratch / f"versioned-{uuid4()}"
    folder.mkdir()
    server = Temporal(folder, scratch / "logs" / "versioned.log", Report())
    await server.start()
    yield open_settings.model_copy(update={"temporal_address": server.address, "build_id": BUILD})
    await server.stop()


async def make_current(client: Client) -> bool:
    """As `temporal worker deployment set-current-version` does; false while the worker is not known yet."""
    asked = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name="vedette", build_id=BUILD
    )
    try:
        await client.workflow_service.set_worker_deployment_current_version(asked)
    except RPCError as error:
        assert error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION), error
        return False
    return True


@pytest.mark.long
async def test_the_workflows_of_a_versioned_worker_go_once_its_version_is_current(
    versioned: Settings, database: Database, keyring: Keyring, new_target: NewTarget, receiver: Endpoint
) -> None:
    client = await connect(versioned, keyring)
    wait = {"id": "wait", "type": "delay", "config": {"seconds": 2.5}}
    target = await new_target([webhook(receiver.url), wait, transform("end", "call.status")])
    [run_id] = await accept(database, target)
    async with working(versioned, client, database, keyring) as notifier:
        notifier.notify(QUEUED_CHANNEL)
        handle = await run_workflow(client, run_id)
        await until(lambda: make_current(client))
        view = await ended(database, notifier, target.account_id, run_id)
        assert (view.status, view.output) == ("completed", 200)
        assert await handle.result() == "completed"
    [started] = await events_of(handle, "workflow_execution_started")
    assert not started.workflow_execution_started_event_attributes.eager_execution_accepted
    assert await events_of(handle, "timer_fired")
    for event in await events_of(handle, "workflow_task_completed"):
        version = event.workflow_task_completed_event_attributes.deployment_version
        assert (version.deployment_name, version.build_id) == ("vedette", BUILD)


async def test_the_runs_of_a_versioned_worker_go_by_shift_as_long_as_its_version_is_not_current(
    versioned: Settings,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Temporal has been given nobody takes up."""
    monkeypatch.setattr(own_runs, "UNTAKEN_SECONDS", 1)
    client = await connect(versioned, keyring)
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    async with working(versioned, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, len(receiver.requests)) == ("completed", 1)
    assert await performers(database, run_id) == {"call": "shift"}
