"""The targets of monitors: added, removed and read by requests."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from tests.api_server import Api, Person
from tests.lists.making import create as create_list
from tests.monitors.asking import create, given, problems, refused

FIRST = int(ip_address("10.0.0.0"))


def addresses(start: int, number: int) -> list[str]:
    return [str(ip_address(FIRST + n)) for n in range(start, start + number)]


async def add(person: Person, monitor_id: str, body: Any) -> dict[str, Any]:
    response = await person.key.post(f"/api/monitors/{monitor_id}/targets", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def remove(person: Person, monitor_id: str, body: Any) -> int:
    response = await person.key.request("DELETE", f"/api/monitors/{monitor_id}/targets", json=body)
    assert response.status_code == 200, response.text
    return response.json()["deleted"]


@pytest.mark.parametrize("field", [None, "targets", "emails"])
async def test_targets_are_added_once_and_bad_ones_are_named(api: Api, field: str | None) -> None:
    person = await api.person()
    monitor_id = (await create(person.key, targets=["ada@example.com"]))["id"]
    texts = ["Ada@example.com", "bob@example.com", "bob@", "BOB@example.com"]
    added = await add(person, monitor_id, texts if field is None else {field: texts})
    assert (added["added"], added["duplicates"]) == (1, 2)
    assert [(one["target"], one["reason"]) for one in added["invalid"]] == [("bob@", "invalid_email")]
    path = f"/api/monitors/{monitor_id}"
    assert await given(person.key, f"{path}/targets") == ["ada@example.com", "bob@example.com"]
    assert (await given(person.key, path))["target_count"] == 2


async def test_targets_are_removed_in_whatever_form_they_are_written(api: Api) -> None:
    person = await api.person()
    targets = ["example.com", "bücher.de", "example.org"]
    monitor_id = (await create(person.key, monitor_type="domain", targets=targets))["id"]
    assert await remove(person, monitor_id, ["BÜCHER.de", "example.net", "no domain"]) == 1
    assert await remove(person, monitor_id, {"targets": ["Example.ORG"]}) == 1
    assert await given(person.key, f"/api/monitors/{monitor_id}/targets") == ["example.com"]


async def test_a_body_without_targets_is_refused(api: Api) -> None:
    person = await api.person()
    path = f"/api/monitors/{(await create(person.key))['id']}/targets"
    for method in ("POST", "DELETE"):
        assert problems(await person.key.request(method, path, json={})) == [("/targets", "required")]
        assert problems(await person.key.request(method, path, json=[7])) == [("/0", "wrong_type")]
        assert problems(await person.key.request(method, path, json=["a@b.de"] * 10_001)) == [
            ("", "too_many_items")
        ]


async def test_targets_of_a_list_are_shown_and_changed_at_the_list_alone(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key, targets=["ada@example.com"])
    path = f"/api/monitors/{(await create(person.key, data_source_ref=listed['id']))['id']}"
    for method in ("POST", "DELETE"):
        refusal = await person.key.request(method, f"{path}/targets", json=["bob@example.com"])
        assert refused(refusal) == (409, "targets_in_list")
        assert refusal.json()["list_id"] == listed["id"]
        assert listed["id"] in refusal.json()["detail"]
    await person.key.post(f"/api/lists/{listed['id']}/targets", json=["bob@example.com"])
    assert await given(person.key, f"{path}/targets") == ["ada@example.com", "bob@example.com"]
    assert (await given(person.key, path))["target_count"] == 2


async def test_a_monitor_takes_100_000_targets_and_no_more(api: Api) -> None:
    person = await api.person()
    monitor_id = (await create(person.key, monitor_type="ip", targets=addresses(0, 10_000)))["id"]
    for start in range(10_000, 100_000, 10_000):
        assert (await add(person, monitor_id, addresses(start, 10_000)))["added"] == 10_000
    full = await person.key.post(f"/api/monitors/{monitor_id}/targets", json=addresses(99_999, 2))
    assert refused(full) == (409, "monitor_full")
    assert await given(person.key, f"/api/monitors/{monitor_id}/targets") == addresses(0, 100_000)


async def test_more_bad_targets_than_a_hundred_are_named_as_a_hundred(api: Api) -> None:
    person = await api.person()
    body = {"name": "m", "monitor_type": "ip", "targets": ["x"] * 10_000}
    assert len(problems(await person.key.post("/api/monitors", json=body))) == 100
