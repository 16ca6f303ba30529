"""A key that is revoked while it waits for a run gets what was accepted, and nothing of the run."""

from __future__ import annotations

import asyncio

from tests.api_server import Api
from tests.automations.engine import Endpoint, requested, webhook
from tests.runs.workflows import create


async def test_a_wait_shows_a_revoked_key_nothing(api: Api, receiver: Endpoint, worker: None) -> None:
    person = await api.person()
    workflow = await create(person, [webhook(f"{receiver.url}/held", "held", timeout=60)])
    path = f"/api/workflows/{workflow}/run?wait=20"
    waiting = asyncio.create_task(person.key.post(path, json={"input": {"n": 1}}))
    await requested(receiver, 1)
    [key] = (await person.session.get("/api/keys")).json()["keys"]
    assert (await person.session.delete(f"/api/keys/{key['id']}")).status_code == 200
    receiver.open.set()
    answer = await waiting
    assert answer.status_code == 202
    assert answer.json().keys() == {"run_id", "status", "message"}
