"""Workflows that take files, files sent to them, and what becomes of their batches."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api_server import Person
from tests.automations.engine import until
from tests.runs.workflows import create

DELAY: dict[str, Any] = {"id": "wait", "type": "delay", "config": {"days": 1}}


async def file_workflow(person: Person, steps: Any = None, *, trigger: Any = None, **more: Any) -> str:
    """A workflow that takes files; its id."""
    return await create(person, steps, trigger={"type": "file_upload", **(trigger or {})}, **more)


async def upload(person: Person, workflow: str, table: str | bytes, **headers: str) -> httpx.Response:
    """The answer to a file."""
    path, named = f"/api/workflows/{workflow}/upload", {n.replace("_", "-"): v for n, v in headers.items()}
    return await person.key.post(path, files={"file": ("table.csv", table, "text/csv")}, headers=named)


async def accepted(person: Person, workflow: str, table: str | bytes) -> str:
    """The path of the batch that a file became."""
    answer = await upload(person, workflow, table)
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


async def batch(person: Person, path: str) -> dict[str, Any]:
    """A batch as it stands."""
    answer = await person.key.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ended(person: Person, path: str) -> dict[str, Any]:
    """A batch, once it has ended."""

    async def look() -> dict[str, Any] | None:
        shown = await batch(person, path)
        return shown if shown["completed_at"] else None

    return await until(look)


async def inputs(person: Person, workflow: str) -> list[Any]:
    """Return what the runs of a workflow were started with, in the order in which they were accepted."""
    query = {"workflow_id": workflow, "limit": 100}
    page = (await person.key.get("/api/workflows/runs", params=query)).json()
    runs = [(await person.key.get(f"/api/workflows/runs/{run['id']}")).json() for run in page["runs"]]
    return [run["input"] for run in reversed(runs)]


def wrong(answer: httpx.Response) -> list[tuple[str, str, int | None, str | None]]:
    """Of a refusal, its places: pointer, code, row and column."""
    assert answer.status_code == 400, answer.text
    return [(e["pointer"], e["code"], e.get("row"), e.get("column")) for e in answer.json()["errors"]]
