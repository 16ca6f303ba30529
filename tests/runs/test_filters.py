"""Lists of runs by when they were accepted, how they began, why they failed, and who started them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.identifiers import new_id
from models.runs import run_queries
from tests.api_server import Api, Person
from tests.automations.workflows import create

TRANSFORM = {"id": "shape", "type": "transform", "config": {"expression": "trigger"}}


@pytest.fixture(scope="module")
async def owner(api: Api) -> Person:
    return await api.person()


async def insert(database: Database, owner: Person, workflow: str, count: int, **columns: Any) -> list[UUID]:
    """Store ended runs, the oldest first."""
    ids = [new_id() for _ in range(count)]
    row = {"status": "failed", "trigger": "manual", "error": None, "parent_run_id": None} | columns
    async with database.connection() as connection:
        await connection.execute(
            "insert into runs (id, account_id, automation_id, version, status, trigger, error, parent_run_id,"
            " input_bytes, queued_at, started_at, completed_at)"
            " select id, %(account)s, %(workflow)s, 1, %(status)s, %(trigger)s, %(error)s::json,"
            " %(parent_run_id)s, 2, now(), now(), now() from unnest(%(ids)s::uuid[]) id",
            {**row, "ids": ids, "account": owner.account.id, "workflow": workflow},
        )
    return ids


async def listed(owner: Person, **query: Any) -> list[str]:
    answer = await owner.session.get("/api/workflows/runs", params={"limit": 100, **query})
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.json()["runs"]]


async def test_each_filter_finds_its_runs_alone_and_they_combine(
    api: Api, owner: Person, database: Database
) -> None:
    workflow = (await create(owner, steps=[TRANSFORM]))["id"]
    refused = '{"code": "http_status", "message": "The endpoint answered 404.", "step": "tell"}'
    other = '{"code": "timeout", "message": "It took too long.", "step": "ask"}'
    first = await insert(database, owner, workflow, 2, error=refused)
    second = await insert(database, owner, workflow, 2, error=other, trigger="schedule")
    children = await insert(database, owner, workflow, 2, parent_run_id=first[0], status="completed")

    def of(*ids: UUID) -> list[str]:
        return [str(id) for id in reversed(ids)]

    assert await listed(owner, error_code="http_status") == of(*first)
    assert await listed(owner, step="ask") == of(*second)
    assert await listed(owner, trigger="schedule") == of(*second)
    assert await listed(owner, parent_run_id=str(first[0])) == of(*children)
    assert await listed(owner, error_code="http_status", step="ask") == []
    assert await listed(owner, status="failed", workflow_id=workflow, step="tell") == of(*first)
    assert await listed(owner, status="completed", error_code="timeout") == []
    assert await listed(owner, status="waiting", error_code="timeout") == []
    stranger = await api.person()
    assert await listed(stranger, parent_run_id=str(first[0])) == []


async def test_since_and_until_are_the_time_of_acceptance(owner: Person, database: Database) -> None:
    workflow = (await create(owner, steps=[TRANSFORM]))["id"]
    runs = await insert(database, owner, workflow, 3)
    async with database.connection() as connection:
        old = UUID(int=runs[0].int - (3_600_000 << 80))
        await connection.execute("update runs set id = %s where id = %s", (old, runs[0]))
    of = {"workflow_id": workflow}
    ids = await listed(owner, **of)
    assert ids[-1] == str(old)
    assert await listed(owner, **of, since="2000-01-01T00:00:00Z", until="2000-01-02T00:00:00+01:00") == []
    assert await listed(owner, **of, since="2000-01-01T00:00:00Z") == ids
    assert await listed(owner, **of, until="9999-01-01T00:00:00Z") == ids
    assert await listed(owner, **of, since="0001-01-01T00:00:00Z") == ids


async def test_pages_by_cursor_have_each_run_once_though_others_come_meanwhile(
    owner: Person, database: Database
) -> None:
    workflow = (await create(owner, steps=[TRANSFORM]))["id"]
    code = {"error": '{"code": "boom"}'}
    runs = await insert(database, owner, workflow, 7, **code)
    for filters in ({"workflow_id": workflow}, {"workflow_id": workflow, "error_code": "boom"}):
        found: list[str] = []
        query: dict[str, Any] = {**filters, "limit": 3}
        for _ in range(10):
            page = (await owner.session.get("/api/workflows/runs", params=query)).json()
            found += [run["id"] for run in page["runs"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
            await insert(database, owner, workflow, 1, **code)
        kept = [id for id in found if id in {str(run) for run in runs}]
        assert kept == [str(id) for id in reversed(runs)]
        assert len(found) == len(set(found))


async def test_a_page_looks_at_a_bounded_number_of_runs_and_goes_on_behind_them(
    owner: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queries, "SCANNED", 4)
    monkeypatch.setattr("models.runs.run_lists.SCANNED", 4)
    workflow = (await create(owner, steps=[TRANSFORM]))["id"]
    (rare,) = await insert(database, owner, workflow, 1, error='{"code": "rare"}')
    await insert(database, owner, workflow, 9)
    query: dict[str, Any] = {"workflow_id": workflow, "error_code": "rare"}
    pages: list[list[str]] = []
    while True:
        page = (await owner.session.get("/api/workflows/runs", params=query)).json()
        assert page["total"] is None
        pages.append([run["id"] for run in page["runs"]])
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert pages == [[], [], [str(rare)]]


@pytest.mark.parametrize(
    ("query", "code", "parameter"),
    [
        ({"since": "yesterday"}, "invalid_format", "since"),
        ({"until": "1700000000"}, "invalid_format", "until"),
        ({"since": "2026-01-01T00:00:00"}, "timezone_missing", "since"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "out_of_range", "until"),
        ({"trigger": "carrier pigeon"}, "not_allowed", "trigger"),
        ({"cursor": "x"}, "invalid_cursor", "cursor"),
        ({"error_code": "timeout", "page": 2}, "not_allowed", "page"),
        ({"errorcode": "timeout"}, "unknown_parameter", "errorcode"),
    ],
)
async def test_a_filter_that_means_nothing_is_named(
    owner: Person, query: dict[str, Any], code: str, parameter: str
) -> None:
    answer = await owner.session.get("/api/workflows/runs", params=query)
    assert answer.status_code == 400
    found = [(one["code"], one["parameter"]) for one in answer.json()["errors"]]
    assert (code, parameter) in found or answer.json()["code"] == code, answer.text


async def test_no_filter_reads_all_runs(owner: Person, database: Database) -> None:
    """With indexes alone: a list is as quick with a million runs."""
    query = run_queries.RunQuery(error_code="boom", status="failed")
    async with database.transaction() as connection:
        await connection.execute("set local enable_seqscan = off")
        statement = run_queries.select_runs(query)
        wanted = run_queries.parameters_of(query, owner.account.id)
        cursor = await connection.execute("explain " + statement, wanted)
        plan = "\n".join(row["QUERY PLAN"] for row in await cursor.fetchall())
    assert "Seq Scan" not in plan, plan
