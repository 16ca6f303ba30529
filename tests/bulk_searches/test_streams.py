"""Answers as they come: what a stream holds, and what becomes of it when the client or the service goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from api.streams import bulk_streams
from tests.api_server import Api, Person
from tests.bulk_searches.conftest import EVENTS, Sources, charges, emails
from tests.stacks import eventually

WEB, PEOPLE = "/api/bulk-web-search", "/api/agent/bulk-lookup"
LINES = {"accept": "application/jsonl"}


@asynccontextmanager
async def streamed(
    person: Person, path: str, texts: list[str], headers: dict[str, str] = EVENTS
) -> AsyncGenerator[httpx.Response]:
    name = "emails" if path.startswith(PEOPLE) else "queries"
    async with person.key.stream("POST", path, json={name: texts}, headers=headers) as response:
        assert response.status_code == 200
        yield response


async def rest(lines: Any) -> list[str]:
    """The lines to the end of a stream, without the empty ones."""
    async with asyncio.timeout(20):
        return [line async for line in lines if line]


async def next_line(lines: Any, start: str = "data: ") -> str:
    async with asyncio.timeout(20):
        async for line in lines:
            if line.startswith(start):
                return line
    raise AssertionError("the stream has ended")


async def test_a_search_streams_its_totals_and_its_answers(person: Person) -> None:
    async with streamed(person, WEB, ["one", "two", "one", ""]) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-store"
        first, *answers, used, done = await rest(response.aiter_lines())
    assert (first, done) == ('data: {"total":4}', "data: [DONE]")
    assert used == 'data: {"credits_used":2}'
    found = [json.loads(answer.removeprefix("data: ")) for answer in answers]
    assert sorted(one["query"] for one in found) == ["", "one", "one", "two"]
    assert [one["query"] for one in found if "error" in one] == [""]


@pytest.mark.parametrize("path", [WEB, PEOPLE])
async def test_a_stream_takes_no_idempotency_key(person: Person, path: str) -> None:
    body = {"emails": emails(1)} if path == PEOPLE else {"queries": ["one"]}
    refused = await person.key.post(path, json=body, headers={**EVENTS, "idempotency-key": "x"})
    assert (refused.status_code, refused.json()["code"]) == (400, "idempotency_not_supported")


async def test_an_answer_comes_while_others_are_awaited(person: Person, sources: Sources) -> None:
    sources.open.clear()
    sources.passing = {"quick"}
    async with streamed(person, WEB, ["slow", "quick"]) as response:
        lines = response.aiter_lines()
        assert "total" in await next_line(lines)
        assert '"query":"quick"' in await next_line(lines)
        assert [amount for _, amount in await charges(person)] == [1]
        sources.open.set()
        assert '"query":"slow"' in (await rest(lines))[0]


async def test_the_data_of_a_bulk_lookup_are_people_alone(person: Person, sources: Sources) -> None:
    given = emails(3)
    sources.strangers = {given[2]}
    async with streamed(person, PEOPLE, [*given, "no address"], {"accept": "*/*"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        lines = await rest(response.aiter_lines())
    assert lines[-1] == "data: [DONE]"
    assert [line for line in lines if line.startswith(":")] == [
        ': {"total":4}', ': {"total":4,"found":2,"failed":1,"credits_used":2}',
    ]  # fmt: skip
    data = [json.loads(line.removeprefix("data: ")) for line in lines[:-1] if line.startswith("data: ")]
    assert sorted(one["email"] for one in data) == ["no address", *given]
    assert {one["email"]: one["name"] for one in data if "error" not in one} == {
        given[0]: "Ada Lovelace", given[1]: "Ada Lovelace", given[2]: None,
    }  # fmt: skip


@pytest.mark.parametrize("media_type", ["application/jsonl", "application/x-ndjson", "application/jsonlines"])
async def test_lines_of_json_end_with_a_summary(person: Person, media_type: str) -> None:
    given = ["ada@example.com", "no address", "ada@example.com"]
    async with streamed(person, PEOPLE, given, {"accept": media_type}) as response:
        assert response.headers["content-type"] == media_type
        *profiles, last = [json.loads(line) for line in await rest(response.aiter_lines())]
    assert sorted(one["email"] for one in profiles) == sorted(given)
    assert last == {"type": "summary", "total": 3, "found": 2, "failed": 1, "credits_used": 1}


async def test_fields_prune_profiles_and_keep_their_address(person: Person) -> None:
    async with streamed(person, f"{PEOPLE}?fields=company", ["ada@example.com"], LINES) as response:
        profile, _ = [json.loads(line) for line in await rest(response.aiter_lines())]
    assert profile.keys() == {
        "email", "company", "credits", "cached", "partial", "providers", "sources", "conflicts",
    }  # fmt: skip


@pytest.mark.parametrize(("headers", "sign"), [(EVENTS, ": ping"), (LINES, "")])
async def test_a_stream_without_answers_gives_signs_of_life(
    person: Person, sources: Sources, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], sign: str
) -> None:
    monkeypatch.setattr(bulk_streams, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(bulk_streams, "_HEARTBEAT_SECONDS", 0.05)
    sources.open.clear()
    async with streamed(person, PEOPLE, emails(1), headers) as response:
        lines = response.aiter_lines()
        for _ in range(2):
            assert await next_line(lines, sign) == sign
        sources.open.set()
        await rest(lines)


async def test_the_service_stops_without_waiting_for_a_stream(
    api: Api, person: Person, sources: Sources
) -> None:
    sources.open.clear()
    async with streamed(person, PEOPLE, emails(1), LINES) as response:
        api.services.waiter.close()
        assert await rest(response.aiter_lines()) == []


async def test_a_stream_ends_when_its_key_is_revoked(api: Api, person: Person, sources: Sources) -> None:
    sources.open.clear()
    async with streamed(person, PEOPLE, emails(1), LINES) as response:
        [key] = (await person.session.get("/api/keys")).json()["keys"]
        await person.session.delete(f"/api/keys/{key['id']}")
        assert await rest(response.aiter_lines()) == []


async def raw_request(
    api: Api, person: Person, path: str, body: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request over a socket whose reader takes few bytes at a time."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    payload = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {person.secret}\r\n"
        f"Accept: text/event-stream\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\n\r\n"
    )
    writer.write(head.encode() + payload)
    return reader, writer


def given_up() -> bool:
    """Return whether no lookup of a bulk search is under way any more."""
    return not any("_look_up_from" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_nothing_more_is_looked_up_or_charged_once_the_client_is_gone(
    api: Api, person: Person, sources: Sources
) -> None:
    queries = [f"query {number}" for number in range(100)]
    sources.open.clear()
    sources.passing = set(queries[:5])
    reader, writer = await raw_request(api, person, WEB, {"queries": queries})
    received = b""
    async with asyncio.timeout(20):
        while received.count(b'data: {"query"') < 5:
            received += await reader.read(4096)
    await eventually(lambda: sources.held == 16)
    writer.transport.abort()
    await eventually(given_up)
    asked = len(sources.asked)
    sources.open.set()
    await eventually(lambda: sources.held == 0)
    assert len(sources.asked) == asked == 5 + 16
    assert sum(amount for _, amount in await charges(person)) == 5


async def test_a_client_that_does_not_read_has_only_some_looked_up(
    api: Api, person: Person, sources: Sources
) -> None:
    # So much that a few answers fill all buffers between here and there.
    sources.snippet = "word " * 60_000
    queries = [f"query {number}" for number in range(100)]
    _, writer = await raw_request(api, person, WEB, {"queries": queries})
    seen = [0]

    def stands_still() -> bool:
        seen.append(len(sources.asked))
        return len(seen) > 20 and seen[-20] == seen[-1] > 16

    await eventually(stands_still, 20)
    assert len(sources.asked) < 100
    writer.transport.abort()
    await eventually(given_up)
