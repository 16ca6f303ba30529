"""The routes of bulk jobs, without a worker: what makes a job, what is refused, what becomes of one."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from database import Database
from models.accounts.keys import Scope
from models.jobs import acceptance
from tests.api_server import Api, Person
from tests.automations.engine import until
from tests.jobs.asking import PATH, download, make, table, upload

CSV = "IP,note\n8.8.8.8,a\nnobody,b\n,c\n8.8.8.8,d\n"


CREDITS = 10


async def job_count(database: Database, person: Person) -> int:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) as n from jobs where account_id = %s", (person.account.id,)
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["n"]


async def test_a_file_in_a_form_becomes_a_job(person: Person) -> None:
    answer = await upload(person.key, CSV, type="ip", name=" Resolvers ")
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["Location"] == f"{PATH}/{job['id']}"
    assert (await person.key.get(answer.headers["Location"])).json() == job
    assert job == {
        "id": job["id"], "name": "Resolvers", "type": "ip", "fields": None, "left_out": [],
        "status": "queued",
        "total_rows": 4, "processed_rows": 0, "succeeded_rows": 0, "failed_rows": 0, "credits_used": 0,
        "credits_held": 0, "eta_seconds": None, "resumes_at": None, "error": None,
        "created_at": job["created_at"], "started_at": None, "completed_at": None,
        "warnings": None,
    }  # fmt: skip


async def test_targets_in_json_become_a_job(person: Person) -> None:
    job = await make(person.key, ["example.com", "example.org"], type="domain", fields=["dns", "whois"])
    assert (job["total_rows"], job["credits_held"], job["fields"]) == (2, 2, ["dns", "whois"])


async def test_fields_of_a_form_are_parted_by_commas_and_blank_ones_count_as_absent(person: Person) -> None:
    answer = await upload(person.key, CSV, type="ip", fields="asn, location.city,,asn,", name="", column=" ")
    assert (answer.json()["fields"], answer.json()["name"]) == (["asn", "location.city"], None)


async def test_the_read_only_fields_of_a_job_may_be_sent_back(person: Person) -> None:
    job = await make(person.key, ["8.8.8.8"])
    assert (await make(person.key, **{**job, "targets": ["1.1.1.1"]}))["id"] != job["id"]


async def test_a_file_may_have_10_000_rows_and_more_than_a_mebibyte(person: Person) -> None:
    rows = "".join(f"10.0.{n // 250}.{n % 250},{'x' * 1_000}\n" for n in range(10_000))
    answer = await upload(person.key, "ip,note\n" + rows, type="ip")
    assert answer.json()["total_rows"] == 10_000


@pytest.mark.parametrize("type", ["email", "phone", "domain"])
async def test_targets_of_every_row_are_checked(person: Person, database: Database, type: str) -> None:
    rows = "nothing\n" * 4_000
    job = (await upload(person.key, f"{type}\n{rows}", type=type)).json()
    assert (job["total_rows"], job["credits_held"]) == (4_000, 0)


BODIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no type": ({"targets": ["8.8.8.8"]}, "/type", "required"),
    "another type": ({"type": "dns", "targets": ["x"]}, "/type", "not_allowed"),
    "no targets": ({"type": "ip"}, "/targets", "required"),
    "empty targets": ({"type": "ip", "targets": []}, "/targets", "too_few_items"),
    "10,001 targets": ({"type": "ip", "targets": ["x"] * 10_001}, "/targets", "too_many_items"),
    "a target that is a number": ({"type": "ip", "targets": ["x", 1]}, "/targets/1", "wrong_type"),
    "an unknown field": ({"type": "ip", "targets": ["x"], "colum": "a"}, "/colum", "unknown_field"),
    "an unknown field of answers": ({"type": "ip", "targets": ["x"], "fields": ["dns"]}, "/fields",
                                    "unknown_field"),
    "no fields of answers": ({"type": "ip", "targets": ["x"], "fields": []}, "/fields", "too_few_items"),
    "a blank name": ({"type": "ip", "targets": ["x"], "name": " "}, "/name", "too_short"),
}  # fmt: skip


@pytest.mark.parametrize("case", BODIES)
async def test_wrong_json_is_refused(person: Person, database: Database, case: str) -> None:
    body, pointer, code = BODIES[case]
    answer = await person.key.post(PATH, json=body)
    assert answer.status_code == 400
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert await job_count(database, person) == 0


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"null"])
async def test_json_that_is_no_object_is_refused(person: Person, body: bytes) -> None:
    answer = await person.key.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "wrong_type")


FORMS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "no type": (CSV, {}, {"pointer": "/type", "code": "required"}),
    "an unknown field": (CSV, {"type": "ip", "typ": "ip"}, {"pointer": "/typ", "code": "unknown_field"}),
    "targets": (CSV, {"type": "ip", "targets": "x"}, {"pointer": "/targets", "code": "unknown_field"}),
    "another column": (CSV, {"type": "ip", "column": "x"}, {"row": 1, "code": "no_such_column"}),
    "no column": ("a,b\n1,2\n", {"type": "company"}, {"row": 1, "code": "column_required"}),
    "no header": ("8.8.8.8\n1.1.1.1\n", {"type": "ip"}, {"row": 1, "code": "no_header"}),
    "no rows": ("ip\n", {"type": "ip"}, {"row": 1, "code": "no_rows"}),
    "a bad row": ("ip\n" + "8.8.8.8\n" * 5_000 + '"x', {"type": "ip"}, {"row": 5_002, "code": "bad_quoting"}),
    "10,001 rows": ("ip\n" + "x\n" * 10_001, {"type": "ip"}, {"row": 10_002, "code": "too_many_rows"}),
}


@pytest.mark.parametrize("case", FORMS)
async def test_a_wrong_form_is_refused(person: Person, database: Database, case: str) -> None:
    file, fields, expected = FORMS[case]
    answer = await upload(person.key, file, **fields)
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert {name: error[name] for name in expected} == expected
    assert await job_count(database, person) == 0


@pytest.mark.parametrize("content_type", ["text/csv", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(person: Person, content_type: str) -> None:
    answer = await person.key.post(PATH, content=CSV, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_json_may_have_less_than_a_file(person: Person) -> None:
    answer = await person.key.post(PATH, json={"type": "ip", "targets": ["x" * 5_000_000]})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("scopes", [None, ("lookups",)], ids=["no credential", "another scope"])
async def test_whoever_may_not_start_a_job_is_refused_before_the_file_comes(
    api: Api, scopes: tuple[Scope, ...] | None
) -> None:
    secret = (await api.person(scopes=scopes)).secret if scopes else ""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 10000000\r\n\r\n".encode()
    )
    async with asyncio.timeout(20):
        status = await reader.readline()
    writer.close()
    assert status.split()[1] == (b"403" if scopes else b"401")


async def test_without_enough_credits_there_is_no_job(person: Person, database: Database) -> None:
    answer = await person.key.post(PATH, json={"type": "username", "targets": [f"u{n}" for n in range(11)]})
    assert (answer.status_code, answer.json()["required"], answer.json()["balance"]) == (402, 11, 10)
    assert await job_count(database, person) == 0


async def test_a_repeat_with_the_same_key_is_the_same_job(person: Person, database: Database) -> None:
    person.key.headers["Idempotency-Key"] = str(uuid4())
    first, again = [await upload(person.key, CSV, type="ip") for _ in range(2)]
    other = await upload(person.key, CSV.replace("8.8.8.8", "1.1.1.1"), type="ip")
    assert first.content == again.content and again.headers["Idempotent-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert await job_count(database, person) == 1


async def test_a_repeat_whose_first_answer_was_lost_finds_the_job(person: Person, database: Database) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    body = {"type": "domain", "targets": ["example.com"]}
    first = await person.key.post(PATH, json=body, headers=headers)
    async with database.connection() as connection:
        await connection.execute(
            "update idempotency_keys set answer = null, leased_until = now() - interval '1 s'"
            " where account_id = %s",
            (person.account.id,),
        )
    again = await person.key.post(PATH, json=body, headers=headers)
    assert (again.status_code, again.json()) == (202, first.json())
    assert "Idempotent-Replayed" not in again.headers
    assert await job_count(database, person) == 1


async def test_an_account_has_only_so_many_jobs_that_wait(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "MOST_UNFINISHED", 2)
    first, _ = [await make(person.key, ["8.8.8.8"]) for _ in range(2)]
    refused = await person.key.post(PATH, json={"type": "ip", "targets": ["8.8.8.8"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_jobs")
    assert refused.json()["limit"] == 2
    await person.key.post(f"{PATH}/{first['id']}/cancel")
    await make(person.key, ["8.8.8.8"])


async def test_jobs_are_listed_newest_first_page_by_page(person: Person) -> None:
    ids = [(await make(person.key, ["8.8.8.8"]))["id"] for _ in range(3)]
    first = (await person.key.get(PATH, params={"limit": 2})).json()
    second = (await person.key.get(PATH, params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [job["id"] for job in (*first["jobs"], *second["jobs"])] == ids[::-1]
    assert second["next_cursor"] is None


async def test_jobs_that_wait_to_be_stored_leave_others_connections(
    api: Api, person: Person, database: Database
) -> None:
    posts: list[asyncio.Task[httpx.Response]] = []
    body = {"type": "ip", "targets": ["8.8.8.8"]}
    others = [await api.person() for _ in range(10)]
    async with database.transaction() as locking:
        await locking.execute("lock table job_rows in access exclusive mode")
        for other in others:
            headers = {"Idempotency-Key": "one"}
            posts.append(asyncio.create_task(other.key.post(PATH, json=body, headers=headers)))

        async def all_are_at_work() -> bool:
            cursor = await locking.execute(
                "select count(*) as n from idempotency_keys where account_id = any(%s)",
                ([other.account.id for other in others],),
            )
            return await cursor.fetchone() == {"n": len(others)}

        await until(all_are_at_work)
        answers = [await person.key.get(PATH) for _ in range(10)]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.status_code for answer in await asyncio.gather(*posts)} == {202}


async def test_a_limit_of_their_own_counts_new_jobs(person: Person) -> None:
    answer = await person.key.post(PATH, json={"type": "ip", "targets": ["8.8.8.8"]})
    assert answer.headers["RateLimit-Policy"].startswith('"bulk"')
    assert "RateLimit-Policy" not in (await person.key.get(PATH)).headers


async def test_a_cancelled_job_gives_its_credits_back_and_stays_as_it_is(person: Person) -> None:
    job = await make(person.key, ["example.com"], type="domain")
    assert (await person.key.get("/api/credits")).json()["held"] == 1
    cancelled = (await person.key.post(f"{PATH}/{job['id']}/cancel")).json()
    assert (cancelled["status"], cancelled["credits_held"]) == ("cancelled", 0)
    assert (await person.key.get("/api/credits")).json()["held"] == 0
    assert (await person.key.post(f"{PATH}/{job['id']}/cancel")).json() == cancelled


async def test_a_deleted_job_is_unknown(person: Person) -> None:
    job = await make(person.key, ["example.com"], type="domain")
    assert (await person.key.delete(f"{PATH}/{job['id']}")).status_code == 204
    assert (await person.key.get("/api/credits")).json()["held"] == 0
    for method, path in [
        ("GET", ""),
        ("GET", "/results"),
        ("GET", "/events"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ]:
        assert (await person.key.request(method, f"{PATH}/{job['id']}{path}")).status_code == 404
    assert (await person.key.get(PATH)).json()["jobs"] == []


async def test_there_are_no_results_before_the_end(person: Person) -> None:
    job = await make(person.key, ["8.8.8.8"])
    answer = await person.key.get(f"{PATH}/{job['id']}/results")
    assert (answer.status_code, answer.json()["code"]) == (409, "job_not_finished")


@pytest.mark.parametrize(("format", "empty"), [("jsonl", ""), ("json", "[]")])
async def test_a_job_with_no_row_done_has_empty_results(person: Person, format: str, empty: str) -> None:
    job = await make(person.key, ["example.com"], type="domain")
    await person.key.post(f"{PATH}/{job['id']}/cancel")
    assert (await download(person.key, job["id"], format)).text == empty


async def test_the_results_of_a_cancelled_job_are_the_rows_that_were_done(person: Person) -> None:
    job = (await upload(person.key, CSV, type="ip")).json()
    await person.key.post(f"{PATH}/{job['id']}/cancel")
    rows = await table(person.key, job["id"])
    assert [(row["IP"], row["note"], row["error"].partition(":")[0]) for row in rows] == [
        ("nobody", "b", "invalid_ip"), ("", "c", "empty_target"),
    ]  # fmt: skip
