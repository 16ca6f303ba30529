"""Bulk jobs from the file that is sent to the file that is had, and what is told meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest

from api.routes import jobs
from api.streams import job_events
from database import Connection, Database
from models.jobs import cleanup, results
from models.jobs.results import Result
from notifications import Notifier
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.engine import until
from tests.event_streams import streaming
from tests.jobs.asking import PATH, download, ended, make, table, upload
from tests.monitors.watching import Scanner, addresses


@pytest.fixture(scope="module")
async def api(watching_settings: Settings, notifier: Notifier) -> AsyncGenerator[Api]:
    async with running(watching_settings) as served:
        yield served


CREDITS = 10


async def test_the_results_are_the_given_columns_with_what_was_found(
    person: Person, scanner: Scanner
) -> None:
    first, second = addresses(2)
    text = f'note;IP;\n"=1+1";{first};x\n"two\nlines";;\nb;nobody;\nc;{second};\nd;{first};\n'
    job = (await upload(person.key, text, type="ip", fields="threat.abuse_score")).json()
    done = await ended(person.key, job["id"])
    assert (done["status"], done["succeeded_rows"], done["failed_rows"]) == ("completed", 3, 2)
    answer = await download(person.key, job["id"])
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="bulk-job-{job["id"]}.csv"'
    rows = await table(person.key, job["id"])
    columns = ["note", "IP", "column_3", "error", "partial", "threat.abuse_score"]
    assert list(rows[0]) == columns
    assert [list(row.values())[:3] for row in rows] == [
        ["'=1+1", first, "x"], ["two\nlines", "", ""], ["b", "nobody", ""], ["c", second, ""],
        ["d", first, ""],
    ]  # fmt: skip
    errors = [row["error"].partition(":")[0] for row in rows]
    assert errors == ["", "empty_target", "invalid_ip", "", ""]
    assert [row["threat.abuse_score"] for row in rows] == ["3", "", "", "3", "3"]


async def test_results_can_be_had_as_lines_or_an_array_of_json(person: Person, scanner: Scanner) -> None:
    targets = addresses(250)
    job = await make(person.key, [*targets, "nobody"], fields=["threat"])
    await ended(person.key, job["id"])
    lines, array = [await download(person.key, job["id"], format) for format in ("jsonl", "json")]
    assert lines.headers["content-type"] == "application/jsonl"
    found: list[dict[str, Any]] = [orjson.loads(line) for line in lines.text.splitlines()]
    assert array.json() == found
    assert [row["target"] for row in found] == [*targets, "nobody"]
    assert {row["threat.abuse_score"] for row in found[:-1]} == {3}
    assert (found[0]["error"], found[-1]["threat.abuse_score"]) == (None, None)
    assert found[-1]["error"]["code"] == "invalid_ip"
    for limit, offset in ((1, 0), (150, 0), (150, 150), (100, 250), (1, 10_000)):
        path = f"/api/bulk-jobs/{job['id']}/results?format=json&limit={limit}&offset={offset}"
        assert (await person.key.get(path)).json() == found[offset : offset + limit]


@pytest.mark.parametrize("format", ["csv", "jsonl", "json"])
async def test_results_are_cut_where_the_job_is_deleted_meanwhile(
    person: Person, database: Database, scanner: Scanner, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    job = await make(person.key, addresses(3), fields=["threat"])
    await ended(person.key, job["id"])
    monkeypatch.setattr(jobs, "_AT_ONCE", 1)
    read_after = results.read_after

    async def deleted_at_the_second(connection: Connection, job_id: UUID, **place: Any) -> list[Result]:
        if place["after"] == 0:
            await person.key.delete(f"{PATH}/{job_id}")
            async with database.connection() as other:
                await cleanup.purge(other, job_id)
        return await read_after(connection, job_id, **place)

    monkeypatch.setattr(results, "read_after", deleted_at_the_second)
    with pytest.raises(httpx.RemoteProtocolError):
        await download(person.key, job["id"], format)


async def test_the_events_tell_how_far_a_job_is_until_its_end(person: Person, scanner: Scanner) -> None:
    targets = addresses(2)
    scanner.held = {targets[1]}
    job = await make(person.key, targets)
    async with streaming(person.key, f"{PATH}/{job['id']}/events") as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        event = await stream.next()
        assert event is not None and (event.name, event.data["id"]) == ("progress", job["id"])
        while event.data["processed_rows"] < 1:
            event = await stream.next()
            assert event is not None and event.name == "progress"
        scanner.go.set()
        *_, last = await stream.all()
    assert (last.name, last.id, last.data["status"]) == ("end", "end", "completed")
    assert last.data == (await person.key.get(f"{PATH}/{job['id']}")).json()


async def test_a_client_that_comes_back_is_told_only_what_is_new(person: Person, scanner: Scanner) -> None:
    [held] = addresses(1)
    scanner.held = {held}
    job = await make(person.key, [held])
    path = f"{PATH}/{job['id']}/events"

    async def is_running() -> bool:
        return (await person.key.get(f"{PATH}/{job['id']}")).json()["status"] == "running"

    await until(is_running)
    async with streaming(person.key, path) as stream:
        seen = await stream.next()
        assert seen is not None and seen.data["status"] == "running"
    async with streaming(person.key, path, last_event_id=seen.id) as stream:
        scanner.go.set()
        events = await stream.all()
    assert [event.name for event in events][-1] == "end" and seen.id not in [event.id for event in events]
    answer = await person.key.get(path, headers={"Last-Event-ID": "end"})
    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_job_that_is_deleted_ends_its_events(
    person: Person, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_events, "_LOOK_SECONDS", 600)
    [held] = addresses(1)
    scanner.held = {held}
    job = await make(person.key, [held])
    async with streaming(person.key, f"{PATH}/{job['id']}/events") as stream:
        assert await stream.next() is not None
        await person.key.delete(f"{PATH}/{job['id']}")
        assert "end" not in [event.name for event in await stream.all()]
    scanner.go.set()
