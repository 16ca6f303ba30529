"""A server whose operator has not added our search attributes, and lets nobody else do so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from database import Database
from embedded.doctor import examine
from embedded.temporal import Temporal, prepare_given
from models.identifiers import new_id
from sealing import Keyring
from settings import Settings
from temporal import attributes, starts
from temporal.client import connect
from temporal.due_schedules import MONITORS
from tests.automations.engine import NewTarget, accept, ended, working
from tests.stacks import eventually
from workflows.messages import OwnRun


@pytest.fixture
async def strict(
    live_settings: Settings, temporal_server: Temporal, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Settings with a namespace that lacks them all, and whose server refuses to add any."""

    async def refuse(client: Client, namespace: str) -> None:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    monkeypatch.setattr(attributes, "add_missing", refuse)
    client, name = await Client.connect(temporal_server.address), f"strict-{uuid4()}"
    kept = Duration(seconds=86400)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    )
    settings = live_settings.model_copy(update={"temporal_namespace": name})

    async def is_there() -> bool:
        try:
            await attributes.find_missing(client, name)
        except RPCError:
            return False
        return True

    await eventually(is_there, 30, "the new namespace is known")
    return settings


async def test_runs_have_workflows_without_search_attributes_where_the_server_has_none(
    strict: Settings, database: Database, keyring: Keyring, new_target: NewTarget
) -> None:
    await prepare_given(strict)
    client, target = await connect(strict, keyring), await new_target(execution="workflow")
    [run_id] = await accept(database, target)
    async with working(strict, client, database, keyring) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    described = await client.get_workflow_handle(starts.run_workflow_id(run_id)).describe()
    assert not any(name.startswith("Vedette") for name in described.search_attributes)


async def test_a_schedule_is_made_without_them(strict: Settings, keyring: Keyring) -> None:
    client, id = await connect(strict, keyring), new_id()
    await MONITORS.update(client, id, new_id(), datetime.now(UTC) + timedelta(days=1), False)

    async def is_listed() -> bool:
        return id in await MONITORS.list_all(client)

    await eventually(is_listed, 20, "the Schedule is listed")


async def test_what_else_a_server_refuses_is_told(strict: Settings, keyring: Keyring) -> None:
    client = await connect(strict.model_copy(update={"temporal_namespace": "nowhere"}), keyring)
    with pytest.raises(RPCError) as refused:
        given = OwnRun(new_id(), new_id())
        labels = starts.RunLabels(new_id(), new_id(), 1, "webhook", priority=2, parent_run_id=None)
        await starts.start_run(client, given, labels)
    assert refused.value.status is RPCStatusCode.NOT_FOUND


async def test_doctor_says_how_the_operator_adds_them(strict: Settings) -> None:
    [finding] = [one for one in await examine(strict) if one.part == "temporal"]
    assert finding.state == "warning" and "VedetteKind" in finding.text
    for name, type in (("VedetteKind", "Keyword"), ("VedetteVersion", "Int")):
        assert f"--name {name} --type {type}" in finding.remedy
        assert f"--search-attribute {name}={type}" in finding.remedy
