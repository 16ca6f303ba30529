"""CSV files of targets that are imported into lists and monitors."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from database import Database
from models import owned_targets
from tests.api_server import Api, Person
from tests.lists.making import create as create_list
from tests.monitors.asking import create as create_monitor
from tests.stacks import eventually

KINDS = ("lists", "monitors")


async def new(person: Person, kind: str, type: str = "email", **body: Any) -> str:
    """The path of a new list or monitor."""
    if kind == "lists":
        return f"/api/lists/{(await create_list(person.key, type=type, **body))['id']}"
    return f"/api/monitors/{(await create_monitor(person.key, monitor_type=type, **body))['id']}"


async def send(person: Person, path: str, text: str | bytes, **fields: str) -> httpx.Response:
    files = {"file": ("targets.csv", text, "text/csv")}
    return await person.key.post(f"{path}/targets/import", data=fields, files=files)


async def import_file(person: Person, path: str, text: str, **fields: str) -> dict[str, Any]:
    response = await send(person, path, text, **fields)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("kind", KINDS)
async def test_good_rows_are_added_once_and_bad_ones_are_named_by_their_numbers(api: Api, kind: str) -> None:
    person = await api.person()
    path = await new(person, kind, targets=["eve@example.com"])
    text = "Name;E-Mail\nAda; ADA@Example.com\n\nBob;nobody\nEve;eve@example.com\nAda;ada@example.com\nX;\n"
    done = await import_file(person, path, text)
    invalid = done.pop("invalid")
    assert done == {"column": "E-Mail", "rows": 5, "added": 1, "duplicates": 2, "invalid_rows": 2}
    assert [(one["row"], one["target"], one["reason"]) for one in invalid] == [
        (4, "nobody", "invalid_email"), (7, "", "empty_target"),
    ]  # fmt: skip
    assert all(one["message"].endswith(".") for one in invalid)
    targets = (await person.key.get(f"{path}/targets")).json()
    assert targets == ["eve@example.com", "ada@example.com"]
    assert (await person.key.get(path)).json()["target_count"] == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_repeated_import_adds_nothing(api: Api, kind: str) -> None:
    person = await api.person()
    path = await new(person, kind, "ip")
    text = "ip\n192.0.2.1\n192.0.2.2\n"
    assert (await import_file(person, path, text))["added"] == 2
    again = await import_file(person, path, text)
    assert (again["added"], again["duplicates"]) == (0, 2)


async def test_the_column_can_be_named(api: Api) -> None:
    person = await api.person()
    path = await new(person, "lists", "domain")
    text = "domain,other\nexample.com,example.org\n"
    assert (await import_file(person, path, text, column="OTHER"))["column"] == "other"
    assert (await person.key.get(f"{path}/targets")).json() == ["example.org"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "fields", "code"),
    [
        ("", {}, "no_rows"),
        ("email\n", {}, "no_rows"),
        ("a,b\n1,2\n", {}, "column_required"),
        ("email\nada@example.com\n", {"column": "mail"}, "no_such_column"),
        ("ada@example.com\nbob@example.com\n", {}, "no_header"),
        (b"email\n\xff\xfe\n", {}, "bad_encoding"),
        (b"PK\x03\x04", {}, "not_csv"),
        ("email\nada@example.com\n", {"nonsense": "x"}, "unknown_field"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_as_a_whole(
    api: Api, kind: str, text: str | bytes, fields: dict[str, str], code: str
) -> None:
    person = await api.person()
    path = await new(person, kind)
    response = await send(person, path, text, **fields)
    assert response.status_code == 400
    assert [error["code"] for error in response.json()["errors"]] == [code]
    assert (await person.key.get(f"{path}/targets")).json() == []


async def test_what_is_wrong_late_in_a_file_keeps_all_of_it_out(api: Api) -> None:
    person = await api.person()
    path = await new(person, "lists", "ip")
    rows = "".join(f"10.0.{n // 250}.{n % 250}\n" for n in range(3_000))
    response = await send(person, path, f'ip\n{rows}"x\n')
    assert [error["row"] for error in response.json()["errors"]] == [3_002]
    assert (await person.key.get(path)).json()["target_count"] == 0


async def test_anything_but_a_form_is_refused(api: Api) -> None:
    person = await api.person()
    path = await new(person, "lists")
    response = await person.key.post(f"{path}/targets/import", json={"targets": ["ada@example.com"]})
    assert response.status_code == 415


async def test_a_file_of_more_rows_than_a_job_takes_is_imported_in_one_step(
    api: Api, database: Database
) -> None:
    person = await api.person()
    path = await new(person, "lists", "ip")
    text = "ip\n" + "".join(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(12_000))
    done = await import_file(person, path, text + "x\n" * 1_500)
    assert (done["added"], done["invalid_rows"], len(done["invalid"])) == (12_000, 1_500, 1_000)
    assert (await person.key.get(path)).json()["target_count"] == 12_000
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select changes from audit_log where account_id = %s and action = 'list.targets_added'",
            (person.account.id,),
        )
        assert [row["changes"] for row in await cursor.fetchall()] == [{"added": 12_000}]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_that_would_make_too_many_targets_adds_none(
    api: Api, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await api.person()
    path = await new(person, kind, "ip", targets=["192.0.2.1"])
    monkeypatch.setattr(owned_targets, "MAX_TARGETS", 3)
    response = await send(person, path, "ip\n192.0.2.2\n192.0.2.3\n192.0.2.4\n")
    assert (response.status_code, response.json()["code"]) == (409, f"{kind[:-1]}_full")
    assert (await person.key.get(f"{path}/targets")).json() == ["192.0.2.1"]


async def test_a_monitor_that_watches_a_list_takes_no_file(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key)
    path = await new(person, "monitors", data_source_ref=listed["id"], data_source_type="list")
    response = await send(person, path, "email\nada@example.com\n")
    assert (response.status_code, response.json()["code"]) == (409, "targets_in_list")


@pytest.mark.parametrize("kind", KINDS)
async def test_files_of_many_accounts_leave_connections_to_others(
    api: Api, database: Database, kind: str
) -> None:
    """Each file is stored in one transaction, which takes seconds for a large one."""
    people = [await api.person() for _ in range(12)]
    paths = [await new(person, kind) for person in people]
    async with asyncio.TaskGroup() as tasks, database.transaction() as connection:
        await connection.execute(f"lock table {kind} in share row exclusive mode")  # pyright: ignore[reportArgumentType]
        imports = [
            tasks.create_task(import_file(person, path, "email\nada@example.com\n"))
            for person, path in zip(people, paths, strict=True)
        ]
        await eventually(lambda: count_waiting(database), what="a file waits for the lock")
        answers = [await person.key.get(path) for person, path in zip(people, paths, strict=True)]
    assert {answer.status_code for answer in answers} == {200}
    assert [done.result()["added"] for done in imports] == [1] * len(people)


async def count_waiting(database: Database) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) as n from pg_locks where not granted and database ="
            " (select oid from pg_database where datname = current_database())"
        )
        row = await cursor.fetchone()
    return bool(row and row["n"])
