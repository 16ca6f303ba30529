"""The log of deliveries: what was sent, what was answered, page by page."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from database import Database
from tests.api_server import Person
from tests.webhooks.senders import (
    CREDITS_LOW,
    KEY_CREATED,
    PATH,
    attempted,
    emit,
    listed,
    webhook,
)

pytestmark = pytest.mark.usefixtures("nothing_waits")

ITEM = {
    "id", "webhook_id", "event_id", "event_type", "payload", "status", "attempts", "response_status",
    "response_body", "last_attempt_at", "next_attempt_at", "created_at",
}  # fmt: skip


async def detail(person: Person, delivery_id: str) -> dict[str, Any]:
    response = await person.key.get(f"{PATH}/deliveries/{delivery_id}")
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_delivery_that_waits_shows_its_event(person: Person, database: Database) -> None:
    made = await webhook(person)
    [event_id] = await emit(database, person)
    [shown] = await listed(person)
    assert shown.keys() == ITEM
    assert shown["payload"] == {
        "event": "key.created",
        "data": json.loads(KEY_CREATED.model_dump_json()),
        "created_at": shown["created_at"],
    }
    rest = {name: shown[name] for name in ITEM - {"id", "payload", "created_at"}}
    assert rest == {
        "webhook_id": made["id"], "event_id": str(event_id), "event_type": "key.created",
        "status": "pending", "attempts": 0, "response_status": None, "response_body": None,
        "last_attempt_at": None, "next_attempt_at": shown["created_at"],
    }  # fmt: skip


async def test_the_last_attempt_shows_in_the_list_and_all_in_the_delivery(
    person: Person, database: Database
) -> None:
    await webhook(person)
    await emit(database, person)
    [delivery_id] = await attempted(database, "retry", status=None, body=None)
    [shown] = await listed(person)
    assert shown["status"] == "pending"
    assert shown["next_attempt_at"] > shown["last_attempt_at"]
    await person.key.post(f"{PATH}/deliveries/{delivery_id}/resend")
    await attempted(database, "delivered", status=200, body="näh")
    [shown] = await listed(person)
    assert (shown["status"], shown["attempts"], shown["next_attempt_at"]) == ("delivered", 2, None)
    assert (shown["response_status"], shown["response_body"]) == (200, "näh")
    whole = await detail(person, str(delivery_id))
    assert whole == {**shown, "attempt_log": whole["attempt_log"]}
    assert whole["attempt_log"] == [
        {
            "attempt": 1, "trigger": "scheduled", "started_at": whole["attempt_log"][0]["started_at"],
            "duration_ms": 20, "response_status": None, "response_body": None,
            "error": {"code": "http_status", "message": "It answered None."},
        },
        {
            "attempt": 2, "trigger": "manual", "started_at": shown["last_attempt_at"], "duration_ms": 20,
            "response_status": 200, "response_body": "näh", "error": None,
        },
    ]  # fmt: skip


async def test_filters_choose_what_is_listed(person: Person, database: Database) -> None:
    first = await webhook(person, events=["key.*"])
    second = await webhook(person)
    await emit(database, person, KEY_CREATED, CREDITS_LOW)
    await attempted(database, "failed")
    await emit(database, person)
    await attempted(database, "delivered")
    await emit(database, person, CREDITS_LOW)

    async def seen(**query: Any) -> list[tuple[str, str, str]]:
        return [
            (one["webhook_id"], one["event_type"], one["status"]) for one in await listed(person, **query)
        ]

    one, two = first["id"], second["id"]
    everything = await seen()
    assert sorted(everything) == sorted(
        [
            (one, "key.created", "failed"), (two, "key.created", "failed"), (two, "credits.low", "failed"),
            (one, "key.created", "delivered"), (two, "key.created", "delivered"),
            (two, "credits.low", "pending"),
        ]
    )  # fmt: skip
    for webhook_id in (None, one, two):
        for status in (None, "pending", "delivered", "failed"):
            for event_type in (None, "key.created", "credits.low", "key.revoked"):
                wanted = {"webhook_id": webhook_id, "event_type": event_type, "status": status}
                query = {name: value for name, value in wanted.items() if value is not None}
                assert await seen(**query) == [
                    row for row in everything
                    if all(value in (None, had) for value, had in zip(wanted.values(), row, strict=True))
                ], query  # fmt: skip


async def test_pages_are_newest_first_and_miss_and_repeat_nothing(person: Person, database: Database) -> None:
    await webhook(person)
    await emit(database, person, *[KEY_CREATED] * 7)
    everything = [one["id"] for one in await listed(person)]
    assert everything == sorted(everything, reverse=True)
    paged, query = list[str](), dict[str, Any](limit=3)
    while True:
        page = (await person.key.get(f"{PATH}/deliveries", params=query)).json()
        paged += [one["id"] for one in page["deliveries"]]
        await emit(database, person)  # what comes meanwhile moves nothing
        if page["next_cursor"] is None:
            break
        assert len(page["deliveries"]) == 3
        query["cursor"] = page["next_cursor"]
    assert paged == everything


async def test_a_cursor_that_is_not_ours_is_refused(person: Person, database: Database) -> None:
    await webhook(person)
    await emit(database, person, KEY_CREATED, KEY_CREATED)
    cursor: str = (await person.key.get(f"{PATH}/deliveries", params={"limit": 1})).json()["next_cursor"]
    changed = [
        cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(len(cursor))
    ]
    for bad in (*changed, cursor[:-1], cursor + "A", cursor + "=", "", "1", "ü", "\0", str(uuid4())):
        response = await person.key.get(f"{PATH}/deliveries", params={"cursor": bad})
        [error] = response.json()["errors"]
        assert (response.status_code, error["code"], error["parameter"]) == (400, "invalid_cursor", "cursor")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": 0}, "out_of_range"), ({"limit": 101}, "out_of_range"), ({"limit": "x"}, "wrong_type"),
        ({"status": "sent"}, "not_allowed"), ({"event_type": "a b"}, "invalid_format"),
        ({"event_type": "\0"}, "invalid_format"), ({"event_type": "x" * 101}, "too_long"),
    ],
    ids=str,
)  # fmt: skip
async def test_a_bad_query_is_refused(person: Person, query: dict[str, Any], code: str) -> None:
    response = await person.key.get(f"{PATH}/deliveries", params=query)
    assert response.status_code == 400
    assert [(one["parameter"], one["code"]) for one in response.json()["errors"]] == [(*query, code)]


async def test_the_deliveries_of_a_deleted_webhook_stay_and_what_waited_has_failed(
    person: Person, database: Database
) -> None:
    made = await webhook(person)
    await emit(database, person)
    await attempted(database, "delivered", status=204, body="")
    await emit(database, person)
    assert (await person.key.delete(f"{PATH}/{made['id']}")).status_code == 204
    left = await listed(person, webhook_id=made["id"])
    assert [(one["status"], one["attempts"], one["next_attempt_at"]) for one in left] == [
        ("failed", 0, None), ("delivered", 1, None),
    ]  # fmt: skip
    assert (await detail(person, left[0]["id"]))["attempt_log"] == []


async def test_a_delivery_whose_event_is_kept_no_longer_has_no_payload(
    person: Person, database: Database
) -> None:
    """Events and deliveries go by weeks, and one of the last moment of a week goes before its delivery."""
    await webhook(person)
    [event_id] = await emit(database, person)
    async with database.connection() as connection:
        await connection.execute("delete from events where id = %s", (event_id,))
    [shown] = await listed(person)
    assert shown["payload"] is None
    assert (await detail(person, shown["id"]))["payload"] is None
