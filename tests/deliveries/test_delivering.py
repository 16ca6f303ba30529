"""Events reach the endpoints that want them: signed, once where they are taken, again where they are not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

import metrics
from database import Database
from models.installation import figures
from models.webhooks import deliveries, endpoints, resending
from models.webhooks.delivery_writes import Attempt
from notifications import Notifier
from sealing import Keyring
from services.figure_writer import FigureWriter
from tests.automations.engine import Endpoint, until
from tests.deliveries.receivers import Hooks

HOUR = timedelta(hours=1)
pytestmark = pytest.mark.usefixtures("notifier")


def failing(*statuses: int, **headers: str) -> Any:
    """Answers with these statuses, one after the other for each message, then with 200."""
    seen: dict[str, int] = {}

    def answer(request: dict[str, Any]) -> web.Response:
        message_id = request["headers"]["webhook-id"]
        seen[message_id] = seen.get(message_id, -1) + 1
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if seen[message_id] < len(statuses):
            return web.Response(status=statuses[seen[message_id]], text="no", headers=told)
        return web.Response(text="yes")

    return answer


async def test_an_event_is_sent_signed_to_an_endpoint_that_wants_it(hooks: Hooks, receiver: Endpoint) -> None:
    await hooks.endpoint(receiver.url + "/hook", headers={"X-Team": "ops"})
    [event_id] = await hooks.emit(name="näme")
    [row] = await hooks.settled()
    assert (row["status"], row["attempts"], row["next_attempt_at"]) == ("delivered", 1, None)
    [request] = receiver.requests
    assert request["headers"]["webhook-id"] == str(event_id)
    assert request["headers"]["X-Team"] == "ops"
    assert request["headers"]["Content-Type"] == "application/json"
    sent = Webhook(hooks.secret).verify(request["body"], request["headers"])
    assert sent["event"] == "key.created"
    assert sent["data"]["name"] == "näme"
    assert sent["created_at"] == row["created_at"].isoformat().replace("+00:00", "Z")


async def test_attempts_and_the_age_of_deliveries_are_counted(
    hooks: Hooks, receiver: Endpoint, database: Database
) -> None:
    async def counted() -> dict[tuple[str, str], float]:
        await FigureWriter(database).write()
        async with database.connection() as connection:
            totals = await figures.find_totals(connection)
        return {(one.name, *one.labels): sum(one.amounts[:-1]) for one in totals if len(one.labels) == 1}

    before = await counted()
    receiver.answer = failing(500)
    await hooks.endpoint(receiver.url)
    await hooks.emit()
    await hooks.settled()

    async def grown() -> bool:
        after = await counted()
        names = [
            (metrics.DELIVERY, "retry"),
            (metrics.DELIVERY, "delivered"),
            (metrics.DELIVERY_AGE, "delivered"),
        ]
        more = [after.get((one.name, label), 0) - before.get((one.name, label), 0) for one, label in names]
        return more == [1, 1, 1]

    await until(grown)


async def test_what_is_refused_is_sent_again_under_the_same_id(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = failing(500, 503)
    await hooks.endpoint(receiver.url)
    await hooks.emit()
    [row] = await hooks.settled()
    assert (row["status"], row["attempts"]) == ("delivered", 3)
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 1
    assert len({request["body"] for request in receiver.requests}) == 1
    told = [(one["number"], one["response_status"], one["response_body"]) for one in await hooks.attempts()]
    assert told == [(1, 500, "no"), (2, 503, "no"), (3, 200, "yes")]


async def test_after_the_last_attempt_a_delivery_has_failed(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = failing(500, 500, 500, 500)
    await hooks.endpoint(receiver.url)
    await hooks.emit()
    [row] = await hooks.settled()
    assert (row["status"], row["attempts"], row["next_attempt_at"]) == ("failed", 3, None)
    assert len(receiver.requests) == 3


async def test_a_redirect_is_a_failure_and_is_not_followed(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = lambda _: web.Response(status=307, headers={"Location": receiver.url + "/elsewhere"})
    await hooks.endpoint(receiver.url + "/hook")
    await hooks.emit()
    [row] = await hooks.settled()
    assert row["status"] == "failed"
    assert set(receiver.paths) == {"/hook"}
    assert {one["error"]["code"] for one in await hooks.attempts()} == {"redirected"}


async def test_410_switches_the_endpoint_off_and_tells_the_others(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = lambda request: web.Response(status=410 if request["path"] == "/gone" else 200)
    gone = await hooks.endpoint(receiver.url + "/gone", events=["key.created"])
    await hooks.endpoint(receiver.url + "/other", events=["webhook.*"])
    await hooks.emit()

    async def told() -> bool:
        return "/other" in receiver.paths

    await until(told)
    rows = await hooks.settled()
    assert [(row["event_type"], row["status"], row["attempts"]) for row in rows] == [
        ("key.created", "failed", 1),
        ("webhook.disabled", "delivered", 1),
    ]
    row = await hooks.endpoint_row(gone)
    assert (row["is_active"], row["disabled_reason"]) == (False, "gone")
    await hooks.emit()
    assert len(await hooks.rows()) == 2


async def test_others_are_told_since_when_an_endpoint_failed_only_where_that_is_why_it_is_off(
    hooks: Hooks, receiver: Endpoint
) -> None:
    await hooks.endpoint(receiver.url, events=["webhook.*"])
    for reason in ("gone", "failing"):
        off = await hooks.endpoint("http://127.0.0.1:9/", events=["key.created"])
        async with hooks.database.transaction() as connection:
            await connection.execute("update endpoints set failing_since = now() where id = %s", (off,))
            await endpoints.disable(connection, off, reason)
    await hooks.settled()
    told = [json.loads(request["body"])["data"] for request in receiver.requests]
    assert {one["reason"]: one["failing_since"] is None for one in told} == {"gone": True, "failing": False}


async def test_five_days_of_failures_switch_the_endpoint_off(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = lambda _: web.Response(status=500)
    endpoint_id = await hooks.endpoint(receiver.url)
    async with hooks.database.connection() as connection:
        await connection.execute(
            "update endpoints set failing_since = now() - interval '5 days' where id = %s", (endpoint_id,)
        )
    await hooks.emit()

    async def switched_off() -> bool:
        return not (await hooks.endpoint_row(endpoint_id))["is_active"]

    await until(switched_off)
    assert (await hooks.endpoint_row(endpoint_id))["disabled_reason"] == "failing"
    assert [row["status"] for row in await hooks.rows()] == ["pending"]


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        (["*"], True), (["key.created"], True), (["key.*"], True), (["key.revoked"], False),
        (["monitor.*"], False), (["credits.low", "key.*"], True), (["ke.*"], False),
    ],
)  # fmt: skip
async def test_only_what_an_endpoint_asked_for_is_delivered(
    hooks: Hooks, events: list[str], wanted: bool
) -> None:
    await hooks.endpoint("http://127.0.0.1:9/", events=events)
    await hooks.emit()
    assert len(await hooks.rows()) == int(wanted)


async def test_retry_after_puts_the_next_attempt_off_but_not_for_ever(
    hooks: Hooks, receiver: Endpoint
) -> None:
    receiver.answer = failing(503, Retry_After="100000")
    await hooks.endpoint(receiver.url)
    await hooks.emit()

    async def tried() -> bool:
        return bool(await hooks.attempts())

    await until(tried)
    [row] = await hooks.rows()
    seconds = (row["next_attempt_at"] - row["last_attempt_at"]).total_seconds()
    assert 3600 <= seconds <= 3600 * 1.2 + 5


async def test_an_answer_is_kept_to_16_kb_and_without_nul(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = lambda _: web.Response(body=b"\0a\xff" + b"b" * 40_000)
    await hooks.endpoint(receiver.url)
    await hooks.emit()
    [row] = await hooks.settled()
    [attempt] = await hooks.attempts()
    assert row["status"] == "delivered"
    assert attempt["response_body"] == "a�" + "b" * (16 * 1024 - 3)


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_an_answer_of_2xx_is_success_though_its_body_cannot_be_read(
    hooks: Hooks, receiver: Endpoint, encoding: str
) -> None:
    receiver.answer = lambda _: web.Response(body=b"no such thing", headers={"Content-Encoding": encoding})
    await hooks.endpoint(receiver.url)
    await hooks.emit()
    assert [(row["status"], row["attempts"]) for row in await hooks.settled()] == [("delivered", 1)]


async def test_what_waits_for_an_endpoint_that_is_off_goes_out_once_it_is_on(
    hooks: Hooks, receiver: Endpoint
) -> None:
    receiver.answer = failing(500)
    endpoint_id = await hooks.endpoint(receiver.url)
    await hooks.emit()

    async def tried() -> bool:
        return bool(await hooks.attempts())

    await until(tried)

    async def switch(on: bool) -> None:
        async with hooks.database.transaction() as connection:
            await endpoints.change(connection, hooks.keyring, hooks.actor, endpoint_id, {"is_active": on})

    await switch(False)

    async def queued() -> bool:
        async with hooks.database.connection() as connection:
            cursor = await connection.execute(
                "select status from delivery_work where endpoint_id = %s", (endpoint_id,)
            )
            row = await cursor.fetchone()
        return row is not None and row["status"] == "queued"

    await until(queued)
    assert len(receiver.requests) == 1
    await switch(True)
    [row] = await hooks.settled()
    assert (row["status"], row["attempts"]) == ("delivered", 2)


async def test_a_host_that_may_not_be_reached_fails_at_once(hooks: Hooks, notifier: Notifier) -> None:
    await hooks.endpoint("http://127.0.0.2:8080/")
    await hooks.emit()
    [row] = await hooks.settled()
    [attempt] = await hooks.attempts()
    assert (row["status"], attempt["error"]["code"]) == ("failed", "forbidden_address")


async def test_a_test_that_is_sent_again_is_not_repeated(hooks: Hooks, receiver: Endpoint) -> None:
    receiver.answer = lambda _: web.Response(status=500)
    endpoint_id = await hooks.endpoint(receiver.url)
    async with hooks.database.transaction() as connection:
        test = await deliveries.new_test(connection, hooks.account_id, endpoint_id)
        now = datetime.now(UTC)
        await deliveries.store_test(connection, test, Attempt(True, now, 1, 500, "", "http_status", "-"))
        assert await resending.recover(connection, hooks.account_id, endpoint_id, now - HOUR, None) == 0
        await resending.resend(connection, hooks.account_id, test.delivery_id)
    [row] = await hooks.settled()
    assert (row["status"], row["attempts"]) == ("failed", 2)


async def test_a_fault_of_our_own_is_not_held_against_the_endpoint(hooks: Hooks) -> None:
    endpoint_id = await hooks.endpoint("http://127.0.0.1:9/")
    async with hooks.database.connection() as connection:
        sealed = Keyring(["a key of thirty-two characters that is lost"]).seal("endpoints", b"{}", "-")
        await connection.execute("update endpoints set sealed = %s where id = %s", (sealed, endpoint_id))
    await hooks.emit()
    [row] = await hooks.settled()
    assert (row["status"], row["attempts"]) == ("failed", 3)
    assert {one["error"]["code"] for one in await hooks.attempts()} == {"secret_not_opened"}
    endpoint = await hooks.endpoint_row(endpoint_id)
    assert (endpoint["strikes"], endpoint["failing_since"]) == (0, None)
