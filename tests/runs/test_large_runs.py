"""Runs whose inputs and outputs are many MiB: what is shown of them, and where the rest is."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from starlette.types import Message

from api.http import large_answers
from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import transform
from tests.event_streams import streaming
from tests.runs.workflows import create, problem, start

MIB = 1024 * 1024


async def ended_run(
    person: Person, database: Database, outputs: dict[str, int | list[int]], payload: Any = None
) -> str:
    """A completed run whose steps gave a text of so many bytes, or an array of such texts; its id.

    The last step is the one whose output is the run's.
    """
    workflow = await create(person, [transform(name, "'x'") for name in outputs])
    run_id = await start(person, workflow, payload)
    async with database.connection() as connection:
        for position, (name, sizes) in enumerate(outputs.items()):
            whole = sizes if isinstance(sizes, int) else None
            total = None if isinstance(sizes, int) else len(sizes)
            await connection.execute(
                "insert into run_steps (run_id, step_id, position, status, output, attempts, gathered,"
                " items_total) values (%s, %s, %s, 'completed', to_json(repeat('é', %s / 2)), 1, %s, %s)",
                (run_id, name, position, whole, whole is None, total),
            )
            if not isinstance(sizes, int):
                await connection.execute(
                    "insert into run_step_items (run_id, step_id, item, status, output, attempts)"
                    " select %s, %s, n - 1, 'completed', to_json(repeat('é', size / 2)), 1"
                    " from unnest(%s::int[]) with ordinality as s (size, n)",
                    (run_id, name, sizes),
                )
        await connection.execute(
            "update runs set status = 'completed', completed_at = now(), output_of = %s where id = %s",
            (list(outputs)[-1], run_id),
        )
        await connection.execute("delete from run_work where run_id = %s", (run_id,))
    return run_id


def text(size: int) -> str:
    return "é" * (size // 2)


@pytest.fixture(scope="module")
async def large(person: Person, database: Database) -> str:
    """A run of 12 steps that each gave 31 texts of 1 MiB, between two that gave little."""
    steps = {f"large_{n}": [MIB] * 31 for n in range(12)}
    return await ended_run(person, database, {"first": 10, **steps, "last": 20})


@pytest.mark.long
async def test_a_run_has_4_mib_at_most_and_names_what_it_leaves_out(person: Person, large: str) -> None:
    response = await person.key.get(f"/api/workflows/runs/{large}")
    assert len(response.content) < 4 * MIB
    run = response.json()
    first, *others, last = run["steps"]
    assert (first["output"], last["output"], run["output"]) == (text(10), text(20), text(20))
    for step in others:
        path = f"/api/workflows/runs/{large}/steps/{step['id']}/output"
        assert step["output"].pop("bytes") >= 31 * MIB
        assert step["output"] == {"omitted": True, "url": path}


async def test_an_output_that_is_left_out_is_streamed_whole_from_its_url(person: Person, large: str) -> None:
    omitted = (await person.key.get(f"/api/workflows/runs/{large}")).json()["steps"][1]["output"]
    response = await person.key.get(omitted["url"])
    assert response.headers["content-type"] == "application/json"
    assert response.json() == [text(MIB)] * 31


@pytest.mark.parametrize("size", [0, 2, 256 * 1024 - 2, 256 * 1024, 5 * MIB])
async def test_a_value_of_any_size_is_streamed(person: Person, database: Database, size: int) -> None:
    run_id = await ended_run(person, database, {"a": size}, {"n": 1})
    answers = {
        path: (await person.key.get(f"/api/workflows/runs/{run_id}{path}")).json()
        for path in ("/output", "/steps/a/output", "/steps/a/input", "/input")
    }
    assert answers == {
        "/output": text(size), "/steps/a/output": text(size), "/steps/a/input": None, "/input": {"n": 1}
    }  # fmt: skip


async def test_the_smallest_values_are_shown(person: Person, database: Database) -> None:
    run_id = await ended_run(person, database, {"a": 3 * MIB, "b": MIB, "c": 2 * MIB, "d": 10})
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    assert ["omitted" in step["output"] for step in run["steps"]] == [True, False, False, False]


async def test_the_output_of_the_run_counts_twice(person: Person, database: Database) -> None:
    run_id = await ended_run(person, database, {"a": MIB, "b": 2 * MIB})
    response = await person.key.get(f"/api/workflows/runs/{run_id}")
    assert len(response.content) < 4 * MIB
    run = response.json()
    assert run["steps"][0]["output"] == text(MIB)
    assert run["output"]["url"] == f"/api/workflows/runs/{run_id}/output"
    assert run["steps"][1]["output"]["url"] == f"/api/workflows/runs/{run_id}/steps/b/output"


async def test_one_who_does_not_read_keeps_its_account_waiting_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_answers, "_PIECE_SECONDS", 0.01)
    turn = asyncio.Semaphore(1)

    async def make() -> bytes:
        return b"x" * MIB

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    answer = large_answers.LargeAnswer(turn, make)
    await asyncio.wait_for(answer({"type": "http"}, receive, send), 20)
    assert not turn.locked()


async def receive() -> Message:
    raise AssertionError("nothing is asked of the client")


async def test_a_client_may_ask_for_less(person: Person, database: Database) -> None:
    run_id = await ended_run(person, database, {"a": 1000, "b": 10})
    run = (await person.key.get(f"/api/workflows/runs/{run_id}?max_bytes=100")).json()
    assert run["steps"][0]["output"]["omitted"] and run["output"] == text(10)


async def test_items_come_in_pages_of_4_mib(person: Person, database: Database) -> None:
    run_id = await ended_run(person, database, {"a": [MIB, 3 * MIB, MIB, 10, 10]})
    path = f"/api/workflows/runs/{run_id}/steps/a/items"
    first = await person.key.get(f"{path}?limit=4")
    assert len(first.content) < 4 * MIB
    page = first.json()
    assert [item["item"] for item in page["items"]] == [0, 1, 2, 3]
    assert [item["output"] for item in page["items"] if item["item"] != 1] == [text(MIB), text(MIB), text(10)]
    omitted = page["items"][1]["output"]
    assert omitted["url"] == f"{path}/1/output"
    assert (await person.key.get(omitted["url"])).json() == text(3 * MIB)
    rest = (await person.key.get(f"{path}?cursor={page['next_cursor']}")).json()
    assert [item["item"] for item in rest["items"]] == [4] and rest["next_cursor"] is None
    assert problem(await person.key.get(f"{path}/5/output")) == (404, "not_found")


async def test_a_step_without_items_has_an_empty_page(person: Person, database: Database) -> None:
    run_id = await ended_run(person, database, {"a": 10})
    page = (await person.key.get(f"/api/workflows/runs/{run_id}/steps/a/items")).json()
    assert page == {"items": [], "next_cursor": None}


@pytest.mark.parametrize(
    "path",
    [
        "/steps/no/output",
        "/steps/no/items",
        "/steps/a%00/output",
        "/steps/a%00/items",
        "/steps/no/items/0/output",
    ],
)
async def test_what_a_run_does_not_have_is_not_found(person: Person, database: Database, path: str) -> None:
    run_id = await ended_run(person, database, {"a": 10})
    assert problem(await person.key.get(f"/api/workflows/runs/{run_id}{path}")) == (404, "not_found")


@pytest.mark.parametrize("path", ["/output", "/steps/a/output", "/steps/a/input", "/steps/a/items/0/output"])
async def test_what_is_not_there_yet_is_null(person: Person, path: str) -> None:
    run_id = await start(person, await create(person, [transform("a", "'x'")]))
    response = await person.key.get(f"/api/workflows/runs/{run_id}{path}")
    assert (response.status_code, response.json()) == (200, None)


async def test_a_stream_of_events_leaves_out_what_is_large(person: Person, large: str) -> None:
    async with streaming(person.key, f"/api/workflows/runs/{large}/events") as stream:
        events = await stream.all()
    assert [event.name for event in events] == ["run", "end"]
    run = (await person.key.get(f"/api/workflows/runs/{large}")).json()
    assert all(event.data == run for event in events)


async def repeated(person: Person, database: Database, output: int, **trigger: Any) -> tuple[str, str]:
    """A run of an event that has ended, and whose repeat is answered at once: the ingest URL, the run."""
    fields = {"name": "t", "steps": [transform("a", "'x'")], "trigger": {"type": "webhook", **trigger}}
    workflow = (await person.key.post("/api/workflows", json=fields)).json()
    url = workflow["webhook_url"].partition("/api/")[2]
    accepted = await person.key.post(f"/api/{url}", json={}, headers={"Idempotency-Key": "one"})
    run_id = accepted.json()["run_id"]
    async with database.connection() as connection:
        await connection.execute(
            "insert into run_steps (run_id, step_id, position, status, output, attempts)"
            " values (%s, 'a', 0, 'completed', to_json(repeat('x', %s)), 1)",
            (run_id, output),
        )
        await connection.execute(
            "update runs set status = 'completed', completed_at = now(), output_of = 'a' where id = %s",
            (run_id,),
        )
        await connection.execute("delete from run_work where run_id = %s", (UUID(run_id),))
    return f"/api/{url}?wait=1", run_id


async def test_an_event_is_answered_with_an_output_of_some_mib(
    api: Api, person: Person, database: Database
) -> None:
    url, _ = await repeated(person, database, 3 * MIB)
    answer = await api.http.post(url, json={}, headers={"Idempotency-Key": "one"})
    assert answer.json()["output"] == "x" * 3 * MIB


async def test_an_event_whose_output_is_too_large_says_where_its_owner_finds_it(
    api: Api, person: Person, database: Database
) -> None:
    url, run_id = await repeated(person, database, 5 * MIB)
    answer = await api.http.post(url, json={}, headers={"Idempotency-Key": "one"})
    omitted = answer.json()["output"]
    assert omitted == {"omitted": True, "bytes": 5 * MIB + 2, "url": f"/api/workflows/runs/{run_id}/output"}
    assert (await api.http.get(omitted["url"])).status_code == 401
    assert (await person.key.get(omitted["url"])).json() == "x" * 5 * MIB


@pytest.mark.parametrize(("size", "status"), [(3 * MIB, 201), (5 * MIB, 200)])
async def test_a_respond_reads_what_has_room(
    api: Api, person: Person, database: Database, size: int, status: int
) -> None:
    respond = {"status": 201, "body": {"length": "{{ length(a) }}"}}
    url, _ = await repeated(person, database, size, respond=respond)
    answer = await api.http.post(url, json={}, headers={"Idempotency-Key": "one"})
    assert answer.status_code == status
    if status == 201:
        assert answer.json() == {"length": size}
    else:
        assert answer.json()["error"]["code"] == "respond_failed"
