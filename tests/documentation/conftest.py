"""A service as a reader of the pages has it, whose sources are on loopback, and readers with accounts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from embedded.temporal import Temporal
from settings import ProviderSettings
from tests.automations.sources import providers as automation_providers
from tests.company.fixture_servers import serving
from tests.datasets import write_small_datasets
from tests.documentation.reader import Account, Reader
from tests.stacks import StackProcess, free_port

SCOPES = ["lookups", "monitors", "lists", "workflows", "webhooks", "bulk", "credits", "keys"]
PASSWORD = "correct horse battery staple"

providers = automation_providers


def _as_names(providers: dict[str, ProviderSettings]) -> dict[str, str]:
    """Settings of sources as names of the environment."""
    names: dict[str, str] = {}
    for name, one in providers.items():
        if one.enabled is False:
            names[f"VEDETTE_PROVIDER_{name.upper()}_ENABLED"] = "false"
        elif one.base_url:
            names[f"VEDETTE_PROVIDER_{name.upper()}_BASE_URL"] = one.base_url
    return names


@pytest.fixture(scope="module")
async def service(
    scratch: Path, temporal_server: Temporal, providers: dict[str, ProviderSettings]
) -> AsyncGenerator[StackProcess]:
    """A whole `vedette up`, set as the README says; no limit stands in the way of many pages in a minute."""
    data = scratch / "documented"
    write_small_datasets(data)
    async with AsyncExitStack() as stack:
        domains = await stack.enter_async_context(serving("domain"))
        for exchange in domains.say("rdapdomain", "ok"):
            exchange.setdefault("query", {})
        sources = providers | {"rdapdomain": domains.providers["rdapdomain"]}
        limits = {f"VEDETTE_LIMIT_{name}": "off" for name in ("LOGIN", "BULK", "IP", "LOOKUPS", "BREACHES")}
        running = StackProcess(
            data, VEDETTE_LOCAL_ONLY="", VEDETTE_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32",
            VEDETTE_SIGNUP_CREDITS="100000", **limits, **_as_names(sources),
        )  # fmt: skip
        stack.push_async_callback(running.stop)
        yield await running.ready()


async def _registered(url: str) -> Account:
    """A new account, as well off as the first one."""
    email = f"{uuid4().hex[:8]}@example.com"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=30) as client:
        session = await client.post("/api/auth/register", json={"email": email, "password": PASSWORD})
        token = session.raise_for_status().json()["token"]
        made = await client.post(
            "/api/keys", json={"name": "First key", "scopes": SCOPES},
            headers={"authorization": f"Bearer {token}"},
        )  # fmt: skip
    return Account(email, PASSWORD, made.raise_for_status().json()["key"])


@pytest.fixture
async def reader(service: StackProcess, tmp_path: Path) -> Reader:
    """One with an account and a folder of their own."""
    account = await _registered(service.url)
    made = Reader(service, account, tmp_path / "vedette", f"127.0.0.1:{free_port()}")
    made.furnish()
    return made
