"""`vedette chat`: an answer at a terminal, and what is denied where nobody can be asked."""

from __future__ import annotations

import pytest

from settings import ExitCode, Settings
from tests.api_server import Person, running
from tests.assistant.chatting import Chat
from tests.assistant.conftest import api, model, open_settings
from tests.assistant.model_server import Model, Say, call
from tests.cli.conftest import Command

__all__ = ["api", "model", "open_settings"]


async def test_it_asks_for_consent_first_and_then_prints_the_answer_with_its_sources(
    command: Command, person: Person, model: Model
) -> None:
    refused = await command("chat", "Hello")
    assert refused.returncode == ExitCode.USAGE
    assert "Agree to that first" in refused.stderr and model.requests == []
    await Chat.begin(person)
    model.script = [
        call("lookup_ip", ip="193.0.6.139"),
        Say("It is in Amsterdam [r1 location.city].\nIt is\x1b[31m old."),
    ]  # fmt: skip
    done = await command("chat", "Where is 193.0.6.139?")
    assert done.returncode == 0, done.stderr
    assert (
        "It is in Amsterdam [r1 location.city].\n" in done.stdout
        and "[r1 location.city] dbip, 2" in done.stdout
    )
    assert "without a source: It is" in done.stdout and "\x1b" not in done.stdout
    assert "[completed; 220 tokens, 0 credits]" in done.stdout


async def test_where_nobody_can_be_asked_a_call_is_denied(
    command: Command, person: Person, model: Model
) -> None:
    await Chat.begin(person)
    model.script = [call("create_contact_list", name="x", type="ip", targets=["8.8.8.8"]), Say("Denied.")]
    done = await command("chat", "Make a list")
    assert done.returncode == 0 and "Denied: nobody can be asked." in done.stderr
    assert '"8.8.8.8"' in done.stdout and "It costs at most: 0 credits." in done.stdout
    assert (await person.key.get("/api/lists")).json() == []


@pytest.mark.parametrize("message", [["Hello"], []])
async def test_without_a_model_it_says_how_to_set_one_up(
    settings: Settings, command: Command, message: list[str]
) -> None:
    async with running(settings) as off:
        person = await off.person()
        refused = await command("chat", *message, VEDETTE_URL=off.url, VEDETTE_API_KEY=person.secret)
    assert refused.returncode == ExitCode.USAGE and "VEDETTE_CHAT_MODEL" in refused.stderr
