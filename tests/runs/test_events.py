"""GET /api/workflows/runs/{id}/events, and what a run shows of itself while it goes on."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from api.streams import live_events
from database import Database
from models.accounts import keys
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, transform, until, webhook
from tests.event_streams import Seen, Stream, streaming
from tests.runs.conftest import Follow, FollowStep
from tests.runs.workflows import adrift, create, finish, problem, start, statuses


def watching(person: Person, run_id: str, **headers: str) -> AbstractAsyncContextManager[Stream]:
    return streaming(person.key, f"/api/workflows/runs/{run_id}/events", **headers)


def held(receiver: Endpoint, step_id: str = "held") -> dict[str, Any]:
    """A step whose endpoint answers when the test lets it."""
    return webhook(f"{receiver.url}/held", step_id, timeout=60)


async def called(receiver: Endpoint) -> None:
    async def look() -> object:
        return receiver.requests

    await until(look)


async def test_the_steps_of_a_live_run_come_one_by_one(
    person: Person, receiver: Endpoint, worker: None
) -> None:
    steps = [webhook(receiver.url, "first"), held(receiver), transform("last", "'done'")]
    run_id = await start(person, await create(person, steps), {"n": 1})
    async with watching(person, run_id) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        first = await stream.next()
        assert first is not None and (first.name, first.data["id"]) == ("run", run_id)
        seen = list(statuses(first.data).items())
        while ("held", "running") not in seen:
            event = await stream.next()
            assert event is not None
            seen += statuses_of(event).items()
        assert ("first", "completed") in seen
        assert ("last", "completed") not in seen
        receiver.open.set()
        rest = await stream.all()
    assert [(event.name, event.data["status"]) for event in rest] == [
        ("step", "completed"), ("step", "completed"), ("end", "completed"),
    ]  # fmt: skip
    assert [event.data["id"] for event in rest] == ["held", "last", run_id]
    assert rest[-1].data == (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    assert len({event.id for event in rest}) == len(rest)


async def test_a_finished_run_gives_its_state_and_ends_at_once(person: Person, worker: None) -> None:
    run = await finish(person, await create(person, [transform("a", "'x'")]))
    async with watching(person, run["id"]) as stream:
        events = await stream.all()
    assert [(event.name, event.data) for event in events] == [("run", run), ("end", run)]


async def test_a_client_that_comes_back_gets_only_what_is_new_and_signs_of_life_till_then(
    person: Person, receiver: Endpoint, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "_HEARTBEAT_SECONDS", 0.5)
    run_id = await start(person, await create(person, [held(receiver), transform("last", "'x'")]))
    async with watching(person, run_id) as stream:
        event = await stream.next()
        while event and statuses_of(event).get("held") != "running":
            event = await stream.next()
        assert event is not None
    async with watching(person, run_id, last_event_id=event.id) as stream:
        await stream.quiet()
        receiver.open.set()
        events = await stream.all()
    assert [event.name for event in events] == ["step", "step", "end"]


def statuses_of(event: Seen) -> dict[str, str]:
    return statuses(event.data) if event.name != "step" else {event.data["id"]: event.data["status"]}


async def test_a_client_that_comes_back_to_another_state_gets_the_run_as_it_is(
    person: Person, receiver: Endpoint, worker: None
) -> None:
    run_id = await start(person, await create(person, [held(receiver)]))
    async with watching(person, run_id) as stream:
        first = await stream.next()
    assert first is not None
    await called(receiver)
    receiver.open.set()
    async with watching(person, run_id, last_event_id="of another time") as stream:
        events = await stream.all()
    assert (events[0].name, events[0].data["id"]) == ("run", run_id)


async def test_a_client_that_has_seen_the_end_is_told_not_to_come_back(person: Person, worker: None) -> None:
    run = await finish(person, await create(person))
    async with watching(person, run["id"]) as stream:
        last = (await stream.all())[-1]
    again = await person.key.get(
        f"/api/workflows/runs/{run['id']}/events", headers={"Last-Event-ID": last.id}
    )
    assert (again.status_code, again.content) == (204, b"")


async def test_a_cancel_ends_the_stream(
    person: Person, receiver: Endpoint, worker: None, follow_step: FollowStep
) -> None:
    run_id = await start(person, await create(person, [held(receiver), transform("last", "'x'")]))
    await follow_step(run_id, "held", "running")
    async with watching(person, run_id) as stream:
        assert await stream.next()
        await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
        last = (await stream.all())[-1]
    assert (last.name, last.data["status"]) == ("end", "cancelled")
    assert statuses(last.data) == {"held": "cancelled", "last": "skipped"}
    receiver.open.set()


async def test_a_long_delay_shows_until_when_it_waits(person: Person, worker: None) -> None:
    run_id = await start(
        person, await create(person, [{"id": "wait", "type": "delay", "config": {"days": 2}}])
    )
    async with watching(person, run_id) as stream:
        event = await stream.next()
        while event and event.data["status"] != "waiting":
            event = await stream.next()
        assert event is not None
    [step] = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()["steps"]
    assert step["status"] == "waiting" and step["output"]["until"].endswith("Z")
    until = datetime.fromisoformat(step["output"]["until"])
    assert until - datetime.fromisoformat(step["started_at"]) == timedelta(days=2)


async def test_a_client_that_leaves_frees_what_it_held(
    api: Api, person: Person, receiver: Endpoint, worker: None
) -> None:
    waiting = api.services.waiter._waiting  # pyright: ignore[reportPrivateUsage]
    run_id = await start(person, await create(person, [held(receiver)]))
    async with watching(person, run_id) as stream:
        assert await stream.next()
        assert run_id in waiting

    async def freed() -> bool:
        return run_id not in waiting

    await until(freed)
    receiver.open.set()


async def test_a_stream_ends_when_its_key_is_revoked(api: Api, receiver: Endpoint, worker: None) -> None:
    person = await api.person()
    run_id = await start(person, await create(person, [held(receiver)]))
    await called(receiver)
    async with watching(person, run_id) as stream:
        assert await stream.next()
        [key] = (await person.session.get("/api/keys")).json()["keys"]
        await person.session.delete(f"/api/keys/{key['id']}")
        events = await stream.all()
    assert "end" not in [event.name for event in events]
    receiver.open.set()


async def test_a_stream_ends_when_the_process_is_about_to_stop(
    api: Api, person: Person, receiver: Endpoint, worker: None
) -> None:
    run_id = await start(person, await create(person, [held(receiver)]))
    await called(receiver)
    async with watching(person, run_id) as stream:
        assert await stream.next()
        api.services.waiter.close()
        events = await stream.all()
    assert "end" not in [event.name for event in events]
    api.services.waiter.closed = False
    receiver.open.set()


async def test_the_events_of_an_unknown_run_are_not_found(api: Api, person: Person) -> None:
    stranger = await api.person()
    run_id = await start(person, await create(person))
    response = await stranger.key.get(f"/api/workflows/runs/{run_id}/events")
    assert problem(response) == (404, "not_found")
    assert response.headers["content-type"] == "application/problem+json"


async def test_the_events_need_the_scope_of_workflows(api: Api) -> None:
    person = await api.person(scopes=sorted(set(keys.ALL_SCOPES) - {"workflows"}))
    response = await person.key.get("/api/workflows/runs/x/events")
    assert problem(response) == (403, "insufficient_scope")


async def test_a_run_shows_the_step_that_is_under_way(
    person: Person, receiver: Endpoint, worker: None, follow_step: FollowStep
) -> None:
    run_id = await start(person, await create(person, [held(receiver), transform("last", "'x'")]))
    await called(receiver)
    async with asyncio.timeout(2):
        run = await follow_step(run_id, "held", "running")
    assert (run["status"], statuses(run)) == ("running", {"held": "running", "last": "pending"})
    assert (run["steps"][0]["attempts"], bool(run["steps"][0]["started_at"])) == (1, True)
    receiver.open.set()


@pytest.mark.parametrize("seconds", [1, 3], ids=["its executor sits it out", "it leaves its executor"])
async def test_a_delay_of_seconds_is_shown_as_waiting_until_it_is_over(
    person: Person, receiver: Endpoint, worker: None, follow: Follow, seconds: int
) -> None:
    nap = {"id": "nap", "type": "delay", "config": {"seconds": seconds}}
    run_id = await start(person, await create(person, [held(receiver), nap, transform("last", "'x'")]))
    async with watching(person, run_id) as stream:
        await called(receiver)
        receiver.open.set()
        shown = await follow(run_id, "waiting")
        events = await stream.all()
    assert statuses(shown) == {"held": "completed", "nap": "waiting", "last": "pending"}
    assert shown["steps"][1]["output"]["until"].endswith("Z")
    seen = [event.data for event in events if event.name == "run" and event.data["status"] == "waiting"]
    assert [statuses(run)["nap"] for run in seen] == ["waiting"]
    assert seen[0]["steps"][1]["output"] == shown["steps"][1]["output"]
    assert events[-1].data["steps"][1]["output"] == shown["steps"][1]["output"]


async def test_a_delay_beside_a_call_waits_while_its_run_is_at_work(
    person: Person, receiver: Endpoint, worker: None, follow_step: FollowStep
) -> None:
    nap = {"id": "nap", "type": "delay", "config": {"seconds": 600}, "needs": []}
    run_id = await start(person, await create(person, [held(receiver), nap]))
    await called(receiver)
    run = await follow_step(run_id, "held", "running")
    assert (run["status"], statuses(run)) == ("running", {"held": "running", "nap": "waiting"})
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
    receiver.open.set()


async def test_a_step_that_waits_for_its_next_attempt_is_shown_as_waiting(
    person: Person, receiver: Endpoint, worker: None, follow_step: FollowStep
) -> None:
    receiver.answer = lambda request: web.Response(status=503)
    step = webhook(receiver.url, "again") | {"retry": {"max_attempts": 2, "initial_seconds": 600}}
    run_id = await start(person, await create(person, [step]))

    step = (await follow_step(run_id, "again", "waiting"))["steps"][0]
    assert step["attempts"] == 1 and step["output"]["until"]
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")


async def test_a_stream_has_the_resume_urls_of_a_run(person: Person) -> None:
    run_id = await start(person, await create(person, [{"id": "approval", "type": "wait"}]))
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    async with watching(person, run_id) as stream:
        event = await stream.next()
    assert event is not None and event.data["resume_urls"] == run["resume_urls"]
    assert run["resume_urls"].keys() == {"approval"}
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")


async def test_a_run_that_nobody_sees_to_is_shown_and_streamed_as_its_rows_are(
    person: Person, database: Database
) -> None:
    run_id = await adrift(person, database)
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    assert (run["status"], statuses(run)) == ("running", {"a": "pending", "b": "pending"})
    async with watching(person, run_id) as stream:
        event = await stream.next()
    assert event is not None and (event.name, event.data) == ("run", run)
