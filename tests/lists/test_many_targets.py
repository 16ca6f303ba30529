"""Lists of many targets, and requests that change one list at once."""

from __future__ import annotations

import asyncio
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest

from database import Database
from models import owned_targets
from settings import Settings
from tests.api_server import Api, running
from tests.lists.making import add, count, create, remove, targets
from tests.stacks import eventually

pytestmark = pytest.mark.long

FIRST = int(ip_address("10.0.0.0"))


def addresses(start: int, number: int = 10_000) -> list[str]:
    return [str(ip_address(FIRST + n)) for n in range(start, start + number)]


async def test_a_list_takes_100_000_targets_in_ten_requests_and_no_more(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, type="ip")
    for start in range(0, 100_000, 10_000):
        added = await add(person.key, made["id"], addresses(start))
        assert (added["added"], added["duplicates"]) == (10_000, 0)
    assert await count(person.key, made["id"]) == 100_000
    assert await targets(person.key, made["id"]) == addresses(0, 100_000)
    assert (await add(person.key, made["id"], addresses(0)))["duplicates"] == 10_000
    full = await person.key.post(f"/api/lists/{made['id']}/targets", json=addresses(99_999, 2))
    assert (full.status_code, full.json()["code"]) == (409, "list_full")
    assert await targets(person.key, made["id"]) == addresses(0, 100_000)
    assert await remove(person.key, made["id"], addresses(50_000)) == 10_000
    assert await count(person.key, made["id"]) == 90_000
    deleted = await person.key.delete(f"/api/lists/{made['id']}")
    assert deleted.status_code == 204


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("email", "Ada{}@Example.com"),
        ("phone", "+1 415 555 {:04}"),
        ("domain", "Host{}.Example.com"),
        ("company", "Company {}"),
    ],
)
async def test_10_000_targets_of_a_type_are_checked_and_kept_in_their_order(
    api: Api, type: str, text: str
) -> None:
    person = await api.person()
    texts = [text.format(number) for number in range(10_000)]
    made = await create(person.key, type=type)
    added = await add(person.key, made["id"], [*texts[:5_000], "", *texts[5_000:9_999]])
    assert (added["added"], [one["target"] for one in added["invalid"]]) == (9_999, [""])
    assert await remove(person.key, made["id"], texts) == 9_999


async def test_counts_are_exact_when_several_add_and_remove_at_once(
    settings: Settings, database: Database
) -> None:
    async with running(settings) as one, running(settings) as other:
        person = await one.person()
        elsewhere = await other.client(Authorization=f"Bearer {person.secret}")
        made = await create(person.key, type="ip", targets=addresses(0, 1_000))
        changes = [
            *(add(client, made["id"], addresses(500, 1_000)) for client in (person.key, elsewhere)),
            *(add(client, made["id"], addresses(1_000, 1_000)) for client in (person.key, elsewhere)),
            *(remove(client, made["id"], addresses(0, 500)) for client in (person.key, elsewhere)),
        ]
        done: list[Any] = await asyncio.gather(*changes)
        assert sum(answer["added"] for answer in done[:4]) == 1_000
        assert sum(done[4:]) == 500
        assert await count(person.key, made["id"]) == 1_500
        assert sorted(await targets(person.key, made["id"])) == sorted(addresses(500, 1_500))


async def test_only_one_of_two_at_once_gets_the_last_places(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_targets, "MAX_TARGETS", 10_000)
    person = await api.person()
    made = await create(person.key, type="ip", targets=addresses(0, 1))
    path = f"/api/lists/{made['id']}/targets"
    answers = await asyncio.gather(
        *(person.key.post(path, json=addresses(start, 6_000)) for start in (1, 6_001))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert await count(person.key, made["id"]) == 6_001
    assert len(await targets(person.key, made["id"])) == 6_001


async def test_a_list_that_is_deleted_while_targets_come_is_gone(api: Api, database: Database) -> None:
    person = await api.person()
    made = await create(person.key, type="ip")
    path = f"/api/lists/{made['id']}"
    deleted, *added = await asyncio.gather(
        person.key.delete(path),
        *(person.key.post(f"{path}/targets", json=addresses(start, 500)) for start in range(0, 2_000, 500)),
    )
    assert deleted.status_code == 204
    assert {answer.status_code for answer in added} <= {200, 404}
    async with database.connection() as connection:
        cursor = await connection.execute("select from list_targets where list_id = %s", (made["id"],))
        assert await cursor.fetchone() is None


async def test_who_changes_a_list_often_at_once_leaves_connections_to_others(
    api: Api, database: Database
) -> None:
    person, other = await api.person(), await api.person()
    made = await create(person.key, type="ip")
    async with database.transaction() as connection:
        await connection.execute("select from lists where id = %s for update", (made["id"],))
        adding = [asyncio.create_task(add(person.key, made["id"], [one])) for one in addresses(0, 20)]
        await eventually(partial(is_awaited, database))
        assert (await other.key.get("/api/lists")).status_code == 200
    await asyncio.gather(*adding)
    assert await count(person.key, made["id"]) == 20


async def is_awaited(database: Database) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%%from lists%%'"
        )
        return await cursor.fetchone() is not None
