"""Whole conversations as they were recorded, replayed: the model's answers, and what came of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.assistant.chatting import Chat
from tests.assistant.model_server import Call, Line, Model, Say

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.json"))


def lines_of(answers: list[dict[str, Any]]) -> list[Line]:
    return [
        Call([(name, arguments) for name, arguments in one["calls"]], one.get("text", ""))
        if "calls" in one
        else Say(one["text"])
        for one in answers
    ]


def told(name: str, data: dict[str, Any]) -> list[Any] | None:
    """What of an event is the same each time."""
    match name:
        case "tool":
            return [name, data["tool"], data["arguments"]]
        case "result":
            return [name, data["tool"], data["refused"], data["credits"]]
        case "approval":
            return [name, data["tool"], data["reasons"], data["arguments_hash"]]
        case "decision":
            return [name, data["decision"]]
        case "answer":
            cited = [[one["field"], one["source"]] for line in data["lines"] for one in line["citations"]]
            return [name, data["text"], cited, [line["text"] for line in data["lines"] if line["unsourced"]]]
        case "end":
            return [name, data["status"], data["reason"], data["requests"], data["tool_calls"]]
        case _:
            return None


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_a_transcript_comes_to_the_same_events(chat: Chat, model: Model, path: Path) -> None:
    recorded = json.loads(path.read_text())
    events: list[Any] = []
    for turn in recorded["turns"]:
        model.script = lines_of(turn["answers"])
        decisions = iter(turn.get("decisions", []))
        message = await chat.send(turn["text"])
        async with chat.follow(message) as stream:
            while event := await stream.next():
                events += [one] if (one := told(event.name, event.data)) else []
                if event.name == "approval":
                    await chat.decide(event.data, next(decisions))
    assert events == recorded["events"], json.dumps(events, indent=1)
