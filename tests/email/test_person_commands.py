"""`vedette persons …`, against the tests' database."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from sealing import Keyring
from settings import ExitCode, Settings
from tests.api_server import Person
from tests.email.sources import Sources
from tests.stacks import vedette


async def command(settings: Settings, *arguments: str) -> tuple[int, Any]:
    assert settings.database_url is not None
    done = await asyncio.to_thread(
        vedette,
        settings.data,
        "persons",
        *arguments,
        "--json",
        DATABASE_URL=settings.database_url.get_secret_value(),
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


async def test_a_person_is_suppressed_erased_and_looked_up_again(
    settings: Settings, keyring: Keyring, person: Person, sources: Sources
) -> None:
    sources.say("ok")
    ada = {"email": "ada@example.com"}
    assert (await person.key.post("/api/agent/breaches", json=ada)).json()["breaches"] == 5

    code, erased = await command(settings, "erase", "Ada@Example.com")
    assert code == ExitCode.OK
    assert [row["source"] for row in erased["erased"]] == ["hudsonrock", "leakcheck", "xposedornot"]
    assert await command(settings, "erase", "ada@example.com") == (ExitCode.OK, {"erased": []})

    suppressed = {"suppressed": True, "changed": True}
    assert await command(settings, "suppress", "ada@example.com") == (ExitCode.OK, suppressed)
    again = {"suppressed": True, "changed": False}
    assert await command(settings, "suppress", "ada@example.com") == (ExitCode.OK, again)
    assert (await person.key.post("/api/agent/breaches", json=ada)).json()["breaches"] == 0

    lifted = {"suppressed": False, "changed": True}
    assert await command(settings, "suppress", "ada@example.com", "--lift") == (ExitCode.OK, lifted)
    assert (await person.key.post("/api/agent/breaches", json=ada)).json()["breaches"] == 5


async def test_who_is_neither_address_nor_number_is_told_so(settings: Settings, keyring: Keyring) -> None:
    code, said = await command(settings, "suppress", "Ada Lovelace")
    assert code == ExitCode.USAGE
    assert "+14155552671" in said
