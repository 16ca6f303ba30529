"""Temporal from its own port: its pages, and its readable data."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from google.protobuf.json_format import MessageToDict
from temporalio.client import Client

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target


@case("Temporal's pages", "whether they are open without being asked for, and to a foreign Host")
async def temporal_pages(target: Target, tally: Tally) -> None:
    """Check that the web pages of Temporal are off by default."""
    page = target.stack.record.temporal_ui
    tally.check(page is None, "they are off by default", page)
    if page is not None:
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(page, headers={"Host": "evil.example"}, follow_redirects=True)
        tally.check(answer.status_code >= 400, "a foreign Host is refused", answer.status_code)


def _texts(value: Any) -> Iterator[bytes]:
    """Yield every string in a history, also decoded from base64."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value.encode()
        try:
            yield base64.b64decode(value, validate=True)
        except ValueError:
            return


@case("A9 secrets", "canaries as secret, password, key, token and value, in logs, histories and files")
async def leaked_secrets(target: Target, tally: Tally) -> None:
    """Check that no secret is readable anywhere: logs, Temporal, answers, metrics or the database."""
    account = await target.new_account()
    canary = f"canary{uuid4().hex}"
    name = f"CANARY_{uuid4().hex[:8].upper()}"
    stored = await account.key.post("/api/workflows/secrets", json={"name": name, "value": canary})
    assert stored.status_code == 201, stored.text
    config = {
        "url": f"{target.receiver.url}/{{{{ secrets.{name} }}}}",
        "headers": {"X-Key": f"{{{{ secrets.{name} }}}}"},
    }
    steps = [
        {"id": "send", "type": "webhook", "config": config},
        {"id": "again", "type": "transform", "config": {"expression": "send.body"}},
        {"id": "fail", "type": "webhook", "retry": {"max_attempts": 1},
         "config": {**config, "success": "404",
         "url": f"{target.receiver.url}/?k={{{{ secrets.{name} }}}}"}},
    ]  # fmt: skip
    workflow = await account.workflow(steps)
    run = await account.run(workflow, {"value": f"event{canary}"})
    tally.check(any(canary in str(r) for r in target.receiver.requests), "the receiver gets the secret")
    http = await target.client()
    await http.post("/api/auth/login", json={"email": account.email, "password": f"{canary}wrong"})
    await http.get("/api/credits", headers={"Authorization": f"Bearer vedette_live_{canary}"})
    await http.get("/api/workflows", headers={"X-API-Key": canary})
    token = workflow["webhook_url"].rpartition("/")[2]
    secrets = {"the secret": canary, "the key": account.secret, "the ingest token": token}
    shown = (
        str(run["steps"])
        + (await account.key.get(f"/api/workflows/runs/{run['id']}")).json()["steps"].__str__()
    )
    shown += (await account.key.get("/api/workflows/secrets")).text + (
        await account.key.get(f"/api/workflows/{workflow['id']}")
    ).text
    shown += (await http.get("/metrics")).text
    # A step without a body sends the event, which contains the canary and is no secret.
    shown = shown.replace(f"event{canary}", "")
    tally.check(canary not in shown, "answers and metrics show no secret")
    client = await Client.connect(target.stack.record.temporal_address)
    count = 0
    async for execution in client.list_workflows():
        history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        for event in history.events:
            count += 1
            for text in _texts(MessageToDict(event)):
                for what, secret in secrets.items():
                    if secret.encode() in text:
                        tally.check(False, f"{what} is not in a history", execution.id)
    tally.figures["history events"] = str(count)
    tally.check(count > 0, "there are histories to read")
    data = target.stack.data
    for place in ("logs", "temporal", "postgres", "stack.json"):
        files = [path for path in _files(data / place) if path.is_file()]
        for what, secret in secrets.items():
            found = [path.name for path in files if secret.encode() in path.read_bytes()]
            # The event's own value contains the canary, and events are no secret.
            found = (
                [] if what == "the secret" and place == "postgres" and _only_events(files, canary) else found
            )
            tally.check(not found, f"{what} is not in {place}", found[:3])


def _files(place: Path) -> list[Path]:
    place = place.resolve()
    return [place] if place.is_file() else list(place.rglob("*"))


def _only_events(files: list[Path], canary: str) -> bool:
    found = [text for path in files if canary.encode() in (text := path.read_bytes())]
    return all(text.count(canary.encode()) == text.count(f"event{canary}".encode()) for text in found)
