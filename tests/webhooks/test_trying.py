"""`POST /api/webhooks/test`: a signed request now, whatever the webhook is subscribed to."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from database import Database
from models.events.event_types import EVENT_TYPES
from tests.api_server import Person
from tests.automations.engine import Endpoint
from tests.webhooks.senders import PATH, listed, webhook, work


async def tried(person: Person, webhook_id: str) -> dict[str, Any]:
    response = await person.key.post(f"{PATH}/test", json={"id": webhook_id})
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_test_is_sent_signed_and_answers_the_delivery(person: Person, receiver: Endpoint) -> None:
    made = await webhook(
        person, receiver.url + "/hook", events=["key.created"], headers={"Authorization": "Bearer canary"}
    )
    delivery = await tried(person, made["id"])
    [request] = receiver.requests
    assert (request["path"], request["headers"]["Authorization"]) == ("/hook", "Bearer canary")
    assert request["headers"]["webhook-id"] == delivery["event_id"]
    sent = Webhook(made["secret"]).verify(request["body"], request["headers"])
    assert sent == json.loads(request["body"]) == delivery["payload"]
    jsonschema_rs.validate(EVENT_TYPES["webhook.test"].envelope_schema(), sent)
    assert sent["data"]["webhook_id"] == delivery["webhook_id"] == made["id"]
    assert (delivery["event_type"], delivery["status"]) == ("webhook.test", "delivered")
    assert (delivery["attempts"], delivery["response_status"]) == (1, 200)
    assert (delivery["response_body"], delivery["next_attempt_at"]) == ('{"ok": true}', None)
    [attempt] = delivery["attempt_log"]
    assert (attempt["attempt"], attempt["trigger"], attempt["error"]) == (1, "manual", None)
    got = await person.key.get(f"{PATH}/deliveries/{delivery['id']}")
    assert got.json() == delivery


async def test_a_test_that_fails_is_not_retried(
    person: Person, receiver: Endpoint, database: Database
) -> None:
    receiver.answer = lambda _: web.Response(status=503, text="busy")
    made = await webhook(person, receiver.url)
    delivery = await tried(person, made["id"])
    assert (delivery["status"], delivery["response_status"]) == ("failed", 503)
    assert (delivery["response_body"], delivery["next_attempt_at"]) == ("busy", None)
    assert delivery["attempt_log"][0]["error"]["code"] == "http_status"
    assert not await work(database, [delivery["id"]])


async def test_a_test_goes_to_a_webhook_that_is_off(person: Person, receiver: Endpoint) -> None:
    made = await webhook(person, receiver.url, is_active=False)
    assert (await tried(person, made["id"]))["status"] == "delivered"
    assert not (await person.key.get(f"{PATH}/{made['id']}")).json()["is_active"]


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://127.0.0.1:1999/", "connect_failed"), ("http://localhost.invalid/", "dns_failed")],
)
async def test_a_receiver_that_cannot_be_reached_is_a_failure(person: Person, url: str, code: str) -> None:
    delivery = await tried(person, (await webhook(person, url))["id"])
    [attempt] = delivery["attempt_log"]
    assert (delivery["status"], delivery["response_status"], delivery["response_body"]) == (
        "failed",
        None,
        None,
    )
    assert attempt["error"].keys() == {"code", "message"}
    assert attempt["error"]["code"] == code


async def test_while_both_secrets_sign_a_test_verifies_with_either(
    person: Person, receiver: Endpoint
) -> None:
    made = await webhook(person, receiver.url)
    rotated = (await person.key.post(f"{PATH}/{made['id']}/rotate-secret")).json()
    await tried(person, made["id"])
    [request] = receiver.requests
    for secret in (made["secret"], rotated["secret"]):
        Webhook(secret).verify(request["body"], request["headers"])


async def test_the_webhook_may_be_deleted_while_it_is_tried(person: Person, receiver: Endpoint) -> None:
    made = await webhook(person, receiver.url)

    async def delete(_: web.Request) -> web.Response:
        assert (await person.key.delete(f"{PATH}/{made['id']}")).status_code == 204
        return web.Response(text="bye")

    receiver.handler = delete
    delivery = await tried(person, made["id"])
    assert (delivery["status"], delivery["response_body"]) == ("delivered", "bye")
    assert [one["id"] for one in await listed(person)] == [delivery["id"]]


async def test_nobody_else_hears_of_a_test(person: Person, receiver: Endpoint) -> None:
    made, other = await webhook(person, receiver.url), await webhook(person, receiver.url + "/other")
    await tried(person, made["id"])
    assert receiver.paths == ["/"]
    assert await listed(person, webhook_id=other["id"]) == []
