"""Copies of templates, and what comes of their runs."""

from __future__ import annotations

import json
import re
from typing import Any

from models.automations import templates
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint
from tests.automations.workflows import post

# What copies of templates with a schedule must be given.
INPUTS = {
    "breach-watch-over-list": {"emails": ["ada@example.com"]},
    "new-dark-web-mentions": {"names": ["example.com"]},
    "daily-dark-web-report": {"names": ["example.com"]},
    "domain-expiry-watch": {"domains": ["example.com"]},
}


def secrets_of(*template_ids: str) -> list[str]:
    """The secrets that these templates name, or all."""
    told = [templates.load_templates()[one].document() for one in template_ids or templates.load_templates()]
    named = re.findall(r"secrets\.(\w+)|\"secret\": \"(\w+)\"", json.dumps(told))
    return sorted({one or other for one, other in named})


async def copy(person: Person, template_id: str, **fields: Any) -> dict[str, Any]:
    """Make a copy that is as the template has it, but for these fields."""
    fields = {"trigger": {"input": INPUTS[template_id]}} | fields if template_id in INPUTS else fields
    made = await person.key.post("/api/workflows", json={"template_id": template_id, **fields})
    assert made.status_code == 201, made.text
    return made.json()


async def run(api: Api, person: Person, workflow: dict[str, Any], payload: Any, **headers: str) -> Any:
    """Start a run as its trigger does, or by hand, and give it when it has ended."""
    if workflow["trigger"]["type"] == "webhook":
        started = await post(api, workflow["webhook_url"] + "?wait=30", json=payload, headers=headers)
    else:
        path = f"/api/workflows/{workflow['id']}/run?wait=30"
        started = await person.key.post(path, json={"input": payload})
    assert started.status_code == 200, started.text
    return started.json()


def sent(receiver: Endpoint) -> list[tuple[str, Any]]:
    """Return what came, each with the secret whose URL it came to; nothing is left for the next time."""
    came = [(one["path"].removeprefix("/"), json.loads(one["body"])) for one in receiver.requests]
    receiver.requests.clear()
    return came
