"""`vedette chat`: talk with the assistant, and decide on what it wants to do."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from cli.client import SentEvent, Service, connect_service, part
from cli.errors import BadInput
from cli.printing import printable

_ROOT = "/api/chat"
_SHOWN = {"text": "MESSAGE", "credit_budget": "--budget"}
_REASONS = {
    "writes": "it writes",
    "starts_or_replaces": "it starts, replaces or deletes something",
    "outside_text": "the model has read text from outside, and this call can send",
    "budget": "it may cost more than is left of the budget",
}


def chat(
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Ask this alone; without it, ask line by line.")
    ] = None,
    budget: Annotated[
        int, typer.Option(min=0, max=1000, help="Credits that lookups may spend without being asked about.")
    ] = 20,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with an earlier conversation.")
    ] = None,
) -> None:
    """Ask in words. Whatever writes, sends or starts something is shown first, and done if you say yes."""
    with connect_service(_SHOWN) as service:
        _check_ready(service)
        if conversation is None:
            conversation = service.post(f"{_ROOT}/conversations", {"credit_budget": budget})["id"]
        path = f"{_ROOT}/conversations/{part(str(conversation))}"
        if message is not None:
            _ask(service, path, message)
            return
        print(f"Conversation {conversation}. An empty line ends it.")
        while line := _read_line():
            _ask(service, path, line)


def _check_ready(service: Service) -> None:
    """Refuse to begin without a model or a consent, and say what to do."""
    state = service.get(_ROOT)
    if not state["enabled"]:
        raise BadInput(f"The assistant has no model. {state['how']}")
    if state["agreed_at"] is None:
        raise BadInput(
            f"Targets' data would go to {state['host']}, to the model {state['model']}. Agree to that first,"
            " on the page Assistant of the dashboard, or by PUT /api/chat/consent."
        )


def _read_line() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""


def _ask(service: Service, path: str, text: str) -> None:
    """Send a message, print its answer as it comes, and ask about what needs an approval."""
    sent = service.post(f"{path}/messages", {"text": text})
    for event in service.events(f"{path}/messages/{sent['id']}/events"):
        _show(service, path, event)


def _show(service: Service, path: str, event: SentEvent) -> None:
    data = event.data
    match event.name:
        case "text":
            print(_keep_lines(data["text"]), end="", flush=True)
        case "tool":
            print(f"\n· {printable(data['title'])} {printable(json.dumps(data['arguments']))[:200]}")
        case "approval":
            _decide(service, path, data)
        case "answer":
            print()
            for line in data["lines"]:
                _show_sources(line)
        case "end":
            reason = f" ({data['reason']})" if data["reason"] else ""
            print(f"[{data['status']}{reason}; {data['tokens']} tokens, {data['credits']} credits]")
        case _:
            return


def _show_sources(line: dict[str, Any]) -> None:
    for one in line["citations"]:
        place = f"[{one['result']}{' ' + one['field'] if one['field'] else ''}]"
        told = f"{one['source']}, {one['at']}" if one["known"] else "no such source"
        print(f"  {printable(place)} {printable(told)}")
    if line["unsourced"]:
        print(f"  without a source: {printable(line['text'])[:100]}")


def _decide(service: Service, path: str, card: dict[str, Any]) -> None:
    """Show a card, and send what the person decides; without a terminal the call is denied."""
    print(f"\n{printable(card['title'])}: this needs your approval, since")
    for reason in card["reasons"]:
        print(f"- {_REASONS.get(reason, reason)}")
    for what in ("arguments", "preview"):
        if card[what]:
            print(f"{what}:\n{_keep_lines(json.dumps(card[what], indent=2, ensure_ascii=False))}")
    cost = "unknown" if card["credits_max"] is None else card["credits_max"]
    print(f"It costs at most: {cost} credits.")
    is_asked = sys.stdin.isatty()
    yes = is_asked and typer.confirm("Do it?", default=False)
    if not is_asked:
        print("Denied: nobody can be asked.", file=sys.stderr)
    body = {"decision": "approve" if yes else "deny", "arguments_hash": card["arguments_hash"]}
    service.post(f"{path}/approvals/{part(card['id'])}", body)


def _keep_lines(text: str) -> str:
    """Return a text with its line breaks, and nothing else that a terminal would act upon."""
    return "\n".join(printable(line) if line else "" for line in text.split("\n"))
