"""Models that fail, stall, storm or never end: each answer ends with what it has, and says why."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from models.chat.messages import MOST_UNFINISHED
from tests.api_server import Api, Person
from tests.assistant.chatting import Chat, names, said, the
from tests.assistant.model_server import Call, Cut, Fail, Model, Raw, Say, Stall, call
from tests.event_streams import Seen

IP = "193.0.6.139"


def end_of(events: list[Seen]) -> tuple[str, str | None]:
    end = the(events, "end")
    return end["status"], end["reason"]


@pytest.mark.parametrize("arguments", ["{not json", "[1, 2]", '"text"', '{"ip": 8}', '{"pi": "8.8.8.8"}'])
async def test_arguments_that_do_not_fit_are_explained_to_the_model(
    chat: Chat, model: Model, arguments: str
) -> None:
    model.script = [Call([("lookup_ip", arguments)]), call("lookup_ip", ip=IP), Say("There.")]
    events = await chat.ask("Where?")
    assert end_of(events) == ("completed", None) and said(events) == "There."
    assert "approval" not in names(events)


async def test_an_unknown_tool_is_refused_and_the_model_goes_on(chat: Chat, model: Model) -> None:
    model.script = [call("delete_everything", sure=True), Say("I cannot.")]
    events = await chat.ask("Delete all")
    assert said(events) == "I cannot." and "tool" not in names(events)
    assert "delete_everything" in str(model.requests[-1]["messages"][-1])


async def test_a_model_that_only_errs_is_given_up(chat: Chat, model: Model) -> None:
    model.script = [call("delete_everything")]
    assert end_of(await chat.ask("Delete all")) == ("failed", "model_confused")
    assert len(model.requests) <= 6


async def test_a_storm_of_calls_ends_at_its_bound(chat: Chat, model: Model) -> None:
    model.script = [Call([("get_credits", {})] * 40), Say("Never.")]
    events = await chat.ask("How many credits?")
    assert end_of(events) == ("completed", "tool_calls")
    assert names(events).count("result") == 30 and len(model.requests) == 1


async def test_an_endless_loop_ends_at_its_bound_with_what_it_has(chat: Chat, model: Model) -> None:
    model.script = [Call([("get_credits", {})], text="Once more. ")]
    events = await chat.ask("How many credits?")
    assert end_of(events) == ("completed", "requests") and len(model.requests) == 12
    assert said(events).startswith("Once more. ")
    model.script = [Say("Yes.")]
    assert said(await chat.ask("Still there?")) == "Yes."


async def test_tokens_and_time_have_bounds(
    api: Api, chat: Chat, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = api.services.assistant.bounds
    monkeypatch.setattr(api.services.assistant, "bounds", replace(bounds, tokens=200))
    model.script = [call("get_credits")]
    assert end_of(await chat.ask("How many?")) == ("completed", "tokens")
    monkeypatch.setattr(api.services.assistant, "bounds", replace(bounds, seconds=0.3))
    model.script = [Stall()]
    events = await chat.ask("How many?")
    assert end_of(events) == ("completed", "seconds") and the(events, "answer")["text"] == "Let me see"


async def test_too_many_requests_are_tried_again(chat: Chat, model: Model) -> None:
    model.script = [Fail(429), Say("Here I am.")]
    events = await chat.ask("Hello")
    assert said(events) == "Here I am." and len(model.requests) == 2


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "model_busy"), (500, "model_failed"), (401, "model_refused_key")]
)
async def test_a_model_that_keeps_failing_is_named(
    chat: Chat, model: Model, status: int, reason: str
) -> None:
    model.script = [Fail(status)]
    assert end_of(await chat.ask("Hello")) == ("failed", reason)
    model.script = [Say("Yes.")]
    assert said(await chat.ask("Are you there?")) == "Yes."


async def test_a_stalled_answer_ends(
    api: Api, chat: Chat, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = replace(api.services.assistant.bounds, stall_seconds=0.3)
    monkeypatch.setattr(api.services.assistant, "bounds", bounds)
    model.script = [Stall()]
    events = await chat.ask("Hello")
    assert end_of(events) == ("failed", "model_unreachable") and said(events).startswith("Let me see")


async def test_a_cut_answer_ends(chat: Chat, model: Model) -> None:
    model.script = [Cut()]
    events = await chat.ask("Hello")
    assert end_of(events) == ("failed", "model_unreachable") and said(events).startswith("Let me see")


def delta(**fields: object) -> dict[str, object]:
    """A piece of an answer."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def called(function: object) -> dict[str, object]:
    """A piece that calls a tool."""
    return delta(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": function}])


@pytest.mark.parametrize(
    "piece",
    [
        [], None, 7, "text", {}, {"choices": None}, {"choices": "text"}, {"choices": [None]},
        {"choices": [{"index": 0, "delta": "text"}]}, {"choices": [{"index": 0, "message": None}]},
        delta(content=8), delta(tool_calls="text"), delta(tool_calls=[None]), called(None), called("text"),
        called({"name": None, "arguments": None}), called({"name": 8, "arguments": "{}"}),
        called({"name": "get_credits", "arguments": 8}), {**delta(content="x"), "usage": "text"},
        delta(content="x\ud800"), called({"name": "x\ud800", "arguments": "{}"}),
        called({"name": "get_credits", "arguments": '{"x": "\ud800"}'}),
    ],
)  # fmt: skip
async def test_an_answer_of_another_form_ends_also_after_a_tool(
    chat: Chat, model: Model, capsys: pytest.CaptureFixture[str], piece: object
) -> None:
    for before in ([], [call("get_credits")]):
        model.script = [*before, Raw([piece])]
        assert end_of(await chat.ask("Hello")) == ("failed", "model_confused")
    assert "Traceback" not in "".join(capsys.readouterr())
    model.script = [Say("Yes.")]
    assert said(await chat.ask("Are you there?")) == "Yes."


async def test_an_answer_longer_than_its_tokens_allow_is_cut(chat: Chat, model: Model) -> None:
    model.script = [Raw([delta(content="x" * 100_000)] * 5)]
    events = await chat.ask("Hello")
    assert end_of(events) == ("completed", "tokens") and said(events) == "x" * 256 * 1024
    model.script = [Say("Yes.")]
    assert said(await chat.ask("Are you there?")) == "Yes."


async def test_an_answer_in_one_long_line_is_not_read(chat: Chat, model: Model) -> None:
    model.script = [Raw([delta(content="x" * 1_000_000)])]
    events = await chat.ask("Hello")
    assert end_of(events) == ("failed", "model_unreachable") and not said(events)


async def test_messages_that_are_sent_at_once_count_one_after_the_other(person: Person, model: Model) -> None:
    model.script = [Stall()]
    chats = [await Chat.begin(person) for _ in range(16)]
    answers = await asyncio.gather(*(chat.try_to_send("Think") for chat in chats))
    for chat, answer in zip(chats, answers, strict=True):
        if answer.status_code == 202:
            await person.session.post(f"{chat.path}/messages/{answer.json()['id']}/cancel")
    assert [answer.status_code for answer in answers].count(202) == MOST_UNFINISHED
