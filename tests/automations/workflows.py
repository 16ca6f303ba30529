"""Workflows over HTTP, for the tests of the API."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api_server import Api, Person


async def create(person: Person, **fields: Any) -> dict[str, Any]:
    body = {"name": "test", "trigger": {"type": "webhook"}, **fields}
    response = await person.key.post("/api/workflows", json=body)
    assert response.status_code == 201, response.text
    return response.json()


async def post(api: Api, url: str, **request: Any) -> httpx.Response:
    """Post to an ingest URL; its host is that of the settings, not the test's port."""
    return await api.http.post("/api/" + url.partition("/api/")[2], **request)


def problem(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def wrong(response: httpx.Response) -> set[tuple[str, str]]:
    return {(error["pointer"], error["code"]) for error in response.json()["errors"]}
