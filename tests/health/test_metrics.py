"""Who may read `/metrics`: this machine, or whoever has the token."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network
from typing import Any

import pytest
from pydantic import SecretStr

from api.routes import health
from database import Database
from settings import Settings
from tests.api_server import Api, running

# What reverse proxies and content networks add of themselves.
ADDED_BY_PROXIES = [
    "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP",
    "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "X-Original-Forwarded-For",
]  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = {
    "a public URL": {"public_url": "https://vedette.example"},
    "a public URL that only begins like this machine's": {"public_url": "http://localhost.example"},
    "trusted proxies": {"trusted_proxies": (ip_network("127.0.0.1/32"),)},
    "further hosts": {"allowed_hosts": ("vedette.example",)},
    "any host": {"allowed_hosts": ("*",)},
}
LOCAL: dict[str, dict[str, Any]] = {
    "no settings": {},
    "a public URL of this machine": {"public_url": "http://localhost:8000/"},
    "another": {"public_url": "http://127.0.0.1:8000"},
    "one of IPv6": {"public_url": "http://[::1]:8000"},
    "further names of this machine": {"allowed_hosts": ("localhost", "[::1]")},
}


@pytest.mark.parametrize("case", LOCAL)
async def test_this_machine_reads_them(settings: Settings, case: str) -> None:
    async with running(settings, **LOCAL[case]) as api:
        assert (await api.http.get("/metrics")).status_code == 200


@pytest.mark.parametrize("case", PUBLISHED)
async def test_where_others_can_come_in_they_need_the_token(settings: Settings, case: str) -> None:
    async with running(settings, **PUBLISHED[case]) as api:
        response = await api.http.get("/metrics")
        assert (response.status_code, response.json()["code"]) == (403, "loopback_only")
    async with running(settings, metrics_token=SecretStr("hush"), **PUBLISHED[case]) as api:
        assert (await api.http.get("/metrics")).status_code == 401
        response = await api.http.get("/metrics", headers={"authorization": "Bearer hush"})
        assert response.status_code == 200


@pytest.mark.parametrize("header", ADDED_BY_PROXIES)
async def test_what_came_through_a_proxy_is_not_of_this_machine(api: Api, header: str) -> None:
    response = await api.http.get("/metrics", headers={header: "127.0.0.1"})
    assert (response.status_code, response.json()["code"]) == (403, "loopback_only")


async def test_they_do_not_wait_for_a_database_that_does_not_answer(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_METRICS_SECONDS", 0.3, raising=False)
    async with database.transaction() as connection, asyncio.timeout(8):
        await connection.execute("lock table run_work in access exclusive mode")
        answer = await api.http.get("/metrics")
    assert answer.status_code == 200 and "vedette_database_reached 0.0" in answer.text
    assert "vedette_database_reached 1.0" in (await api.http.get("/metrics")).text
