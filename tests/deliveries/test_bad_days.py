"""Receivers that fail, crawl, hang, are away or answer nonsense: what they and others get all the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest
from aiohttp import web

from services import delivery_attempts
from tests.automations.engine import Endpoint, Work, endpoint, requested, until
from tests.deliveries.receivers import Hooks
from tests.stacks import free_port

pytestmark = pytest.mark.long

NewHooks = Callable[[], Awaitable[Hooks]]
PATIENT = (0.3,) * 100
MANY = 2000


class Taken:
    """What a receiver does with its requests, one after the other; the messages that it has taken."""

    def __init__(self, statuses: Iterator[int]) -> None:
        self._statuses = statuses
        self.times: Counter[str] = Counter()

    def __call__(self, request: dict[str, Any]) -> web.Response:
        status = next(self._statuses)
        if status < 300:
            self.times[request["headers"]["webhook-id"]] += 1
        return web.Response(status=status)


async def test_what_a_receiver_refuses_for_a_while_it_takes_once_afterwards(
    at_work: Work, hooks: Hooks, receiver: Endpoint
) -> None:
    receiver.answer = taken = Taken(chain(repeat(500, 300), repeat(200)))
    await hooks.endpoint(receiver.url)
    async with at_work(schedule=PATIENT):
        sent = await hooks.emit(200)
        rows = await hooks.settled()
    assert {row["status"] for row in rows} == {"delivered"}
    assert taken.times == Counter(str(one) for one in sent)
    assert len(await hooks.attempts()) == 500


# Receivers that take their time


@contextlib.asynccontextmanager
async def dripping(at_once: bytes) -> AsyncGenerator[str]:
    """A server that answers with a byte each second, after this. It ends with the block."""
    over = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(at_once)
            for byte in b"HTTP/1.1 200 " + b"O" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 1)
                    break
        writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        over.set()


SLOW = {
    "in its status line": b"",
    "in its body": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n",
}


@pytest.mark.parametrize("where", SLOW)
async def test_a_receiver_that_answers_byte_by_byte_has_only_so_long(
    at_work: Work, hooks: Hooks, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(delivery_attempts, "SECONDS", 0.5)
    async with at_work(schedule=()), dripping(SLOW[where]) as url:
        await hooks.endpoint(url)
        await hooks.emit()
        [row] = await hooks.settled()
    [attempt] = await hooks.attempts()
    if where == "in its body":
        # It has said that it has the event: sent again, that would come twice.
        assert (row["status"], attempt["response_status"], attempt["response_body"]) == ("delivered", 200, "")
    else:
        assert (row["status"], attempt["response_status"]) == ("failed", None)
        assert attempt["error"] == {"code": "timeout", "message": "No complete answer within 0.5 seconds."}


@pytest.mark.parametrize("where", SLOW)
async def test_a_receiver_that_answers_byte_by_byte_delays_nobody_else(
    at_work: Work, new_hooks: NewHooks, receiver: Endpoint, where: str
) -> None:
    slow, quick = await new_hooks(), await new_hooks()
    await quick.endpoint(receiver.url)
    async with at_work(schedule=()), dripping(SLOW[where]) as url:
        await slow.endpoint(url)
        await slow.emit(600)
        await until(lambda: at_work_of(slow))
        await quick.emit(3)
        assert {row["status"] for row in await quick.settled()} == {"delivered"}
        assert not await slow.attempts()


async def at_work_of(hooks: Hooks) -> bool:
    """Return whether more of the account's deliveries are at work than go into a batch beside others'."""
    async with hooks.database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) > 64 as many from delivery_work where account_id = %s and status = 'running'",
            (hooks.account_id,),
        )
        row = await cursor.fetchone()
    return row is not None and row["many"]


async def test_the_next_attempt_of_one_does_not_wait_for_an_answer_to_another_of_its_batch(
    at_work: Work, new_hooks: NewHooks, receiver: Endpoint
) -> None:
    held, refused = await new_hooks(), await new_hooks()
    await held.endpoint(f"{receiver.url}/held")
    await refused.endpoint(receiver.url)
    receiver.answer = Taken(chain([500], repeat(200)))
    for one in (held, refused):
        await one.emit()
    async with at_work():
        [row] = await refused.settled()
        assert (row["status"], row["attempts"]) == ("delivered", 2)
        assert not await held.attempts()
        receiver.open.set()
        await held.settled()


# Receivers that are away


async def test_a_dead_endpoint_holds_up_nobody_else_and_gets_all_when_it_comes_alive(
    at_work: Work, new_hooks: NewHooks, receiver: Endpoint
) -> None:
    dead, other = await new_hooks(), await new_hooks()
    port = free_port()
    await dead.endpoint(f"http://127.0.0.1:{port}/")
    await other.endpoint(receiver.url)
    async with at_work(schedule=PATIENT):
        sent = await dead.emit(MANY)
        await other.emit(100)
        assert {row["status"] for row in await other.settled()} == {"delivered"}
        assert {one["error"]["code"] for one in await dead.attempts()} <= {"connect_failed"}
        async with endpoint(port) as alive:
            await requested(alive, MANY, 60)
            rows = await dead.settled()
    assert {row["status"] for row in rows} == {"delivered"}
    assert Counter(request["headers"]["webhook-id"] for request in alive.requests) == Counter(map(str, sent))


# What is wrong with one delivery


@pytest.mark.parametrize(
    "value", ["Mon, 20 Nov 1995 19:12:08 -99999999999999", "Mon, 20 Nov 99999999999 19:12:08 +0000", "9" * 99]
)
async def test_whatever_a_receiver_answers_others_of_the_batch_are_delivered(
    at_work: Work, new_hooks: NewHooks, receiver: Endpoint, value: str
) -> None:
    receiver.answer = lambda request: web.Response(
        status=500 if request["path"] == "/odd" else 200, headers={"Retry-After": value}
    )
    odd, other = await new_hooks(), await new_hooks()
    await odd.endpoint(f"{receiver.url}/odd")
    await other.endpoint(f"{receiver.url}/other")
    for one in (odd, other):
        await one.emit()
    async with at_work(schedule=()):
        assert [row["status"] for row in await other.settled() + await odd.settled()] == [
            "delivered", "failed",
        ]  # fmt: skip
    assert sorted(receiver.paths) == ["/odd", "/other"]


async def test_an_event_that_cannot_be_read_fails_alone(
    at_work: Work, new_hooks: NewHooks, receiver: Endpoint
) -> None:
    broken, sound = await new_hooks(), await new_hooks()
    for one in (broken, sound):
        await one.endpoint(receiver.url)
    async with broken.database.connection() as connection:
        # Half a character: JSON to Postgres, but to nobody who decodes it.
        await connection.execute(
            "select emit_events(array[time_ordered_id()], array[%s::uuid], array['key.created'],"
            """ array['{"name": "\\ud800"}'::json])""",
            (broken.account_id,),
        )
    [event_id] = await sound.emit()
    async with at_work(schedule=()):
        [row] = await sound.settled()
        assert row["status"] == "delivered"
        [row] = await broken.settled()
    [attempt] = await broken.attempts()
    assert (row["status"], attempt["error"]["code"]) == ("failed", "internal_error")
    assert [request["headers"]["webhook-id"] for request in receiver.requests] == [str(event_id)]


async def test_an_attempt_that_cannot_be_recorded_is_made_again_later_and_holds_up_no_other(
    at_work: Work, new_hooks: NewHooks, receiver: Endpoint
) -> None:
    broken, sound = await new_hooks(), await new_hooks()
    for one in (broken, sound):
        await one.endpoint(receiver.url)
    [event_id] = await broken.emit()
    [delivery] = await broken.rows()
    await sound.emit(5)
    async with broken.database.connection() as connection:
        await connection.execute(
            "insert into delivery_attempts (delivery_id, number, trigger, started_at, duration_ms)"
            " values (%s, 1, 'scheduled', now(), 1)",
            (delivery["id"],),
        )
    async with at_work():
        assert {(row["status"], row["attempts"]) for row in await sound.settled()} == {("delivered", 1)}
        async with broken.database.connection() as connection:
            await connection.execute(
                "delete from delivery_attempts where delivery_id = %s", (delivery["id"],)
            )

        async def delivered() -> bool:
            async with broken.database.connection() as connection:
                await connection.execute("update delivery_batches set probed_at = now() - interval '1 day'")
            return {row["status"] for row in await broken.rows()} == {"delivered"}

        await until(delivered)
    times = Counter(request["headers"]["webhook-id"] for request in receiver.requests)
    assert times.pop(str(event_id)) == 2 and set(times.values()) == {1}
