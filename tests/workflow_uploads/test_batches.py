"""Files sent to workflows: what is accepted, what is refused, how batches are followed and cancelled."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from database import Database
from models.runs import cancellation, uploads
from settings import Rate
from tests.api_server import Api, Person, running
from tests.runs.workflows import create, problem
from tests.workflow_uploads.files import (
    DELAY,
    accepted,
    batch,
    file_workflow,
    inputs,
    upload,
    wrong,
)

SCHEMA = {"properties": {"email": {"format": "email"}}, "required": ["email"]}


async def counts(database: Database, person: Person) -> tuple[int, int, int]:
    """Return how many uploads, runs and rows of work an account has."""
    tables = ("uploads", "runs", "run_work")
    async with database.connection() as connection:
        found: list[int] = []
        for table in tables:
            cursor = await connection.execute(
                f"select count(*)::int as n from {table} where account_id = %s",  # pyright: ignore[reportArgumentType]
                (person.account.id,),
            )
            row = await cursor.fetchone()
            found.append(row["n"] if row else 0)
    return found[0], found[1], found[2]


async def end(database: Database, path: str, statuses: list[str]) -> None:
    """End the first runs of a batch, as an executor does, in these ways."""
    async with database.transaction() as connection:
        await connection.execute(
            "with ended as (select run_id, row_number() over (order by run_id) as n from run_work"
            "  where upload_id = %(id)s order by run_id limit %(count)s),"
            " gone as (delete from run_work where run_id in (select run_id from ended))"
            " update runs r set status = (%(statuses)s::text[])[e.n], completed_at = clock_timestamp()"
            " from ended e where r.id = e.run_id",
            {"id": path.rpartition("/")[2], "statuses": statuses, "count": len(statuses)},
        )


# ---- acceptance


async def test_each_row_becomes_a_run_in_the_order_of_the_file(person: Person) -> None:
    workflow = await file_workflow(person, trigger={"column_map": {"Mail": "email"}})
    answer = await upload(person, workflow, "Mail,n\na@x.com,1\nb@x.com,\n\nc@x.com,3\n")
    assert answer.status_code == 202
    shown = answer.json()
    assert shown == {"batch_id": shown["batch_id"], "runs_total": 3, "status": "queued"}
    assert answer.headers["Location"] == f"/api/workflows/batches/{shown['batch_id']}"
    assert await inputs(person, workflow) == [
        {"email": "a@x.com", "n": "1"}, {"email": "b@x.com"}, {"email": "c@x.com", "n": "3"},
    ]  # fmt: skip


async def test_a_whole_file_becomes_one_run(person: Person) -> None:
    workflow = await file_workflow(person, trigger={"mode": "whole_file"})
    answer = await upload(person, workflow, "a\n1\n2\n")
    assert answer.json()["runs_total"] == 1
    [given] = await inputs(person, workflow)
    assert given == {"filename": "table.csv", "columns": ["a"], "rows": [{"a": "1"}, {"a": "2"}]}


async def test_a_run_says_that_a_file_has_started_it(person: Person) -> None:
    workflow = await file_workflow(person)
    await accepted(person, workflow, "a\n1\n")
    [run] = (await person.key.get("/api/workflows/runs", params={"workflow_id": workflow})).json()["runs"]
    assert (run["trigger"], run["status"]) == ("file_upload", "queued")


async def test_a_file_of_several_statements_is_accepted_as_one(person: Person, database: Database) -> None:
    workflow = await file_workflow(person, input_schema=SCHEMA)
    rows = "".join(f"p{n}@example.com,{n},{'x' * 1_000}\n" for n in range(1_600))
    answer = await upload(person, workflow, "email,n,note\n" + rows)
    assert answer.json()["runs_total"] == 1_600
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select input->>'n' as n from runs where automation_id = %s order by id", (workflow,)
        )
        assert [row["n"] for row in await cursor.fetchall()] == [str(n) for n in range(1_600)]
        cursor = await connection.execute(
            "select count(distinct queued_at)::int as n from runs where automation_id = %s", (workflow,)
        )
        assert await cursor.fetchone() == {"n": 1}, "they were inserted in one transaction"


async def test_one_wrong_row_refuses_the_file_and_nothing_is_accepted(
    person: Person, database: Database
) -> None:
    workflow = await file_workflow(person, input_schema=SCHEMA)
    answer = await upload(person, workflow, "Email\n" + "a@x.com\n" * 1_000 + "nobody\n")
    assert wrong(answer)[0] == ("/rows/2/email", "required", 2, None)
    answer = await upload(person, workflow, "email\n" + "a@x.com\n" * 1_000 + "nobody\n")
    assert wrong(answer) == [("/rows/1002/email", "invalid_format", 1_002, "email")]
    assert await counts(database, person) == (0, 0, 0)


async def test_a_failure_within_the_transaction_leaves_nothing(
    person: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = await file_workflow(person)
    async with database.connection() as connection:
        await connection.execute(
            "alter table uploads add constraint planted check (runs_total <> 777) not valid"
        )
    assert (await upload(person, workflow, "a\n" + "1\n" * 777)).status_code == 500
    assert await counts(database, person) == (0, 0, 0)
    async with database.connection() as connection:
        await connection.execute("alter table uploads drop constraint planted")


async def test_the_same_key_gives_the_same_batch(person: Person, database: Database) -> None:
    workflow, key = await file_workflow(person), str(uuid4())
    first = await upload(person, workflow, "a\n1\n2\n", idempotency_key=key)
    again = await upload(person, workflow, "a\n1\n2\n", idempotency_key=key)
    assert (again.status_code, again.json()) == (202, first.json())
    assert (again.headers["Idempotent-Replayed"], again.headers["Location"]) == (
        "true", first.headers["Location"],
    )  # fmt: skip
    other = await upload(person, workflow, "a\n1\n3\n", idempotency_key=key)
    assert problem(other) == (422, "idempotency_key_reused")
    assert await counts(database, person) == (1, 2, 2)


async def test_a_repeat_whose_first_answer_was_lost_finds_its_batch(
    person: Person, database: Database
) -> None:
    workflow, key = await file_workflow(person), str(uuid4())
    first = await upload(person, workflow, "a\n1\n2\n", idempotency_key=key)
    async with database.connection() as connection:
        await connection.execute(
            "update idempotency_keys set answer = null, leased_until = now() - interval '1 s'"
            " where account_id = %s and key = %s",
            (person.account.id, key),
        )
    again = await upload(person, workflow, "a\n1\n2\n", idempotency_key=key)
    assert (again.status_code, again.json()) == (202, first.json())
    assert await counts(database, person) == (1, 2, 2)


# ---- refusals


async def test_a_workflow_with_another_trigger_takes_no_files(person: Person) -> None:
    answer = await upload(person, await create(person), "a\n1\n")
    assert problem(answer) == (409, "no_file_upload_trigger")


async def test_a_workflow_that_is_not_active_takes_no_files(person: Person) -> None:
    workflow = await file_workflow(person, status="paused")
    assert problem(await upload(person, workflow, "a\n1\n")) == (409, "workflow_not_active")


async def test_a_workflow_that_is_paused_while_its_file_is_read_takes_none_of_it(
    person: Person, database: Database, api: Api
) -> None:
    workflow = await file_workflow(person)
    async with api.services.inserting():
        sending = asyncio.create_task(upload(person, workflow, "a\n1\n"))
        await person.key.get(f"/api/workflows/{workflow}")
        await person.key.patch(f"/api/workflows/{workflow}", json={"status": "paused"})
    assert problem(await sending) == (409, "workflow_not_active")
    assert await counts(database, person) == (0, 0, 0)


async def test_only_a_form_with_nothing_but_a_file_is_taken(person: Person) -> None:
    path = f"/api/workflows/{await file_workflow(person)}/upload"
    assert problem(await person.key.post(path, json={"a": 1})) == (415, "unsupported_media_type")
    assert problem(await person.key.post(path)) == (415, "unsupported_media_type")
    answer = await person.key.post(path, files={"file": ("a.csv", "a\n1\n")}, data={"mode": "per_row"})
    assert wrong(answer) == [("/mode", "unknown_field", None, None)]
    assert answer.json()["errors"][0]["message"] == "There is no such field here. Fields are: file."
    assert wrong(await person.key.post(path, files={"other": ("a.csv", "a\n1\n")}))[0][1] == "unknown_field"


async def test_what_is_no_csv_file_is_refused(person: Person) -> None:
    answer = await upload(person, await file_workflow(person), b"PK\x03\x04\0\0\0\0")
    assert wrong(answer) == [("", "not_csv", 1, None)]


async def test_uploads_count_as_bulk_requests(database: Database, api: Api) -> None:
    async with running(api.services.settings, limit_bulk=Rate(1, 60)) as strict:
        person = await strict.person()
        workflow = await file_workflow(person)
        await accepted(person, workflow, "a\n1\n")
        assert problem(await upload(person, workflow, "a\n1\n")) == (429, "rate_limited")


# ---- progress


async def test_a_batch_tells_how_far_its_runs_are_and_when_the_last_ended(
    person: Person, database: Database
) -> None:
    workflow = await file_workflow(person)
    path = await accepted(person, workflow, "a\n" + "1\n" * 5)
    shown = await batch(person, path)
    assert shown == {
        "id": path.rpartition("/")[2], "workflow_id": workflow, "status": "queued", "runs_total": 5,
        "runs_completed": 0, "runs_failed": 0, "runs_cancelled": 0, "created_at": shown["created_at"],
        "completed_at": None,
    }  # fmt: skip
    await end(database, path, ["completed", "failed"])
    expected = {"status": "running", "runs_completed": 1, "runs_failed": 1, "completed_at": None}
    shown = await batch(person, path)
    assert {name: shown[name] for name in expected} == expected
    await end(database, path, ["completed", "completed", "cancelled"])
    shown = await batch(person, path)
    expected = {"status": "completed", "runs_completed": 3, "runs_failed": 1, "runs_cancelled": 1}
    assert {name: shown[name] for name in expected} == expected
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select completed_at from uploads where id = %s and completed_at ="
            " (select max(completed_at) from runs where automation_id = %s)",
            (shown["id"], workflow),
        )
        assert await cursor.fetchone(), "the time of the last run is kept"
    assert await batch(person, path) == shown


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (["failed", "failed"], "failed"), (["failed", "cancelled"], "failed"),
        (["cancelled", "cancelled"], "cancelled"), (["completed", "failed"], "completed"),
        (["completed", "cancelled"], "completed"),
    ],
    ids=" and ".join,
)  # fmt: skip
async def test_a_batch_has_failed_only_if_no_run_completed(
    person: Person, database: Database, ends: list[str], expected: str
) -> None:
    path = await accepted(person, await file_workflow(person), "a\n1\n2\n")
    await end(database, path, ends)
    assert (await batch(person, path))["status"] == expected


async def test_a_batch_with_a_run_at_work_is_running(person: Person, database: Database) -> None:
    path = await accepted(person, await file_workflow(person, [DELAY]), "a\n1\n2\n")
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set begun = true where run_id ="
            " (select run_id from run_work where upload_id = %s limit 1)",
            (path.rpartition("/")[2],),
        )
    assert (await batch(person, path))["status"] == "running"


async def test_rows_for_which_a_workflow_has_no_room_count_as_cancelled(person: Person) -> None:
    concurrency = {"limit": 2, "on_limit": "skip"}
    path = await accepted(person, await file_workflow(person, concurrency=concurrency), "a\n" + "1\n" * 5)
    shown = await batch(person, path)
    assert (shown["status"], shown["runs_total"], shown["runs_cancelled"]) == ("running", 5, 3)
    again = await accepted(person, shown["workflow_id"], "a\n1\n")
    assert (await batch(person, again))["status"] == "cancelled"


async def test_runs_beside_a_batch_do_not_count(person: Person, database: Database) -> None:
    workflow = await file_workflow(person)
    first = await accepted(person, workflow, "a\n1\n")
    async with database.transaction() as connection:
        # As if they had come from two processes at the same time.
        await connection.execute(
            "update uploads set first_run_id = %s, last_run_id = %s where id = %s",
            (UUID(int=0), UUID(int=2**128 - 1), first.rpartition("/")[2]),
        )
    second = await accepted(person, workflow, "a\n1\n2\n")
    await person.key.post(f"/api/workflows/{workflow}/run", json={"input": {}})
    await end(database, second, ["failed", "failed"])
    assert (await batch(person, first))["runs_failed"] == 0
    await end(database, first, ["completed"])
    shown = await batch(person, first)
    assert (shown["status"], shown["runs_completed"], shown["runs_failed"]) == ("completed", 1, 0)


async def test_a_batch_outlives_its_workflow(person: Person) -> None:
    workflow = await file_workflow(person)
    path = await accepted(person, workflow, "a\n1\n")
    await person.key.delete(f"/api/workflows/{workflow}?cancel_runs=true")
    assert (await batch(person, path))["status"] == "cancelled"


async def test_the_runs_of_a_batch_are_listed_by_their_status(person: Person, database: Database) -> None:
    workflow = await file_workflow(person)
    path, _ = [await accepted(person, workflow, "a\n" + "1\n" * 5) for _ in range(2)]
    await end(database, path, ["completed", "failed", "failed"])
    query = {"batch_id": path.rpartition("/")[2], "limit": 2}

    async def listed(**more: str) -> tuple[list[str], int]:
        page = (await person.key.get("/api/workflows/runs", params={**query, **more})).json()
        return [run["status"] for run in page["runs"]], page["total"]

    assert await listed() == (["queued", "queued"], 5)
    assert await listed(page="2", workflow_id=workflow) == (["failed", "failed"], 5)
    assert await listed(status="failed") == (["failed", "failed"], 2)
    assert await listed(status="queued", page="2") == ([], 2)
    assert await listed(workflow_id=str(uuid4())) == ([], 0)
    assert await listed(batch_id=str(uuid4())) == ([], 0)


# ---- retention


async def test_what_nobody_looked_at_is_counted_before_its_runs_go(
    person: Person, database: Database
) -> None:
    path = await accepted(person, await file_workflow(person), "a\n1\n2\n3\n")
    going_on = await accepted(person, await file_workflow(person), "a\n1\n")
    await end(database, path, ["completed", "failed", "completed"])
    async with database.connection() as connection:
        await uploads.expire(connection, timedelta(days=1))
        await connection.execute("delete from runs where upload_id = %s", (path.rpartition("/")[2],))
    shown = await batch(person, path)
    assert (shown["status"], shown["runs_completed"], shown["runs_failed"]) == ("completed", 2, 1)
    assert (await batch(person, going_on))["status"] == "queued"


async def test_a_batch_goes_when_its_runs_are_kept_no_longer(person: Person, database: Database) -> None:
    old, young = [await accepted(person, await file_workflow(person), "a\n1\n") for _ in range(2)]
    for path in (old, young):
        await end(database, path, ["completed"])
        await batch(person, path)
    async with database.connection() as connection:
        await connection.execute(
            "update uploads set completed_at = now() - interval '25 h' where id = %s",
            (old.rpartition("/")[2],),
        )
        await uploads.expire(connection, timedelta(days=1))
    assert problem(await person.key.get(old)) == (404, "not_found")
    assert (await batch(person, young))["status"] == "completed"


# ---- cancelling


async def test_a_cancel_ends_what_has_not_ended_and_only_that(person: Person, database: Database) -> None:
    workflow = await file_workflow(person, [DELAY])
    path, other = [await accepted(person, workflow, "a\n" + "1\n" * 4) for _ in range(2)]
    await end(database, path, ["completed"])
    answer = await person.key.post(f"{path}/cancel")
    shown = answer.json()
    assert answer.status_code == 200
    assert (shown["status"], shown["runs_completed"], shown["runs_cancelled"]) == ("cancelled", 1, 3)
    assert shown["completed_at"]
    assert (await person.key.post(f"{path}/cancel")).json() == shown == await batch(person, path)
    assert (await batch(person, other))["status"] == "queued"


async def test_a_cancel_ends_however_many_there_are(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_AT_ONCE", 3)
    path = await accepted(person, await file_workflow(person), "a\n" + "1\n" * 10)
    assert (await person.key.post(f"{path}/cancel")).json()["runs_cancelled"] == 10


async def test_a_cancel_that_was_broken_off_goes_on(person: Person, database: Database) -> None:
    path = await accepted(person, await file_workflow(person), "a\n" + "1\n" * 3)
    await end(database, path, ["cancelled"])
    async with database.connection() as connection:
        await connection.execute(
            "update uploads set cancelled_at = now() where id = %s", (path.rpartition("/")[2],)
        )
    assert (await batch(person, path))["status"] == "running"
    shown = (await person.key.post(f"{path}/cancel")).json()
    assert (shown["status"], shown["runs_cancelled"]) == ("cancelled", 3)


async def test_a_cancel_after_the_end_changes_nothing(person: Person, database: Database) -> None:
    path = await accepted(person, await file_workflow(person), "a\n1\n")
    await end(database, path, ["failed"])
    assert (await person.key.post(f"{path}/cancel")).json()["status"] == "failed"


async def test_the_audit_log_says_who_sent_a_file_and_who_cancelled_it(
    person: Person, database: Database
) -> None:
    workflow = await file_workflow(person)
    path = await accepted(person, workflow, "a\n1\n2\n")
    for _ in range(2):
        await person.key.post(f"{path}/cancel")
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select action, actor_kind, target_name, changes from audit_log"
            " where target_id = %s and action like 'batch.%%' order by id",
            (workflow,),
        )
        rows = await cursor.fetchall()
    id = path.rpartition("/")[2]
    assert [tuple(row.values()) for row in rows] == [
        ("batch.created", "key", "test", {"batch_id": id, "runs_total": 2}),
        ("batch.cancelled", "key", "test", {"batch_id": id}),
    ]


async def test_another_accounts_batch_is_unknown(person: Person, api: Api, database: Database) -> None:
    path, stranger = await accepted(person, await file_workflow(person), "a\n1\n"), await api.person()
    assert problem(await stranger.key.get(path)) == (404, "not_found")
    assert problem(await stranger.key.post(f"{path}/cancel")) == (404, "not_found")
    async with database.connection() as connection:
        with pytest.raises(uploads.NotFound):
            await uploads.get(connection, stranger.account.id, UUID(path.rpartition("/")[2]))
