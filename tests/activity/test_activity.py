"""GET /api/activity: what happened lately, of all kinds, in one shape."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from database import Database
from models.activity import activity
from tests.api_server import Api, Person
from tests.runs.workflows import create, start

WAIT = """
update run_work set status = 'waiting',
  progress = '{"version": 2, "steps": {"ask": {"began": "2026-01-01T00:00:00Z"}}}' where run_id = %s
"""
FAIL = """
with gone as (delete from run_work where run_id = %(id)s)
update runs set status = 'failed', completed_at = now(), error = '{"code": "step_failed", "message": "."}'
where id = %(id)s
"""


async def read(person: Person, **query: Any) -> dict[str, Any]:
    response = await person.key.get("/api/activity", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def fill(person: Person, database: Database) -> dict[str, str]:
    """One of everything that is shown; by kind, the id."""
    workflow = await create(person, [{"id": "ask", "type": "wait", "config": {}}], name="shop")
    failed, waiting = await start(person, workflow), await start(person, workflow)
    body = {"name": "watch", "frequency": "daily", "monitor_type": "ip", "targets": ["192.0.2.1"]}
    monitor = (await person.key.post("/api/monitors", json=body)).json()["id"]
    run = (await person.key.post(f"/api/monitors/{monitor}/run")).json()["run_id"]
    job = (await person.key.post("/api/bulk-jobs", json={"type": "ip", "targets": ["192.0.2.1"]})).json()[
        "id"
    ]
    hook = await person.key.post("/api/webhooks", json={"url": "https://example.com/x", "events": ["*"]})
    async with database.connection() as connection:
        await connection.execute(FAIL, {"id": failed})
        await connection.execute(WAIT, (waiting,))
        await connection.execute(
            "update monitor_runs set status = 'completed', completed_at = now(), changes_detected = 2"
            " where id = %s",
            (run,),
        )
        await connection.execute(
            "update jobs set status = 'completed', completed_at = now() where id = %s", (job,)
        )
        await connection.execute(
            "update endpoints set is_active = false, disabled_reason = 'gone' where id = %s",
            (hook.json()["id"],),
        )
        await connection.execute(
            "insert into monitor_sources (monitor_id, source, emitted_at) values (%s, 'dbip', now())",
            (monitor,),
        )
    return {
        "run_failed": failed, "monitor_run": run, "approval": waiting, "job": job, "source_silent": monitor,
        "webhook_disabled": hook.json()["id"], "workflow_change": workflow,
    }  # fmt: skip


async def test_everything_that_happened_is_shown_in_one_shape(api: Api, database: Database) -> None:
    person, other = await api.person(credits=10), await api.person()
    wanted = await fill(person, database)
    page = await read(person, limit=100)
    assert page["next_cursor"] is None
    entries = {entry["kind"]: entry for entry in page["entries"]}
    assert {kind: entry["id"] for kind, entry in entries.items()} == wanted
    told = {kind: (entry["title"], entry["outcome"]) for kind, entry in entries.items()}
    assert told == {
        "run_failed": ("shop", "step_failed"),
        "monitor_run": ("watch", "changes"),
        "approval": ("shop", "waiting"),
        "job": ("ip", "completed"),
        "source_silent": ("watch", "dbip"),
        "webhook_disabled": ("https://example.com/x", "gone"),
        "workflow_change": ("shop", "workflow.created"),
    }
    for entry in page["entries"]:
        assert (await person.key.get(entry["link"])).status_code == 200, entry
        assert entry["kind"] == "webhook_disabled" or (await other.key.get(entry["link"])).status_code == 404
    assert (await read(other))["entries"] == []


async def test_pages_follow_each_other_without_gaps(api: Api, database: Database) -> None:
    person = await api.person(credits=10)
    await fill(person, database)
    for _ in range(3):
        await create(person)
    whole = (await read(person, limit=100))["entries"]
    assert len(whole) == 10
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await read(person, limit=3, **({"cursor": cursor} if cursor else {}))
        found += page["entries"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == whole
    assert (await person.key.get("/api/activity?cursor=other")).status_code == 400


async def test_a_key_needs_the_scope(api: Api) -> None:
    person = await api.person(scopes=["lookups"])
    assert (await person.key.get("/api/activity")).status_code == 403


async def test_a_page_reads_few_rows_of_a_long_history(api: Api, database: Database) -> None:
    account_id = (person := await api.person()).account.id
    workflow = await create(person)
    async with database.connection() as connection:
        await connection.execute(
            "insert into runs (id, account_id, automation_id, version, status, trigger, input, input_bytes,"
            " queued_at, completed_at) select uuidv7(), %s, %s, 1, case when n %% 10 = 0 then 'failed'"
            " else 'completed' end, 'manual', '1', 1, now(), now() from generate_series(1, 20000) n",
            (account_id, workflow),
        )
        await connection.execute("analyze runs")
        cursor = await connection.execute(
            "explain (analyze, buffers, format json) " + activity._LIST,  # pyright: ignore[reportPrivateUsage]
            {"account_id": account_id, "before": UUID(int=2**128 - 1), "most": 21, "newest": 100},
        )
        row = await cursor.fetchone()
    assert row is not None
    plan = row["QUERY PLAN"][0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 1000
