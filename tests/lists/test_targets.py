"""Targets of lists: what is one of each type, in which form it is kept, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from database import Database
from tests.api_server import Api
from tests.lists.making import add, count, create, problems, remove, targets

GOOD = {
    "email": {
        " Ada.Lovelace@Example.COM\n": "ada.lovelace@example.com",
        "ada+news@example.com": "ada+news@example.com",
        "ada@bücher.de": "ada@xn--bcher-kva.de",
    },
    "phone": {
        "+14155552671": "+14155552671",
        " +1 (415) 555-2672 ": "+14155552672",
        "+44 20 7946 0018": "+442079460018",
        "tel:+49-30-123456": "+4930123456",
    },
    "domain": {
        "Example.COM.": "example.com",
        "www.example.co.uk": "www.example.co.uk",
        "bücher.de": "xn--bcher-kva.de",
        "例え。jp": "xn--r8jz45g.jp",
    },
    "ip": {
        " 192.0.2.1 ": "192.0.2.1",
        "2001:DB8:0:0::1": "2001:db8::1",
        "::ffff:198.51.100.7": "198.51.100.7",
    },
    "company": {
        "  Example Bank plc ": "Example Bank plc",
        "example bank plc": "example bank plc",
        "Ä": "Ä",
        "n" * 500: "n" * 500,
    },
    "darkweb": {
        "\texample.com\n": "example.com",
        "Two  Words": "Two  Words",
        "漢" * 500: "漢" * 500,
    },
}
BAD = {
    "email": ["", "ada", "ada@localhost", "Ada <ada@example.com>", "a" * 10_000 + "@example.com"],
    "phone": ["", "555 2671", "+1", "call me", "4155552671", "+1" + "4" * 60],
    "domain": ["", "localhost", "co.uk", "https://example.com/", "ada@example.com", "192.0.2.1", "x" * 300],
    "ip": ["", "192.0.2.256", "192.0.2.0/24", "fe80::1%eth0", "example.com", "1" * 5_000],
    "company": ["", " \t ", "n" * 501],
    "darkweb": ["", "\n", "漢" * 501],
}
CODES = {
    "email": "invalid_email", "phone": "invalid_phone", "domain": "invalid_domain", "ip": "invalid_ip",
    "company": "invalid_company", "darkweb": "invalid_query",
}  # fmt: skip


@pytest.mark.parametrize("type", GOOD)
async def test_targets_are_kept_in_one_form_in_the_order_of_adding(api: Api, type: str) -> None:
    person = await api.person()
    made = await create(person.key, type=type)
    added = await add(person.key, made["id"], list(GOOD[type]))
    assert added == {"added": len(GOOD[type]), "duplicates": 0, "invalid": []}
    assert await targets(person.key, made["id"]) == list(GOOD[type].values())


@pytest.mark.parametrize("type", GOOD)
async def test_a_target_that_is_there_in_whatever_form_is_a_duplicate(api: Api, type: str) -> None:
    person = await api.person()
    made = await create(person.key, type=type, targets=list(GOOD[type].values()))
    again = [*GOOD[type], *GOOD[type].values()]
    assert await add(person.key, made["id"], again) == {"added": 0, "duplicates": len(again), "invalid": []}
    assert await targets(person.key, made["id"]) == list(GOOD[type].values())


@pytest.mark.parametrize("type", BAD)
async def test_bad_targets_are_named_and_keep_no_good_one_out(api: Api, type: str) -> None:
    person = await api.person()
    made = await create(person.key, type=type)
    good = next(iter(GOOD[type].values()))
    added = await add(person.key, made["id"], [*BAD[type], good])
    assert [one["target"] for one in added["invalid"]] == BAD[type]
    assert {one["reason"] for one in added["invalid"]} == {CODES[type]}
    assert all(one["message"].endswith(".") for one in added["invalid"])
    assert (added["added"], await targets(person.key, made["id"])) == (1, [good])


@pytest.mark.parametrize("type", GOOD)
async def test_targets_are_removed_in_whatever_form_they_are_written(api: Api, type: str) -> None:
    person = await api.person()
    made = await create(person.key, type=type, targets=list(GOOD[type]))
    assert await remove(person.key, made["id"], [*GOOD[type], *BAD[type]]) == len(GOOD[type])
    assert (await targets(person.key, made["id"]), await count(person.key, made["id"])) == ([], 0)


FORMS: dict[str, Callable[[list[str]], Any]] = {
    "targets": lambda texts: {"targets": texts},
    "emails": lambda texts: {"emails": texts},
    "both": lambda texts: {"targets": texts[:1], "emails": texts[1:]},
    "one null": lambda texts: {"targets": None, "emails": texts},
    "bare": lambda texts: texts,
}


@pytest.mark.parametrize("form", FORMS)
async def test_targets_come_in_either_field_or_as_a_bare_array(api: Api, form: str) -> None:
    person = await api.person()
    made = await create(person.key, type="ip")
    body = FORMS[form](["192.0.2.1", "192.0.2.2"])
    assert (await add(person.key, made["id"], body))["added"] == 2
    assert await targets(person.key, made["id"]) == ["192.0.2.1", "192.0.2.2"]
    assert await remove(person.key, made["id"], body) == 2


async def test_no_targets_change_nothing(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, targets=["ada@example.com"])
    assert await add(person.key, made["id"], []) == {"added": 0, "duplicates": 0, "invalid": []}
    assert await remove(person.key, made["id"], {"targets": []}) == 0
    assert await targets(person.key, made["id"]) == ["ada@example.com"]


MANY = ["192.0.2.1"] * 10_001
REFUSED: dict[str, tuple[Any, str, str]] = {
    "neither field": ({}, "/targets", "required"),
    "null": ({"targets": None}, "/targets", "required"),
    "unknown field": ({"target": ["192.0.2.1"]}, "/target", "unknown_field"),
    "a field beside": ({"targets": [], "name": "n"}, "/name", "unknown_field"),
    "no array": ({"targets": "192.0.2.1"}, "/targets", "wrong_type"),
    "text": ("192.0.2.1", "", "wrong_type"),
    "a number among them": ({"emails": ["192.0.2.1", 7]}, "/emails/1", "wrong_type"),
    "null among them": (["192.0.2.1", None, 7], "/1", "wrong_type"),
    "an array among them": ([["192.0.2.1"]], "/0", "wrong_type"),
    "too many": ({"targets": MANY}, "/targets", "too_many_items"),
    "too many bare": (MANY, "", "too_many_items"),
    "too many together": ({"targets": MANY[:6_000], "emails": MANY[:6_000]}, "/emails", "too_many_items"),
}


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("case", REFUSED)
async def test_a_body_that_is_no_targets_is_refused_where_it_is_wrong(
    api: Api, case: str, method: str
) -> None:
    body, pointer, code = REFUSED[case]
    person = await api.person()
    made = await create(person.key, type="ip", targets=["192.0.2.1"])
    response = await person.key.request(method, f"/api/lists/{made['id']}/emails", json=body)
    assert problems(response) == [(pointer, code)]
    assert await targets(person.key, made["id"]) == ["192.0.2.1"]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_missing_body_is_refused(api: Api, method: str) -> None:
    person = await api.person()
    made = await create(person.key, type="ip", targets=["192.0.2.1"])
    response = await person.key.request(method, f"/api/lists/{made['id']}/targets")
    assert problems(response) == [("", "required")]
    assert await targets(person.key, made["id"]) == ["192.0.2.1"]


async def test_a_body_may_have_4_mib(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, type="company")
    texts = [f"{'n' * 400} {number}" for number in range(10_000)]
    assert (await add(person.key, made["id"], texts))["added"] == 10_000
    response = await person.key.post(f"/api/lists/{made['id']}/targets", json=[*texts[1:], "n" * 200_000])
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


async def test_a_target_that_was_one_under_other_rules_can_still_be_removed(
    api: Api, database: Database
) -> None:
    person = await api.person()
    made = await create(person.key, type="domain", targets=["example.com"])
    async with database.connection() as connection:
        statement = "update list_targets set target = 'intranet' where list_id = %s"
        await connection.execute(statement, (made["id"],))
    assert await remove(person.key, made["id"], await targets(person.key, made["id"])) == 1
