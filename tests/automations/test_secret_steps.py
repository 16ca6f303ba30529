"""Secrets in webhook steps: they reach the endpoint, and nothing that anyone can read afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database
from models.accounts import secrets
from models.audit import Actor
from outbound.client import Outbound
from sealing import Keyring
from settings import Settings
from tests.api_server import Person, running
from tests.automations.engine import Endpoint, transform, webhook, working
from tests.automations.workflows import create
from tests.outbound.conftest import Names

VALUE, HOST = "canary-4f7c01d9", "canary-4f7c01d9.example"
SECRETS = "/api/workflows/secrets"


@pytest.fixture(scope="module")
async def worker(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[None]:
    outbound = Outbound(open_settings, resolver=Names({HOST: [["10.0.0.1"]]}))
    async with working(open_settings, client, database, keyring, outbound=outbound):
        yield


@pytest.fixture(scope="module")
async def person(open_settings: Settings, worker: None) -> AsyncGenerator[Person]:
    async with running(open_settings) as api:
        person = await api.person()
        await person.key.post(SECRETS, json={"name": "TOKEN", "value": VALUE})
        await person.key.post(SECRETS, json={"name": "HOST", "value": HOST})
        yield person


async def run(person: Person, *steps: dict[str, Any]) -> dict[str, Any]:
    made = await create(person, steps=list(steps))
    response = await person.key.post(f"/api/workflows/{made['id']}/run?wait=20", json={"input": {}})
    assert response.status_code == 200
    return response.json()


def telling(url: str, **config: Any) -> dict[str, Any]:
    """A step that sends the secret in every place where it can stand."""
    secret = "{{ secrets.TOKEN }}"
    headers = {"Authorization": f"Bearer {secret}", "X-Key": secret}
    url = f"{url}/{secret}?key={secret}"
    return webhook(url, headers=headers, body={"key": secret, "in": [f"a {secret} b"]}, **config)


async def echo(request: web.Request) -> web.Response:
    seen = {"url": str(request.url), "headers": dict(request.headers), "body": await request.text()}
    status = 404 if "refuse" in request.path else 302 if "lead" in request.path else 200
    location = {"Location": f"http://{HOST}/"} if status == 302 else {}
    return web.json_response(seen, status=status, headers={"X-Echo": request.headers["X-Key"], **location})


async def stored(database: Database, run_id: str) -> str:
    """All that is stored of a run, as text."""
    text = ""
    async with database.connection() as connection:
        for query in (
            "select r::text as row from runs r where id = %s",
            "select s::text as row from run_steps s where run_id = %s",
            "select i::text as row from run_step_items i where run_id = %s",
        ):
            cursor = await connection.execute(query, (run_id,))
            text += "".join([row["row"] for row in await cursor.fetchall()])
    return text


CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "echoed": ("", {}, None),
    "echoed to a refusal": ("/refuse", {}, "http_status"),
    "in a redirect": ("/lead", {"follow_redirects": True}, "forbidden_address"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("items", [False, True], ids=["a step", "items"])
async def test_a_secret_that_is_echoed_can_be_read_nowhere(
    person: Person,
    database: Database,
    receiver: Endpoint,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    case: str,
    items: bool,
) -> None:
    path, config, code = CASES[case]
    receiver.handler = echo
    caplog.set_level(logging.DEBUG)
    step = telling(receiver.url + path, **config) | ({"for_each": "[`1`, `2`]"} if items else {})
    view = await run(person, step, transform("seen", "call"))
    assert view["error"] is None if code is None else view["error"]["code"] == code
    [request, *_] = receiver.requests
    assert request["headers"]["Authorization"] == f"Bearer {VALUE}" and VALUE in request["path"]
    assert json.loads(request["body"]) == {"key": VALUE, "in": [f"a {VALUE} b"]}
    read = (await person.key.get(f"/api/workflows/runs/{view['id']}")).text
    # The receiver is not ours: it may log what it is sent.
    records = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]
    logged = "".join([*records, *capsys.readouterr()])
    for text in (json.dumps(view), read, await stored(database, view["id"]), logged):
        assert "canary" not in text
    assert "***" in read or items


async def test_a_secret_in_the_name_of_a_host_is_not_in_the_error(person: Person, database: Database) -> None:
    view = await run(person, webhook("http://{{ secrets.HOST }}:8080/"))
    assert view["error"]["code"] == "forbidden_address"
    assert "canary" not in json.dumps(view) + await stored(database, view["id"])


async def test_a_secret_that_was_deleted_by_force_ends_the_run(person: Person, receiver: Endpoint) -> None:
    await person.key.post(SECRETS, json={"name": "GONE", "value": VALUE})
    made = await create(person, steps=[webhook(receiver.url, headers={"X-Key": "{{ secrets.GONE }}"})])
    assert (await person.key.delete(f"{SECRETS}/GONE")).status_code == 409
    assert (await person.key.delete(f"{SECRETS}/GONE?force=true")).status_code == 200
    response = await person.key.post(f"/api/workflows/{made['id']}/run?wait=20", json={"input": {}})
    view = response.json()
    assert (view["status"], view["error"]["code"]) == ("failed", "unknown_secret")
    assert view["steps"][0]["attempts"] == 1 and receiver.requests == []


async def test_a_secret_whose_key_is_lost_ends_the_run_and_is_logged(
    person: Person, database: Database, receiver: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {"name": "LOST", "value": VALUE}
    await person.key.post(SECRETS, json=made)
    async with database.transaction() as connection:
        actor = Actor(person.account.id, "system", name="test")
        await secrets.put_secret(
            connection, Keyring(["another key, that is lost by now"]), actor, "LOST", VALUE
        )
    view = await run(
        person, webhook(receiver.url, headers={"X-Key": "{{ secrets.LOST }}"}), transform("end", "'never'")
    )
    assert (view["status"], view["error"]["code"]) == ("failed", "secret_not_opened")
    assert view["steps"][0]["attempts"] == 1 and receiver.requests == []
    logged = "".join(capsys.readouterr())
    assert "secret_not_opened" in logged and str(person.account.id) in logged and "canary" not in logged
