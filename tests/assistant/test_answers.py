"""An answer: text as it comes, tools that read, citations, and what is kept of it."""

from __future__ import annotations

import asyncio
import sys
from subprocess import run

import pytest
from aiohttp import web

from api.auth.credentials import Presented
from database import Database
from models.chat import erasure, messages
from models.chat.conversations import purge
from settings import Settings
from tests.api_server import Api, Person, running
from tests.assistant.chatting import ROOT, Chat, names, said, the
from tests.assistant.model_server import Call, Model, Say, Stall, call

IP = "193.0.6.139"


async def test_without_a_model_it_says_how_to_set_one_up(settings: Settings) -> None:
    async with running(settings) as api:
        person = await api.person()
        state = (await person.session.get(ROOT)).json()
        assert state["enabled"] is False and "VEDETTE_CHAT_BASE_URL" in state["how"]
        made = (await person.session.post(f"{ROOT}/conversations", json={})).json()
        refused = await Chat(person, made["id"]).try_to_send("Hello")
        assert (refused.status_code, refused.json()["code"]) == (409, "chat_off")
        assert "VEDETTE_CHAT_BASE_URL" in refused.json()["detail"]


async def test_nothing_is_sent_before_the_account_has_agreed_to_this_host(
    api: Api, person: Person, model: Model
) -> None:
    model.requests.clear()
    model.script = [Say("Hello.")]
    made = (await person.session.post(f"{ROOT}/conversations", json={})).json()
    chat = Chat(person, made["id"])
    refused = await chat.try_to_send("Hello")
    assert (refused.status_code, refused.json()["code"]) == (403, "chat_not_agreed")
    other = await person.session.put(f"{ROOT}/consent", json={"host": "elsewhere.example"})
    assert (other.status_code, other.json()["code"]) == (409, "chat_host_changed")
    host = (await person.session.get(ROOT)).json()["host"]
    assert (await person.session.put(f"{ROOT}/consent", json={"host": host})).status_code == 204
    assert said(await chat.ask("Hello")) == "Hello."
    assert (await person.session.delete(f"{ROOT}/consent")).status_code == 204
    assert (await chat.try_to_send("Hello")).status_code == 403
    assert len(model.requests) == 1


async def test_text_comes_in_pieces_and_the_next_message_remembers_it(chat: Chat, model: Model) -> None:
    model.script = [Say("I am the assistant of vedette."), Say("As I said.")]
    events = await chat.ask("Who are you?")
    assert said(events) == "I am the assistant of vedette."
    assert the(events, "answer")["text"] == "I am the assistant of vedette."
    end = the(events, "end")
    assert (end["status"], end["requests"], end["tokens"], end["reason"]) == ("completed", 1, 110, None)
    assert model.authorization[-1] == "Bearer model-key"
    await chat.ask("Once more?")
    told = [one["content"] for one in model.requests[-1]["messages"] if one["role"] != "system"]
    assert told == ["Who are you?", "I am the assistant of vedette.", "Once more?"]
    assert (await chat.get())["title"] == "Who are you?"


async def test_a_lookup_runs_by_itself_and_its_facts_are_cited_with_source_and_time(
    chat: Chat, model: Model
) -> None:
    answer = f"{IP} is in Amsterdam [r1 location.city].\nIt belongs to a king.\nIt is old [r9 age]."
    model.script = [call("lookup_ip", ip=IP), Say(answer)]
    events = await chat.ask(f"Where is {IP}?")
    assert "approval" not in names(events)
    assert the(events, "tool")["arguments"] == {"ip": IP}
    assert the(events, "result")["refused"] is False
    [text] = model.results()
    assert "Amsterdam" in text and text.startswith("<data-")
    sourced, invented, unknown = the(events, "answer")["lines"]
    [citation] = sourced["citations"]
    assert citation["known"] and citation["source"] == "dbip" and citation["at"] and not sourced["unsourced"]
    assert invented["unsourced"] and unknown["unsourced"] and not unknown["citations"][0]["known"]


async def test_what_is_open_beside_the_chat_is_told_to_the_model(chat: Chat, model: Model) -> None:
    model.script = [Say("That one.")]
    await chat.ask("Why did this fail?", about={"kind": "lookup", "id": "ip 8.8.8.8"})
    assert model.requests[-1]["messages"][-1]["content"].startswith("[open: lookup ip 8.8.8.8]\n\n")


async def test_a_lost_connection_goes_on_and_can_be_read_later(chat: Chat, model: Model) -> None:
    stall = Stall()
    model.script = [stall]
    message = await chat.send("Think")
    async with chat.follow(message) as stream:
        first = await stream.next()
        assert first is not None and first.data == {"text": "Let me see"}
    stall.going_on.set()
    async with chat.follow(message, Last_Event_ID=first.id) as stream:
        rest = await stream.all()
    assert said(rest) == " on." and rest[-1].name == "end" and rest[-1].data["status"] == "completed"
    assert said(await chat.read(message)) == "Let me see on."
    seen = await chat.person.session.get(
        f"{chat.path}/messages/{message}/events", headers={"Last-Event-ID": "end"}
    )
    assert seen.status_code == 204


async def test_one_message_at_a_time_is_answered_in_a_conversation(chat: Chat, model: Model) -> None:
    stall = Stall()
    model.script = [stall]
    message = await chat.send("Think")
    refused = await chat.try_to_send("And this?")
    assert (refused.status_code, refused.json()["code"]) == (409, "chat_busy")
    stall.going_on.set()
    await chat.read(message)


async def test_a_cancelled_answer_ends_at_once(chat: Chat, model: Model) -> None:
    model.script = [Stall()]
    message = await chat.send("Think")
    async with chat.follow(message) as stream:
        assert await stream.next()
        ended = await chat.person.session.post(f"{chat.path}/messages/{message}/cancel")
        assert ended.json()["status"] == "cancelled"
        assert (await stream.all())[-1].data["status"] == "cancelled"
    model.script = [Say("Yes.")]
    assert said(await chat.ask("Are you there?")) == "Yes."


async def test_a_message_whose_process_has_died_is_interrupted_and_never_stuck(
    chat: Chat, model: Model, database: Database
) -> None:
    stall = Stall()
    model.script = [stall]
    message = await chat.send("Think")
    async with chat.follow(message) as stream:
        assert await stream.next()
        async with database.connection() as connection:
            await connection.execute(
                "update chat_messages set leased_until = clock_timestamp() where id = %s", (message,)
            )
        assert (await stream.all())[-1].data["status"] == "interrupted"
    # Its task writes nothing any more, whatever the model says.
    stall.going_on.set()
    model.script = [Say("Yes.")]
    assert said(await chat.ask("Are you there?")) == "Yes."
    assert said(await chat.read(message)) == "Let me see"


async def test_an_ended_session_ends_the_answer_before_the_next_call(
    api: Api, chat: Chat, model: Model
) -> None:
    going_on = asyncio.Event()
    model.script = [Stall(going_on=going_on, then=call("lookup_ip", ip=IP))]
    message = await chat.send("Think")
    async with chat.follow(message) as stream:
        assert await stream.next()
    caller = await api.services.credentials.find(Presented(chat.person.token))
    ended = await chat.person.session.delete(f"/api/auth/sessions/{caller.credential_id}")
    assert ended.status_code == 204
    going_on.set()
    chat.person.session = chat.person.key
    events = await chat.read(message)
    assert "result" not in names(events)
    assert (the(events, "end")["status"], the(events, "end")["reason"]) == ("failed", "session_ended")


@pytest.mark.long
async def test_an_application_without_a_message_imports_nothing_of_the_model() -> None:
    program = "import api.app, sys; sys.exit(any(m in sys.modules for m in ('pydantic_ai', 'openai')))"
    assert run([sys.executable, "-c", program], check=False).returncode == 0


async def test_conversations_are_sealed_and_go_when_unused_or_when_a_person_is_erased(
    api: Api, chat: Chat, model: Model, database: Database
) -> None:
    model.script = [Say("I know nothing of ada.lovelace@example.com.")]
    await chat.ask("What of Ada.Lovelace@example.com?")
    tables = ("conversations", "messages", "events", "approvals")
    async with database.connection() as connection:
        for table in tables:
            cursor = await connection.execute(f"select t::text as row from chat_{table} t")
            for row in await cursor.fetchall():
                assert b"ovelace".hex() not in row["row"] and "ovelace" not in row["row"]
    other = await Chat.begin(chat.person)
    async with database.transaction() as connection:
        keyring = api.services.keyring
        assert await erasure.erase(connection, keyring, "nobody@example.com") == 0
        assert await erasure.erase(connection, keyring, "ada.lovelace@example.com") == 1
    assert (await chat.person.session.get(chat.path)).status_code == 404
    assert (await other.get())["messages"] == []
    async with database.transaction() as connection:
        await connection.execute(
            "update chat_conversations set updated_at = now() - interval '31 days' where id = %s", (other.id,)
        )
        assert await purge(connection) == 1
    assert (await other.person.session.get(other.path)).status_code == 404


async def test_a_deleted_conversation_is_gone_with_all_that_was_said(
    chat: Chat, model: Model, database: Database
) -> None:
    model.script = [Say("Hello.")]
    await chat.ask("Hello")
    listed = (await chat.person.session.get(f"{ROOT}/conversations")).json()["conversations"]
    assert [one["id"] for one in listed] == [chat.id]
    assert (await chat.person.session.delete(chat.path)).status_code == 204
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select from chat_events where account_id = %s", (chat.person.account.id,)
        )
        assert await cursor.fetchall() == []


async def test_a_key_needs_every_scope_that_a_conversation_can_use(api: Api) -> None:
    person = await api.person(scopes=["lookups", "workflows"])
    refused = await person.key.get(ROOT)
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert "bulk, credits, lists, monitors, webhooks" in refused.json()["detail"]


async def test_the_tools_never_act_with_the_scope_keys(api: Api, chat: Chat, model: Model) -> None:
    model.script = [Call([("create_key", {"name": "mine"})]), Say("No.")]
    await chat.ask("Make a key")
    offered = {tool["function"]["name"] for tool in model.requests[0]["tools"]}
    assert not [name for name in offered if "key" in name] and "lookup_ip" in offered
    listed = (await chat.person.session.get("/api/keys")).json()["keys"]
    assert [key["name"] for key in listed] == ["test"]


async def test_a_day_has_its_bound_of_messages(api: Api, chat: Chat, model: Model) -> None:
    model.script = [Say("Hello.")]
    await chat.ask("Hello")
    async with api.services.database.connection() as connection:
        used = await messages.get_day_use(connection, chat.person.account.id)
    assert (used.messages, used.tokens, used.credits) == (1, 110, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api.services.assistant, "bounds", type(api.services.assistant.bounds)(day_messages=1))
        refused = await chat.try_to_send("Hello")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")


async def test_the_client_of_the_model_goes_nowhere_else(api: Api, chat: Chat, model: Model) -> None:
    """A redirect of the model's server is not followed."""
    reached = asyncio.Event()

    async def note(_request: web.Request) -> web.Response:
        reached.set()
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", note)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    elsewhere = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/chat/completions"
    try:
        client = api.services.outbound.model_client(model.url, 5)
        async with client:
            with pytest.raises(Exception, match="operator's address alone"):
                await client.post(elsewhere, json={})
        model.redirect = elsewhere
        events = await chat.ask("Hello")
        assert the(events, "end")["status"] == "failed" and not reached.is_set()
    finally:
        model.redirect = None
        await runner.cleanup()
