"""How many streams and waits an account has open, and how often they look at the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest

from api.streams import job_events, run_events
from models.jobs import jobs
from models.runs import runs
from settings import Settings
from tests.api_server import Api, Person, running
from tests.event_streams import streaming
from tests.mcp.clients import Agent
from tests.runs.workflows import create, problem, start
from tests.stacks import eventually


@pytest.fixture(scope="module")
async def narrow(open_settings: Settings) -> AsyncGenerator[Api]:
    """An API that gives each account two streams, and one wait by ingest."""
    async with running(open_settings, max_streams=2, max_ingest_waits=1) as served:
        yield served


@pytest.fixture
async def somebody(narrow: Api) -> Person:
    return await narrow.person(credits=100)


@pytest.fixture
async def full(narrow: Api, somebody: Person) -> AsyncGenerator[str]:
    """The account has two streams of a run open; the run."""
    run_id = await start(somebody, await create(somebody))
    async with AsyncExitStack() as stack:
        path = f"/api/workflows/runs/{run_id}/events"
        streams = [await stack.enter_async_context(streaming(somebody.key, path)) for _ in range(2)]
        assert [await stream.next() is not None for stream in streams] == [True, True]
        yield run_id


async def test_an_account_has_so_many_streams_of_runs(narrow: Api, somebody: Person, full: str) -> None:
    refused = await somebody.key.get(f"/api/workflows/runs/{full}/events")
    assert problem(refused) == (429, "too_many_streams")
    assert refused.headers["Retry-After"] == "5" and refused.json()["limit"] == 2

    other = await narrow.person()
    run_id = await start(other, await create(other))
    async with streaming(other.key, f"/api/workflows/runs/{run_id}/events") as stream:
        assert await stream.next()


async def test_a_stream_that_ends_frees_its_place(narrow: Api, somebody: Person) -> None:
    run_id = await start(somebody, await create(somebody))
    for _ in range(3):
        async with streaming(somebody.key, f"/api/workflows/runs/{run_id}/events") as stream:
            assert await stream.next()
        await eventually(
            lambda: not narrow.services.streams.are_taken(somebody.account.id), what="it is free"
        )
    taken = narrow.services.streams._taken  # pyright: ignore[reportPrivateUsage]
    await eventually(lambda: somebody.account.id not in taken, what="all are free")


async def test_a_wait_without_a_place_starts_no_run(somebody: Person, full: str) -> None:
    workflow = await create(somebody)
    refused = await somebody.key.post(f"/api/workflows/{workflow}/run?wait=1", json={})
    assert problem(refused) == (429, "too_many_streams")
    assert (await somebody.key.get(f"/api/workflows/runs?workflow_id={workflow}")).json()["total"] == 0
    assert (await somebody.key.post(f"/api/workflows/{workflow}/run", json={})).status_code == 202


async def test_a_job_and_a_bulk_search_need_a_place_for_their_streams(somebody: Person, full: str) -> None:
    accept = {"Accept": "text/event-stream"}
    search = await somebody.key.post("/api/bulk-ip-search", json={"queries": ["8.8.8.8"]}, headers=accept)
    assert problem(search) == (429, "too_many_streams")
    job = await somebody.key.post("/api/bulk-jobs", json={"type": "ip", "targets": ["8.8.8.8"]})
    stream = await somebody.key.get(f"/api/bulk-jobs/{job.json()['id']}/events")
    assert problem(stream) == (429, "too_many_streams")


async def test_an_agent_that_waits_needs_a_place(narrow: Api, somebody: Person, full: str) -> None:
    agent = Agent(narrow.url, somebody.secret)
    text = await agent.refused("get_workflow_run", run_id=full, wait_seconds=1)
    assert text.startswith("too_many_streams:")
    assert (await agent.call("get_workflow_run", run_id=full))["id"] == full


async def test_an_event_beyond_the_waits_is_accepted_and_not_waited_for(
    narrow: Api, somebody: Person, full: str
) -> None:
    fields: dict[str, Any] = {"name": "t", "trigger": {"type": "webhook"}}
    url = (await somebody.key.post("/api/workflows", json=fields)).json()["webhook_url"]
    path = "/api/" + url.partition("/api/")[2]
    first = asyncio.create_task(narrow.http.post(f"{path}?wait=30", json={}))
    waits = narrow.services.ingest_waits
    await eventually(lambda: waits.are_taken(somebody.account.id), what="one waits")
    async with asyncio.timeout(20):
        second = await narrow.http.post(f"{path}?wait=30", json={})
    assert (second.status_code, second.json()["status"]) == (202, "queued")
    assert not first.done()
    first.cancel()


async def test_however_many_watch_a_run_it_is_looked_at_once(
    api: Api, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_events, "_LOOK_SECONDS", 600)
    run_id = await start(person, await create(person))
    looks = counted(monkeypatch, runs, "get_pulse", run_id)
    path = f"/api/workflows/runs/{run_id}"
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(streaming(person.key, f"{path}/events")) for _ in range(20)
        ]
        assert [(await stream.next()).name for stream in streams if stream] == ["run"] * 20  # type: ignore
        before = len(looks)
        await person.key.post(f"{path}/cancel")
        assert [(await stream.all())[-1].name for stream in streams] == ["end"] * 20
    # Each request looks once before it streams.
    assert (before, len(looks)) == (21, 22)


async def test_however_many_watch_a_job_it_is_looked_at_once(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_events, "_LOOK_SECONDS", 600)
    job = await person.key.post("/api/bulk-jobs", json={"type": "ip", "targets": ["8.8.8.8"]})
    path = f"/api/bulk-jobs/{job.json()['id']}"
    looks = counted(monkeypatch, jobs, "get", job.json()["id"])
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(streaming(person.key, f"{path}/events")) for _ in range(20)
        ]
        assert [(await stream.next()).name for stream in streams if stream] == ["progress"] * 20  # type: ignore
    assert len(looks) == 21


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, id: str) -> list[None]:
    """Count the calls of a function that reads what has this id from the database."""
    calls, real = list[None](), getattr(module, name)

    async def call(*args: Any, **kwargs: Any) -> Any:
        calls.extend([None] if UUID(id) in args else [])
        return await real(*args, **kwargs)

    monkeypatch.setattr(module, name, call)
    return calls
