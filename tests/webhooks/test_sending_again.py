"""Deliveries that are sent again: one by name, or what has failed in some time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from database import Database
from models.webhooks import endpoints, resending
from tests.api_server import Person
from tests.automations.engine import until
from tests.webhooks.senders import (
    CREDITS_LOW,
    KEY_CREATED,
    PATH,
    attempted,
    emit,
    listed,
    moment,
    webhook,
    work,
)

pytestmark = pytest.mark.usefixtures("nothing_waits")

LONG_AGO = "2026-01-01T00:00:00Z"


async def resend(person: Person, delivery_id: UUID | str) -> httpx.Response:
    return await person.key.post(f"{PATH}/deliveries/{delivery_id}/resend")


async def recover(person: Person, webhook_id: str, **body: Any) -> httpx.Response:
    return await person.key.post(f"{PATH}/{webhook_id}/recover", json=body)


async def recovered(person: Person, webhook_id: str, **body: Any) -> int:
    response = await recover(person, webhook_id, **body)
    assert response.status_code == 202, response.text
    return response.json()["queued"]


@pytest.mark.parametrize("ending", ["delivered", "failed"])
async def test_a_delivery_that_has_ended_is_queued_again(
    person: Person, database: Database, ending: Any
) -> None:
    await webhook(person)
    [event_id] = await emit(database, person)
    [delivery_id] = await attempted(database, ending)
    assert not await work(database, [delivery_id])
    response = await resend(person, delivery_id)
    assert response.status_code == 202
    assert response.headers["location"] == f"{PATH}/deliveries/{delivery_id}"
    shown = response.json()
    assert (shown["id"], shown["status"], shown["attempts"]) == (str(delivery_id), "pending", 1)
    assert shown["event_id"] == str(event_id)
    assert shown["next_attempt_at"] is not None
    [row] = (await work(database, [delivery_id])).values()
    assert (row["status"], row["attempts"], row["tries"], row["manual"]) == ("queued", 1, 0, True)
    assert row["event_id"] == event_id
    assert await attempted(database, "delivered") == [delivery_id]
    assert [(one["status"], one["attempts"]) for one in await listed(person)] == [("delivered", 2)]


async def test_a_delivery_that_waits_goes_now_and_keeps_its_place_in_the_schedule(
    person: Person, database: Database
) -> None:
    await webhook(person)
    await emit(database, person)
    [delivery_id] = await attempted(database, "retry")
    before = (await listed(person))[0]["next_attempt_at"]
    shown = (await resend(person, delivery_id)).json()
    assert (shown["status"], shown["attempts"]) == ("pending", 1)
    assert moment(shown["next_attempt_at"]) < moment(before)
    [row] = (await work(database, [delivery_id])).values()
    assert (row["status"], row["tries"], row["manual"]) == ("queued", 1, True)
    assert (row["batch_id"], row["wake_at"]) == (None, None)


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_delivery_that_is_queued_or_at_work_stays_as_it_is(
    person: Person, database: Database, status: str
) -> None:
    await webhook(person)
    await emit(database, person)
    [shown] = await listed(person)
    async with database.connection() as connection:
        await connection.execute(
            "update delivery_work set status = %s where delivery_id = %s", (status, shown["id"])
        )
    before = await work(database, [shown["id"]])
    assert (await resend(person, shown["id"])).status_code == 202
    assert await work(database, [shown["id"]]) == before
    async with database.connection() as connection:
        await connection.execute("delete from delivery_work where delivery_id = %s", (shown["id"],))


async def test_an_attempt_that_is_being_recorded_is_waited_for(person: Person, database: Database) -> None:
    """Else the next attempt would have the number of this one."""
    await webhook(person)
    await emit(database, person)
    [shown] = await listed(person)
    async with database.transaction() as recording:
        await recording.execute("delete from delivery_work where delivery_id = %s", (shown["id"],))
        await recording.execute(
            "update deliveries set status = 'failed', attempts = 1 where id = %s", (shown["id"],)
        )
        resent = asyncio.create_task(resend(person, shown["id"]))

        async def waits() -> bool:
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "select from pg_stat_activity where datname = current_database()"
                    " and wait_event_type = 'Lock'"
                )
                return bool(cursor.rowcount)

        await until(waits)
    assert (await resent).json()["attempts"] == 1
    [row] = (await work(database, [shown["id"]])).values()
    assert (row["status"], row["attempts"]) == ("queued", 1)
    assert await attempted(database, "delivered")


async def test_resent_by_many_at_once_it_is_queued_once(person: Person, database: Database) -> None:
    await webhook(person)
    await emit(database, person)
    [delivery_id] = await attempted(database, "failed")
    answers = await asyncio.gather(*(resend(person, delivery_id) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert await attempted(database, "delivered") == [delivery_id]
    assert [(one["status"], one["attempts"]) for one in await listed(person)] == [("delivered", 2)]


class TestConflicts:
    async def test_the_delivery_of_a_deleted_webhook_is_not_sent_again(
        self, person: Person, database: Database
    ) -> None:
        made = await webhook(person)
        await emit(database, person)
        [delivery_id] = await attempted(database, "failed")
        await person.key.delete(f"{PATH}/{made['id']}")
        response = await resend(person, delivery_id)
        assert (response.status_code, response.json()["code"]) == (409, "webhook_deleted")
        assert (await recover(person, made["id"], since=LONG_AGO)).status_code == 404

    async def test_a_webhook_that_is_off_must_be_switched_on_first(
        self, person: Person, database: Database
    ) -> None:
        made = await webhook(person)
        await emit(database, person)
        [delivery_id] = await attempted(database, "failed")
        async with database.transaction() as connection:
            await endpoints.disable(connection, UUID(made["id"]), "gone")
        for response in (
            await resend(person, delivery_id),
            await recover(person, made["id"], since=LONG_AGO),
        ):
            assert (response.status_code, response.json()["code"]) == (409, "webhook_not_active")
            assert "is_active" in response.json()["detail"]
        await person.key.patch(f"{PATH}/{made['id']}", json={"is_active": True})
        assert (await resend(person, delivery_id)).status_code == 202
        await attempted(database, "delivered")


class TestRecovering:
    async def test_what_has_failed_is_queued_and_nothing_else(
        self, person: Person, database: Database
    ) -> None:
        other = await webhook(person, events=["key.*"])
        made = await webhook(person)
        await emit(database, person, KEY_CREATED, CREDITS_LOW)
        failed = await attempted(database, "failed")
        await emit(database, person)
        await attempted(database, "delivered")
        await emit(database, person)
        await attempted(database, "retry")
        response = await recover(person, made["id"], since=LONG_AGO)
        assert (response.status_code, response.json()) == (202, {"queued": 2})
        assert response.headers["location"] == f"{PATH}/deliveries?webhook_id={made['id']}"
        rows = await work(database, failed)
        assert [(row["status"], row["attempts"], row["tries"], row["manual"]) for row in rows.values()] == [
            ("queued", 1, 0, True)
        ] * 2
        assert {str(row["endpoint_id"]) for row in rows.values()} == {made["id"]}
        assert [one["status"] for one in await listed(person, webhook_id=other["id"])] == [
            "pending", "delivered", "failed",
        ]  # fmt: skip
        assert await recovered(person, made["id"], since=LONG_AGO) == 0
        assert set(await attempted(database, "delivered")) == {UUID(id) for id in rows}

    async def test_since_is_within_the_time_and_until_is_not(
        self, person: Person, database: Database
    ) -> None:
        made = await webhook(person)
        for _ in range(3):
            await emit(database, person)
        await attempted(database, "failed")
        times = sorted(one["created_at"] for one in await listed(person))
        assert await recovered(person, made["id"], since=times[1], until=times[2]) == 1
        assert [one["status"] for one in await listed(person)] == ["failed", "pending", "failed"]
        assert await recovered(person, made["id"], since=times[0], until=times[0]) == 0
        assert await recovered(person, made["id"], since=times[2]) == 1
        assert await recovered(person, made["id"], since=times[0]) == 1
        await attempted(database, "delivered")

    async def test_a_call_takes_the_oldest_up_to_its_bound(
        self, person: Person, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(resending, "MAX_RECOVERED", 2)
        made = await webhook(person)
        await emit(database, person, *[KEY_CREATED] * 3)
        await attempted(database, "failed")
        assert await recovered(person, made["id"], since=LONG_AGO) == 2
        assert [one["status"] for one in await listed(person)] == ["failed", "pending", "pending"]
        assert await recovered(person, made["id"], since=LONG_AGO) == 1
        await attempted(database, "delivered")

    async def test_by_many_at_once_each_is_queued_once(self, person: Person, database: Database) -> None:
        made = await webhook(person)
        await emit(database, person, *[KEY_CREATED] * 20)
        failed = await attempted(database, "failed")
        counts = await asyncio.gather(*(recovered(person, made["id"], since=LONG_AGO) for _ in range(5)))
        assert sum(counts) == 20
        assert sorted(await attempted(database, "delivered")) == sorted(failed)

    async def test_any_times_are_understood(self, person: Person, database: Database) -> None:
        made = await webhook(person)
        await emit(database, person)
        await attempted(database, "failed")
        for times in (
            {"since": "0001-01-01T00:00:00+14:00", "until": "0001-01-01T00:00:00Z"},
            {"since": "1969-12-31T23:59:59Z", "until": "1970-01-01T00:00:00Z"},
        ):
            assert await recovered(person, made["id"], **times) == 0
        farthest = {"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59.999999-14:00"}
        assert await recovered(person, made["id"], **farthest) == 1
        await attempted(database, "delivered")

    @pytest.mark.parametrize(
        ("body", "pointer", "code"),
        [
            ({}, "/since", "required"),
            ({"since": "2026-01-01T00:00:00"}, "/since", "timezone_missing"),
            ({"since": "yesterday"}, "/since", "wrong_type"),
            ({"since": None}, "/since", "wrong_type"),
            ({"since": "9999-12-31T23:59:59-14:00"}, "/since", "out_of_range"),
            ({"since": LONG_AGO, "until": "2025-12-31T23:59:59Z"}, "/until", "out_of_range"),
            ({"since": LONG_AGO, "to": LONG_AGO}, "/to", "unknown_field"),
        ],
        ids=str,
    )
    async def test_a_bad_time_is_refused(
        self, person: Person, body: dict[str, Any], pointer: str, code: str
    ) -> None:
        made = await webhook(person)
        response = await recover(person, made["id"], **body)
        assert response.status_code == 400
        assert [(one["pointer"], one["code"]) for one in response.json()["errors"]] == [(pointer, code)]

    async def test_since_is_not_in_the_future(self, person: Person) -> None:
        made = await webhook(person)
        soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        assert (await recover(person, made["id"], since=soon)).status_code == 400


async def test_a_repeat_with_the_same_key_gets_the_first_answer(person: Person, database: Database) -> None:
    made = await webhook(person)
    await emit(database, person)
    [delivery_id] = await attempted(database, "failed")
    headers = {"Idempotency-Key": str(uuid4())}
    for path, body in (
        (f"{PATH}/{made['id']}/recover", {"since": LONG_AGO}),
        (f"{PATH}/deliveries/{delivery_id}/resend", None),
    ):
        first = await person.key.post(path, headers=headers, json=body)
        await attempted(database, "failed")
        second = await person.key.post(path, headers=headers, json=body)
        assert (first.status_code, second.status_code) == (202, 202)
        assert (first.content, second.headers["idempotent-replayed"]) == (second.content, "true")
        assert not await work(database, [delivery_id])
