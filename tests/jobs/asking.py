"""Bulk jobs over HTTP: made, followed, their results read."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx

from tests.automations.engine import until

PATH = "/api/bulk-jobs"


async def upload(client: httpx.AsyncClient, table: str | bytes, **fields: str) -> httpx.Response:
    """The answer to a form with a file."""
    return await client.post(PATH, files={"file": ("table.csv", table, "text/csv")}, data=fields)


async def make(client: httpx.AsyncClient, targets: list[str], **more: Any) -> dict[str, Any]:
    """A new job of these targets, by default of addresses."""
    answer = await client.post(PATH, json={"type": "ip", "targets": targets, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """The job, once it has ended."""

    async def look() -> dict[str, Any] | None:
        job = (await client.get(f"{PATH}/{job_id}")).json()
        return job if job["completed_at"] else None

    return await until(look, 30)


async def download(client: httpx.AsyncClient, job_id: str, format: str = "csv") -> httpx.Response:
    """The answer with the results of a job."""
    answer = await client.get(f"{PATH}/{job_id}/results", params={"format": format})
    assert answer.status_code == 200, answer.text
    return answer


async def table(client: httpx.AsyncClient, job_id: str) -> list[dict[str, str]]:
    """The results of a job, as a spreadsheet reads them."""
    text = (await download(client, job_id)).text
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
