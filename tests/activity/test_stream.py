"""GET /api/stream: what changes in the account, by ids and states."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.streams import live_events
from database import Database
from models.activity.states import State
from models.runs import runs
from services import account_feeds
from services.account_feeds import AccountFeed, FeedReader, Message
from tests.api_server import Api, Person
from tests.event_streams import Seen, Stream, streaming
from tests.runs.workflows import create, start

END = """
with gone as (delete from run_work where run_id = any(%(ids)s))
update runs set status = 'completed', completed_at = now() where id = any(%(ids)s)
"""
WAIT = """
update run_work set status = 'waiting',
  progress = '{"version": 2, "steps": {"ask": {"began": "2026-01-01T00:00:00Z"}}}' where run_id = %s
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_feeds, "_READ_SECONDS", 0.1)


def following(person: Person, **headers: str) -> AbstractAsyncContextManager[Stream]:
    return streaming(person.key, "/api/stream", **headers)


async def until_seen(stream: Stream, kind: str, id: str, state: str) -> Seen:
    """Read on to the message with this change."""
    while True:
        event = await stream.next()
        assert event is not None and event.name == "changes", event
        if {"kind": kind, "id": id, "state": state} in event.data["changes"]:
            return event


async def test_runs_are_told_with_their_states_to_their_account_alone(api: Api, database: Database) -> None:
    person, other = await api.person(), await api.person()
    workflow, others = await create(person), await create(other)
    before = await start(person, workflow)
    async with following(person) as stream:
        first = await stream.next()
        assert first is not None and (first.name, first.data) == ("open", {"changes": []})
        strange, run_id = await start(other, others), await start(person, workflow)
        event = await until_seen(stream, "run", run_id, "queued")
        assert strange not in str(event.data) and before not in str(event.data)
        async with database.connection() as connection:
            await connection.execute(END, {"ids": [run_id, before]})
        await until_seen(stream, "run", run_id, "completed")
        assert api.services.streams.number_taken == 1


async def test_a_client_that_comes_back_is_told_what_it_has_missed(api: Api, database: Database) -> None:
    person = await api.person()
    workflow = await create(person)
    async with following(person) as stream:
        first = await stream.next()
        assert first is not None
    run_id = await start(person, workflow)
    async with following(person, last_event_id=first.id) as stream:
        event = await until_seen(stream, "run", run_id, "queued")
    for seen in ("of another time", "", f"{event.id}0", event.id.replace("-", "-١")[:3]):
        headers = {"last-event-id": seen.encode()}
        async with person.key.stream("GET", "/api/stream", headers=headers) as response:
            again = await Stream(response).next()
            assert again is not None and again.name == "resync"
    async with following(person, last_event_id=event.id) as stream:
        later = await start(person, workflow)
        assert (await until_seen(stream, "run", later, "queued")).data["changes"][0]["id"] == later


async def test_approvals_jobs_and_runs_of_monitors_are_told(api: Api, database: Database) -> None:
    person = await api.person(credits=100)
    steps: list[dict[str, Any]] = [{"id": "ask", "type": "wait", "config": {"timeout": 3600}}]
    run_id = await start(person, await create(person, steps))
    body = {"name": "watch", "frequency": "daily", "monitor_type": "ip", "targets": ["192.0.2.1"]}
    monitor = (await person.key.post("/api/monitors", json=body)).json()["id"]
    async with following(person) as stream:
        await stream.next()
        async with database.connection() as connection:
            await connection.execute(WAIT, (run_id,))
        await until_seen(stream, "approval", f"{run_id}/ask", "waiting")
        async with database.connection() as connection:
            await connection.execute(
                "insert into run_answers (run_id, step_id, output, answered_at)"
                " values (%s, 'ask', '{}', now())",
                (run_id,),
            )
        await until_seen(stream, "approval", f"{run_id}/ask", "over")
        job = await person.key.post("/api/bulk-jobs", json={"type": "ip", "targets": ["192.0.2.1"]})
        await until_seen(stream, "job", job.json()["id"], "queued")
        begun = await person.key.post(f"/api/monitors/{monitor}/run")
        await until_seen(stream, "monitor_run", begun.json()["run_id"], "queued")


async def test_the_end_of_a_run_that_is_not_among_the_newest_is_told(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.activity.states.NEWEST", 2)
    person = await api.person()
    workflow = await create(person)
    ids = [await start(person, workflow) for _ in range(5)]
    async with following(person) as stream:
        await stream.next()
        async with database.connection() as connection:
            await connection.execute(END, {"ids": ids[:1]})
            await connection.execute("select pg_notify(%s, %s)", (runs.FINISHED_CHANNEL, ids[0]))
        event = await until_seen(stream, "run", ids[0], "completed")
        assert len(event.data["changes"]) == 1


async def test_a_stream_ends_with_its_credential_and_counts_among_those_of_the_account(api: Api) -> None:
    person = await api.person()
    key = (await person.session.get("/api/keys")).json()["keys"][0]["id"]
    async with following(person) as stream:
        await stream.next()
        assert (await person.session.delete(f"/api/keys/{key}")).status_code == 200
        assert await stream.next() is None

    async def look() -> bool:
        return api.services.streams.number_taken == 0

    async with asyncio.timeout(5):
        while not await look():
            await asyncio.sleep(0.01)


async def test_signs_of_life_come_while_nothing_happens(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_events, "_HEARTBEAT_SECONDS", 0.3)
    async with following(await api.person()) as stream:
        await stream.next()
        event = await stream.next()
        assert event is not None and (event.name, event.data) == ("heartbeat", {})


async def test_a_key_needs_the_scope(api: Api) -> None:
    person = await api.person(scopes=["lookups"])
    assert (await person.key.get("/api/stream")).status_code == 403


async def test_an_interrupted_listener_makes_clients_read_again(api: Api, database: Database) -> None:
    person = await api.person()
    async with following(person) as stream:
        await stream.next()
        async with database.connection() as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and query like 'listen %'"
            )
        event = await stream.next()
        assert event is not None and event.name == "resync"


def state(number: int, status: str) -> State:
    return State(UUID(int=1), "run", str(number), status)


async def read_all(reader: FeedReader) -> list[Message]:
    return list(await reader.next(0) or ())


async def test_messages_are_few_and_very_many_changes_are_none() -> None:
    feed = AccountFeed()
    reader = FeedReader(feed, None)
    assert await reader.next(0) is None
    feed.note([], [])
    [opened] = await read_all(reader)
    assert opened.name == "open"
    feed.note([], [state(n, "completed") for n in range(1200)])
    messages = await read_all(reader)
    assert [len(one.changes) for one in messages] == [500, 500, 200]
    assert [one.name for one in await read_all(FeedReader(feed, messages[0].id))] == ["changes"] * 2
    feed.note([], [state(n, "failed") for n in range(3000)])
    assert [one.name for one in await read_all(reader)] == ["resync"]
    feed.note([], [])
    assert await reader.next(0) is None


async def test_a_message_that_is_kept_no_longer_asks_to_read_again() -> None:
    feed = AccountFeed()
    feed.note([], [])
    ids: list[str] = []
    for number in range(account_feeds._KEPT_MESSAGES + 2):  # pyright: ignore[reportPrivateUsage]
        feed.note([state(number, "queued")], [])
        ids.append(feed.position)
    assert len(await read_all(FeedReader(feed, ids[1]))) == len(ids) - 2
    assert [one.name for one in await read_all(FeedReader(feed, ids[0]))] == ["resync"]
    assert [one.name for one in await read_all(FeedReader(feed, str(uuid4())))] == ["resync"]
