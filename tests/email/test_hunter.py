"""Hunter's verifier takes longer than a lookup: what it finds out is there for the next one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from database import Database
from models.lookups.lookups import AllProvidersFailed
from outbound.client import Outbound
from providers.email import hunter
from providers.email.kind import KIND
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from sealing import Keyring
from settings import Settings

_OK = json.loads((Path(__file__).parents[1] / "fixtures/hunter/ok.json").read_text())


class Verifier:
    """Answers 202 until it `knows`."""

    def __init__(self) -> None:
        self.knows = asyncio.Event()
        self.asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if not self.knows.is_set():
            return web.Response(status=202)
        return web.json_response(_OK["exchanges"][0]["body"])


@pytest.fixture
async def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
async def lookups(
    verifier: Verifier, settings: Settings, database: Database, keyring: Keyring
) -> AsyncGenerator[Lookups]:
    app = web.Application()
    app.router.add_get("/email-verifier", verifier.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    providers = {"hunter": {"base_url": url, "key": "the-operators-key"}}
    chosen = Settings.model_validate(settings.model_dump() | {"providers": providers})
    kinds = {"email": replace(KIND, sources=(hunter.SOURCE,))}
    async with Outbound(chosen) as outbound:
        lookups = Lookups(chosen, database, keyring, outbound, kinds=kinds)
        yield lookups
        await lookups.close()
    await runner.cleanup()


async def test_a_verification_that_outlasts_a_lookup_is_there_for_the_next(
    lookups: Lookups, verifier: Verifier
) -> None:
    with pytest.raises(AllProvidersFailed) as failed:
        await lookups.lookup("email", "ada@example.com", LookupOptions(deadline=0.2))
    assert failed.value.details["providers"][0]["detail"] == "deadline"
    verifier.knows.set()
    result = await lookups.lookup("email", "ada@example.com", LookupOptions(max_age=60))
    again = await lookups.lookup("email", "ada@example.com", LookupOptions(max_age=60))
    assert (result.data["validity"], again.data["validity"], again.cached) == ("risky", "risky", True)
    assert verifier.asked == 2, "the second lookup joins the first one's question"
