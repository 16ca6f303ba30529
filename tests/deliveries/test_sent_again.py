"""What is asked for over the API is sent by the worker: again, under the same id, as the log then says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web

from database import Database
from models.events import events
from models.events.event_data import CreditsLow
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.engine import Endpoint, until

pytestmark = pytest.mark.usefixtures("notifier")

PATH = "/api/webhooks"


@pytest.fixture(scope="module")
async def api(quick_settings: Settings) -> AsyncGenerator[Api]:
    async with running(quick_settings) as api:
        yield api


async def ended(person: Person, attempts: int) -> list[dict[str, Any]]:
    """The deliveries of the account once there were so many attempts at each and none is pending."""

    async def look() -> list[dict[str, Any]]:
        shown = (await person.key.get(f"{PATH}/deliveries")).json()["deliveries"]
        done = all(one["status"] != "pending" and one["attempts"] == attempts for one in shown)
        return shown if done else []

    return await until(look)


@pytest.fixture
async def failed(api: Api, database: Database, receiver: Endpoint) -> tuple[Person, str, dict[str, Any]]:
    """Somebody, their webhook, and a delivery to it that has failed; from now on its receiver works."""
    person = await api.person()
    receiver.answer = lambda _: web.Response(status=500)
    wanted = {"url": receiver.url, "events": ["credits.low"]}
    made = (await person.key.post(PATH, json=wanted)).json()
    async with database.transaction() as connection:
        data = CreditsLow(balance=1, low_balance_threshold=2)
        await events.emit(connection, person.account.id, data)
    [delivery] = await ended(person, attempts=3)
    assert delivery["status"] == "failed"
    receiver.answer = lambda _: web.Response(text="yes")
    return person, made["id"], delivery


@pytest.mark.parametrize("way", ["resend", "recover"])
async def test_what_has_failed_is_sent_again_when_somebody_asks(
    failed: tuple[Person, str, dict[str, Any]], receiver: Endpoint, way: str
) -> None:
    person, webhook_id, delivery = failed
    if way == "resend":
        answer = await person.key.post(f"{PATH}/deliveries/{delivery['id']}/resend")
    else:
        body = {"since": delivery["created_at"]}
        answer = await person.key.post(f"{PATH}/{webhook_id}/recover", json=body)
    assert answer.status_code == 202
    [sent] = await ended(person, attempts=4)
    assert (sent["id"], sent["status"], sent["response_body"]) == (delivery["id"], "delivered", "yes")
    assert {one["headers"]["webhook-id"] for one in receiver.requests} == {delivery["event_id"]}
    assert len({one["body"] for one in receiver.requests}) == 1
    log = (await person.key.get(f"{PATH}/deliveries/{delivery['id']}")).json()["attempt_log"]
    assert [(one["attempt"], one["trigger"], one["response_status"]) for one in log] == [
        (1, "scheduled", 500), (2, "scheduled", 500), (3, "scheduled", 500), (4, "manual", 200),
    ]  # fmt: skip


async def test_what_the_log_shows_is_what_was_sent(
    failed: tuple[Person, str, dict[str, Any]], receiver: Endpoint
) -> None:
    _, _, delivery = failed
    assert json.loads(receiver.requests[0]["body"]) == delivery["payload"]
