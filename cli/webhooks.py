"""`vedette webhooks`: the endpoints for events."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.client import connect_service, part
from cli.groups import new_group
from cli.printing import Json, print_data, print_record, print_table, printable
from cli.workflow_lookup import find_webhook

commands = new_group("Webhooks: where events are posted to.")

Named = Annotated[str, typer.Argument(metavar="ID|URL", help="A webhook.")]
Events = Annotated[
    list[str] | None, typer.Option("--events", help="Repeatable: a type, monitor.* or *. All by default.")
]

_SHOWN = {"url": "URL", "events": "--events", "description": "--description", "forbidden_address": "URL",
          "too_many_endpoints": "URL", "not_found": "ID|URL"}  # fmt: skip


@commands.command("create")
def webhooks_create(
    url: str,
    events: Events = None,
    description: Annotated[str | None, typer.Option(help="Its purpose.")] = None,
    as_json: Json = False,
) -> None:
    """Create a webhook. Its signing secret is shown this once."""
    body: dict[str, Any] = {"url": url, "events": events or ["*"]}
    body |= {} if description is None else {"description": description}
    with connect_service(_SHOWN) as service:
        print_record(service.post("/api/webhooks", body), as_json)


@commands.command("list")
def webhooks_list(as_json: Json = False) -> None:
    """List the webhooks of the account, newest first."""
    with connect_service(_SHOWN) as service:
        found = service.get("/api/webhooks")
    if as_json:
        print(json.dumps(found, indent=2))
        return
    rows = [
        [one["id"], printable(one["url"]), printable(", ".join(one["events"])),
         "active" if one["is_active"] else f"off: {printable(one['disabled_reason'] or 'by hand')}"]
        for one in found["webhooks"]
    ]  # fmt: skip
    print_table(["id", "url", "events", "status"], rows, "There are no webhooks.")


@commands.command("test")
def webhooks_test(webhook: Named, as_json: Json = False) -> None:
    """Send a signed `webhook.test` now. Exits with 1 if it was not delivered."""
    with connect_service(_SHOWN) as service:
        found = find_webhook(service, webhook, "ID|URL")
        delivery = service.post("/api/webhooks/test", {"id": found["id"]})
    print_record(delivery, as_json)
    raise typer.Exit(0 if delivery["status"] == "delivered" else 1)


@commands.command("rotate-secret")
def webhooks_rotate(webhook: Named, as_json: Json = False) -> None:
    """Make a new signing secret, shown this once. Both sign for a day."""
    with connect_service(_SHOWN) as service:
        found = find_webhook(service, webhook, "ID|URL")
        print_record(service.post(f"{_path(found)}/rotate-secret", {}), as_json)


@commands.command("delete")
def webhooks_delete(webhook: Named, as_json: Json = False) -> None:
    """Delete a webhook. Its pending deliveries are dropped."""
    with connect_service(_SHOWN) as service:
        found = find_webhook(service, webhook, "ID|URL")
        service.call("DELETE", _path(found))
    text = f"The webhook to {printable(found['url'])} ({found['id']}) is deleted."
    print_data({"id": found["id"], "deleted": True}, text, as_json)


def _path(webhook: dict[str, Any]) -> str:
    return f"/api/webhooks/{part(str(webhook['id']))}"
