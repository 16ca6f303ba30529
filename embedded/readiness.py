"""The readiness of a starting stack's parts, as reported by its API."""

from __future__ import annotations

import asyncio
import time

import httpx

from settings import Settings

_POLL_SECONDS = 0.05


async def until_served(settings: Settings) -> dict[str, str]:
    """Wait until the API answers and has its database, which is enough to accept requests.

    Returns:
        The parts that are still missing, without the lookup data.
    """
    async with _client(settings) as client:
        while (missing := await _missing(client)) is None:
            await asyncio.sleep(_POLL_SECONDS)
    return missing


async def until_complete(settings: Settings, seconds: float) -> dict[str, str]:
    """Wait until nothing but the lookup data is missing, at most `seconds`; return the missing parts."""
    deadline = time.monotonic() + seconds
    missing = await until_served(settings)
    async with _client(settings) as client:
        while missing and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            found = await _missing(client)
            missing = {"api": "does not answer"} if found is None else found
    return missing


def _client(settings: Settings) -> httpx.AsyncClient:
    """Return a client of the API at its local address, which may differ from its public one."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    address = f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
    return httpx.AsyncClient(base_url=address, trust_env=False, timeout=2)


async def _missing(client: httpx.AsyncClient) -> dict[str, str] | None:
    """Return the failing parts in `/readyz`, without the lookup data; None if it does not answer with 200."""
    try:
        answer = await client.get("/readyz")
        checks: dict[str, str] = answer.json()["checks"] if answer.status_code == 200 else {}
    except (httpx.HTTPError, ValueError, KeyError):
        return None
    if not checks:
        return None
    return {name: state for name, state in checks.items() if state != "ok" and name != "data"}
