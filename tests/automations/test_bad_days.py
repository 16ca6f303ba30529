"""Webhook steps on their bad days: whatever the other side does, the run ends and can be read.

What the client makes of such answers is tested in `tests/outbound`; here it is what the step, the record and
later steps make of them.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client

from database import Database
from execution import executor
from models.runs import runs
from models.runs.claim_order import KEPT
from notifications import Notifier
from outbound.client import Outbound
from providers.registry import KINDS
from sealing import Keyring
from settings import ProviderSettings, Settings
from tests.api_server import Person, running
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    accept_each,
    ended,
    requested,
    transform,
    until,
    webhook,
    working,
)
from tests.outbound import conftest as raw
from tests.outbound.raw import response

pytestmark = pytest.mark.long

serve, authority = raw.serve, raw.authority

RunOf = Callable[..., Awaitable[dict[str, Any]]]
ONCE = {"retry": {"max_attempts": 1}}


@pytest.fixture(scope="module")
async def notifier(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    authority: tuple[Path, ssl.SSLContext],
) -> AsyncGenerator[Notifier]:
    """A worker that knows two names, trusts the certificate of one, and finds no source of breaches."""
    names = raw.Names({name: [["127.0.0.1"]] for name in ("right.example", "wrong.example")})
    nowhere = ProviderSettings(base_url="http://127.0.0.1:9")
    providers = {source.spec.name: nowhere for source in KINDS["breach"].sources}
    settings = open_settings.model_copy(update={"providers": providers})
    outbound = Outbound(settings, resolver=names, certificates=authority[1])
    async with working(settings, client, database, keyring, outbound=outbound) as running:
        yield running


@pytest.fixture(scope="module")
async def person(open_settings: Settings) -> AsyncGenerator[Person]:
    async with running(open_settings) as api:
        yield await api.person()


@pytest.fixture
def run_of(person: Person, database: Database, notifier: Notifier, new_target: NewTarget) -> RunOf:
    """Runs steps, and reads the run from the API."""

    async def follow(steps: list[dict[str, Any]], payload: Any = None) -> dict[str, Any]:
        target = await new_target(steps, account_id=person.account.id)
        [run_id] = await accept(database, target, 1, payload)
        await ended(database, notifier, person.account.id, run_id)
        response = await person.key.get(f"/api/workflows/runs/{run_id}")
        assert response.status_code == 200
        return response.json()

    return follow


def says(body: bytes, content_type: str = "application/json", *headers: str) -> bytes:
    return response(body, f"Content-Type: {content_type}", *headers)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


READ: dict[str, tuple[bytes, Any]] = {
    "a NUL in a JSON string": (says(b'{"a\\u0000": "\\u0000"}'), {"a\0": "\0"}),
    "a NUL in text": (says(b"a\0b", "text/plain"), "a\0b"),
    "nothing but NULs": (says(bytes(150_000), "text/plain"), "\0" * 150_000),
    "a lone surrogate": (says(b'["\\ud800"]'), '["\\ud800"]'),
    "a number beyond all bounds": (says(b"[1e999]"), "[1e999]"),
    "not a number": (says(b"[NaN, -Infinity]"), "[NaN, -Infinity]"),
    "an integer of a hundred digits": (says(b"1" * 100), float("1" * 100)),
    "bytes that are not UTF-8": (says(b"\xff\xfe", "text/plain"), "\ufffd\ufffd"),
    "JSON that is not UTF-8": (says(b'"\xff"'), '"\ufffd"'),
    "a surrogate in UTF-8": (says(b'"\xed\xa0\x80"'), '"\ufffd\ufffd\ufffd"'),
    "JSON that breaks off": (says(b'{"a": '), '{"a": '),
    "arrays nested 100 deep": (says(nested(100)), None),
    "arrays nested 101 deep": (says(nested(101)), nested(101).decode()),
    "arrays nested 198 deep": (says(nested(198)), nested(198).decode()),
    "arrays nested 1,000 deep": (says(nested(1000)), nested(1000).decode()),
    "a nesting bomb": (says(b"[" * 500_000), "[" * 500_000),
    "a header in Latin-1": (says(b"1", "application/json", "X-Name: caf\xe9"), 1),
}


@pytest.mark.parametrize("case", READ)
async def test_an_answer_of_any_kind_is_kept_and_can_be_read_by_later_steps(
    run_of: RunOf, serve: raw.Serve, case: str
) -> None:
    answer, expected = READ[case]
    server = await serve(answer)
    view = await run_of([webhook(server.url()) | ONCE, transform("seen", "call.body")])
    assert (view["status"], view["error"]) == ("completed", None)
    body = view["steps"][0]["output"]["body"]
    assert body == view["output"] and (expected is None or body == expected)


def answered(*parts: bytes, pause: float = 0) -> raw.Handler:
    """Writes parts, then breaks off."""

    async def answer(request: raw.Request, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        writer.close()

    return answer


async def bomb(request: raw.Request, writer: asyncio.StreamWriter) -> None:
    compressed = gzip.compress(b"\0" * 200_000_000)  # takes a second: not while tests are collected
    await answered(says(compressed, "text/plain", "Content-Encoding: gzip"))(request, writer)


OK = b"HTTP/1.1 200 OK\r\n"
SLOWLY = answered(OK + b"\r\n", *[b"x"] * 60, pause=1)
HTTP, TLS = "http://127.0.0.1:{port}/", "https://wrong.example:{port}/"

FAILING: dict[str, tuple[raw.Handler | bytes, str, dict[str, Any], str]] = {
    "a gzip bomb": (bomb, HTTP, {}, "too_large"),
    "a byte a second": (SLOWLY, HTTP, {"timeout": 0.5}, "timeout"),
    "no end of redirects": (
        response(b"", "Location: /again", status=302), HTTP, {"follow_redirects": True},
        "too_many_redirects",
    ),
    "a redirect into the network": (
        response(b"", "Location: http://10.0.0.1/", status=307), HTTP,
        {"follow_redirects": True}, "forbidden_address",
    ),
    "the certificate of another name": (b"", TLS, {}, "tls_failed"),
    "a name that does not resolve": (b"", "http://nowhere.example/", {}, "dns_failed"),
    "a connection that is refused": (b"", "http://127.0.0.1:9999/", {}, "connect_failed"),
    "no answer": (answered(), HTTP, {}, "connect_failed"),
    "an end within the body": (answered(OK + b"Content-Length: 9\r\n\r\nx"), HTTP, {}, "bad_response"),
    "an end within the chunks": (
        answered(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"), HTTP, {}, "bad_response",
    ),
    "another protocol": (answered(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), HTTP, {}, "bad_response"),
    "a NUL in a header": (answered(OK + b"X: a\0b\r\n\r\n"), HTTP, {}, "bad_response"),
    "a compression nobody asked for": (
        says(b"x", "text/plain", "Content-Encoding: br"), HTTP, {}, "bad_response",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
async def test_a_call_that_goes_wrong_ends_the_run_with_a_code(
    run_of: RunOf, serve: raw.Serve, authority: tuple[Path, ssl.SSLContext], case: str
) -> None:
    answer, url, config, code = FAILING[case]
    certificates = None
    if url == TLS:
        certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.load_cert_chain(authority[0])
    server = await serve(answer, certificates=certificates)
    step = webhook(url.format(port=server.port), **config) | ONCE
    view = await run_of([step, transform("after", "'never'")])
    assert (view["status"], view["error"]["code"], view["error"]["step"]) == ("failed", code, "call")
    assert [(step["status"], step["attempts"]) for step in view["steps"]] == [("failed", 1), ("skipped", 0)]
    assert view["steps"][0]["input"]["url"] == step["config"]["url"]


async def test_a_body_without_end_is_refused_early(run_of: RunOf, serve: raw.Serve) -> None:
    sent = 0

    async def answer(request: raw.Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(200):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
            sent += 1_000_000

    server = await serve(answer)
    view = await run_of([webhook(server.url())])
    assert view["error"]["code"] == "too_large" and view["error"]["attempt"] == 1
    # What was taken in is 1 MiB and what the buffers of the two sockets hold.
    assert sent < 16_000_000


async def test_a_steps_own_timeout_ends_it_in_the_middle_of_an_answer(
    run_of: RunOf, serve: raw.Serve
) -> None:
    server = await serve(SLOWLY)
    view = await run_of([webhook(server.url()) | {"timeout": 3}])
    assert (view["error"]["code"], len(server.requests)) == ("timeout", 1)
    assert view["steps"][0]["duration_ms"] >= 2900


async def test_a_run_whose_data_is_bad_does_no_harm_to_those_beside_it(
    person: Person, database: Database, notifier: Notifier, new_target: NewTarget, serve: raw.Serve
) -> None:
    bodies = [says(b'"\\u0000"'), says(nested(190)), says(nested(900)), says(b"7")]

    async def answer(request: raw.Request, writer: asyncio.StreamWriter) -> None:
        writer.write(bodies[int(request.target[1:]) % len(bodies)])

    server = await serve(answer)
    target = await new_target([webhook(server.url() + "{{ trigger }}"), transform("end", "call.body")])
    ids = await accept_each(database, target, list(range(8)))
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in ids]
    expected = ["\0", nested(190).decode(), nested(900).decode(), 7]
    assert [view.output for view in views] == expected * 2


async def test_an_item_with_a_nul_is_stored(run_of: RunOf, serve: raw.Serve) -> None:
    server = await serve(says(b'"\\u0000"'))
    each = {**webhook(server.url(), "each"), "for_each": "trigger"}
    view = await run_of([each, transform("end", "each[].body")], [1, 2])
    assert view["output"] == ["\0", "\0"]


async def test_sixty_three_runs_do_not_wait_for_one_that_hangs(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    call = webhook(receiver.url + "/{{ trigger }}", timeout=60) | ONCE
    target = await new_target([call, webhook(f"{receiver.url}/next", "next")])
    held, *mates = await accept_each(database, target, ["held"] + ["quick"] * 63)
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in mates]
    assert {view.status for view in views} == {"completed"}
    async with database.connection() as connection:
        assert await runs.get_ended(connection, [held]) == {}
    receiver.open.set()
    assert (await ended(database, notifier, target.account_id, held)).status == "completed"


async def test_one_tenants_slow_runs_do_not_hold_up_anothers_event(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    """A hundred runs, as of events that come one after the other."""
    slow = await new_target([webhook(f"{receiver.url}/held", timeout=120)])
    run_ids: list[UUID] = []
    try:
        for number in range(100):
            run_ids += await accept(database, slow)
            notifier.notify(runs.QUEUED_CHANNEL)
            await requested(receiver, number + 1)
        quick = await new_target([webhook(f"{receiver.url}/quick"), transform("end", "'done'")])
        [run_id] = await accept(database, quick)
        assert (await ended(database, notifier, quick.account_id, run_id)).output == "done"
        async with database.connection() as connection:
            assert await runs.get_ended(connection, run_ids) == {}
    finally:
        receiver.open.set()
    for run_id in run_ids:
        assert (await ended(database, notifier, slow.account_id, run_id)).status == "completed"


async def test_tenants_whose_runs_all_wait_leave_room_for_anothers_event(
    database: Database, notifier: Notifier, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "WINDOW", KEPT + 8)
    for _ in range(2):
        target = await new_target([{"id": "nap", "type": "delay", "config": {"seconds": 200}}])
        waiting = await accept(database, target, 10)
        notifier.notify(runs.QUEUED_CHANNEL)

        async def all_wait(run_ids: list[UUID] = waiting) -> bool:
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "select 1 from run_work where run_id = any(%s) and status <> 'waiting'", (run_ids,)
                )
                return await cursor.fetchone() is None

        await until(all_wait)
    third = await new_target([transform("end", "'done'")])
    [run_id] = await accept(database, third)
    assert (await ended(database, notifier, third.account_id, run_id)).output == "done"


async def test_sources_that_are_all_down_are_asked_again_and_then_the_error_is_handled(
    run_of: RunOf,
) -> None:
    """Also once they are left alone for having failed so often."""
    look = {
        "id": "look", "type": "breach_lookup", "config": {"value": "{{ trigger }}"}, "on_error": ["mend"],
        "retry": {"max_attempts": 3, "initial_seconds": 0.1},
    }  # fmt: skip
    steps = [look, transform("mend", "steps.look.error.code"), transform("end", "mend")]
    for number in range(4):
        view = await run_of(steps, f"ada{number}@example.com")
        assert (view["status"], view["output"]) == ("completed", "all_providers_failed")
        assert (view["steps"][0]["status"], view["steps"][0]["attempts"]) == ("failed", 3)
