"""Events of workflows that ask for signatures, over HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import standardwebhooks

from models.accounts import secrets
from models.audit import Actor
from services import signatures
from tests.api_server import Api, Person
from tests.automations.workflows import create, post, problem, wrong

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two random bytes").decode()
BODY = {"id": "evt_1", "event_id": "Ev1"}

Sign = Callable[[bytes, float], dict[str, str]]


def _hmac(body: bytes) -> str:
    return hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


def _standard(body: bytes, now: float) -> dict[str, str]:
    moment = datetime.fromtimestamp(int(now), UTC)
    return {
        "webhook-id": "m1", "webhook-timestamp": str(int(now)),
        "webhook-signature": standardwebhooks.Webhook(SECRET).sign("m1", moment, body.decode()),
    }  # fmt: skip


def _github(body: bytes, now: float) -> dict[str, str]:
    return {"X-Hub-Signature-256": f"sha256={_hmac(body)}", "X-GitHub-Delivery": f"d-{now}"}


def _stripe(body: bytes, now: float) -> dict[str, str]:
    return {"Stripe-Signature": f"t={int(now)},v1={_hmac(f'{int(now)}.'.encode() + body)}"}


def _slack(body: bytes, now: float) -> dict[str, str]:
    signature = f"v0={_hmac(f'v0:{int(now)}:'.encode() + body)}"
    return {"X-Slack-Request-Timestamp": str(int(now)), "X-Slack-Signature": signature}


def _plain(body: bytes, now: float) -> dict[str, str]:
    return {"X-Signature": _hmac(body)}


SIGN: dict[str, Sign] = {
    "standard-webhooks": _standard, "github": _github, "stripe": _stripe, "slack": _slack,
    "hmac-sha256": _plain,
}  # fmt: skip


async def signed_workflow(person: Person, scheme: str, **fields: Any) -> str:
    """The ingest URL of a workflow whose events are signed by a scheme."""
    await person.key.post("/api/workflows/secrets", json={"name": "SIGNING", "value": SECRET})
    trigger = {"type": "webhook", "signature": {"scheme": scheme, "secret": "SIGNING"}}
    dedupe = fields.pop("dedupe", None)
    return (await create(person, trigger=trigger | ({"dedupe": dedupe} if dedupe else {}), **fields))[
        "webhook_url"
    ]


async def send(
    api: Api, url: str, scheme: str, event: Any = BODY, at: float | None = None, **changes: str
) -> httpx.Response:
    """Send an event, signed now or at another time, with further headers (`_` for `-`)."""
    body = json.dumps(event).encode()
    headers = {"Content-Type": "application/json"} | SIGN[scheme](body, time.time() if at is None else at)
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    return await post(api, url, content=body, headers=headers | named)


@pytest.mark.parametrize("scheme", SIGN)
async def test_what_its_sender_has_signed_is_accepted(api: Api, person: Person, scheme: str) -> None:
    url = await signed_workflow(person, scheme)
    assert (await send(api, url, scheme)).status_code == 202


@pytest.mark.parametrize("scheme", SIGN)
async def test_what_is_not_signed_is_refused_by_a_message_that_names_the_headers_alone(
    api: Api, person: Person, scheme: str
) -> None:
    url = await signed_workflow(person, scheme)
    answers = [
        await post(api, url, json=BODY),
        await post(api, url, json={"other": 1}, headers=SIGN[scheme](json.dumps(BODY).encode(), time.time())),
    ]
    if scheme in ("standard-webhooks", "stripe", "slack"):
        answers.append(await send(api, url, scheme, at=time.time() - signatures.TOLERANCE_SECONDS - 5))
    assert {problem(answer) for answer in answers} == {(401, "invalid_signature")}
    assert len({answer.json()["message"] for answer in answers}) == 1
    assert [*SIGN[scheme](b"", 0)][-1].lower() in answers[0].json()["message"].lower() or scheme == "github"
    assert answers[0].headers["www-authenticate"].startswith("Signature")


async def test_nothing_of_the_body_is_told_to_who_has_not_signed_it(api: Api, person: Person) -> None:
    url = await signed_workflow(person, "github", input_schema={"type": "object", "required": ["x"]})
    for given in (
        {"json": {}},
        {"content": b"{"},
        {"content": b"a,b", "headers": {"Content-Type": "text/csv"}},
    ):
        assert problem(await post(api, url, **given)) == (401, "invalid_signature")
    assert wrong(await send(api, url, "github", {})) == {("/x", "required")}


@pytest.mark.parametrize("scheme", SIGN)
async def test_who_sends_a_captured_request_again_starts_no_second_run(
    api: Api, person: Person, scheme: str
) -> None:
    url, now = await signed_workflow(person, scheme), time.time()
    first = await send(api, url, scheme, at=now)
    changed = {"Idempotency_Key": "another", "X_GitHub_Delivery": "another", "X_Slack_Retry_Num": "1"}
    if scheme != "standard-webhooks":
        changed["webhook_id"] = "another"
    again = await send(api, f"{url}?wait=1&q=another", scheme, at=now, **changed)
    assert again.json()["run_id"] == first.json()["run_id"]
    other = await send(api, url, scheme, {"id": "evt_2", "event_id": "Ev2"}, at=now + 1)
    assert (other.json()["run_id"] == first.json()["run_id"]) == (scheme == "standard-webhooks")


@pytest.mark.parametrize("scheme", ["standard-webhooks", "stripe", "slack"])
async def test_a_retry_that_was_signed_anew_is_the_same_run(api: Api, person: Person, scheme: str) -> None:
    url, now = await signed_workflow(person, scheme), time.time()
    runs = {(await send(api, url, scheme, at=now + later)).json()["run_id"] for later in (0, 5)}
    assert len(runs) == 1


async def test_what_the_workflow_says_of_repeats_goes_before_the_signature(api: Api, person: Person) -> None:
    url = await signed_workflow(person, "github", dedupe="trigger.order")
    runs = [
        (await send(api, url, "github", {"order": n, "x": x})).json()["run_id"]
        for n, x in ((1, 1), (1, 2), (2, 1))
    ]
    assert runs[0] == runs[1] != runs[2]


async def test_a_form_is_signed_as_it_came(api: Api, person: Person) -> None:
    url = await signed_workflow(person, "slack")
    body = b"command=%2Fdeploy&text=now&text="
    headers = SIGN["slack"](body, time.time()) | {"Content-Type": "application/x-www-form-urlencoded"}
    accepted = await post(api, url, content=body, headers=headers)
    run = (await person.key.get(accepted.headers["location"])).json()
    assert run["input"] == {"command": "/deploy", "text": ["now", ""]}


FRAMES = {
    "as it came": "application/x-www-form-urlencoded",
    "in another character set": "application/x-www-form-urlencoded; charset=latin-1",
    "in parts": "multipart/form-data; boundary=x",
    "as JSON": "application/json",
}


async def test_an_empty_body_that_is_signed_is_an_event_without_fields(api: Api, person: Person) -> None:
    url = await signed_workflow(person, "github")
    accepted = await post(api, url, content=b"", headers=SIGN["github"](b"", time.time()))
    assert (await person.key.get(accepted.headers["location"])).json()["input"] == {}


async def test_who_sends_a_captured_form_again_cannot_make_another_event_of_it(
    api: Api, person: Person
) -> None:
    url, now = await signed_workflow(person, "slack", dedupe="trigger.text"), time.time()
    body = "text=é&b=1".encode()
    runs: list[str] = []
    for media_type in FRAMES.values():
        headers = SIGN["slack"](body, now) | {"Content-Type": media_type}
        answer = await post(api, url, content=body, headers=headers)
        runs += [answer.json()["run_id"]] if answer.status_code == 202 else []
    assert len(runs) == 2 and len(set(runs)) == 1


async def test_a_captured_object_is_one_whatever_its_type_says(api: Api, person: Person) -> None:
    url, now = await signed_workflow(person, "github", dedupe="trigger"), time.time()
    for body in (b'{"a": "=&b"}', b"5", b'"a=b"'):
        answers = [
            await post(
                api, url, content=body, headers=SIGN["github"](body, now) | {"Content-Type": media_type}
            )
            for media_type in FRAMES.values()
        ]
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["run_id"] for answer in answers}) == 1


async def test_a_secret_that_is_gone_is_told_to_the_owner_and_not_to_the_sender(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "_SECRETS_SECONDS", 0)
    person = await api.person()
    url = await signed_workflow(person, "github")
    await person.key.delete("/api/workflows/secrets/SIGNING?force=true")
    for answer in (await send(api, url, "github"), await post(api, url, json={})):
        assert problem(answer) == (409, "signing_secret_unusable")
        assert "SIGNING" not in answer.text


async def test_a_replaced_secret_counts_for_the_next_event(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "_SECRETS_SECONDS", 0)
    person = await api.person()
    url = await signed_workflow(person, "github")
    await person.key.post(
        "/api/workflows/secrets", json={"name": "SIGNING", "value": "another, which is as long"}
    )
    assert problem(await send(api, url, "github")) == (401, "invalid_signature")


async def test_a_secret_that_signs_cannot_be_deleted_by_mistake(api: Api) -> None:
    person = await api.person()
    await signed_workflow(person, "github")
    assert problem(await person.key.delete("/api/workflows/secrets/SIGNING")) == (409, "secret_in_use")


async def test_what_a_run_keeps_of_its_request_has_no_signature_in_it(api: Api, person: Person) -> None:
    steps = [{"id": "all", "type": "transform", "config": {"expression": "request"}}]
    url = await signed_workflow(person, "github", steps=steps)
    accepted = await send(api, url, "github")
    async with api.services.database.connection() as connection:
        cursor = await connection.execute(
            "select request::text as kept from runs where id = %s", (accepted.json()["run_id"],)
        )
        row = await cursor.fetchone()
    assert row is not None and "x-github-delivery" in row["kept"] and "sha256=" not in row["kept"]


WEAK = {
    "standard-webhooks": ["whsec_", "whsec_c2hvcnQ=", "no base64, but long enough"],
    "github": ["hunter2"], "stripe": ["whsec_"], "slack": ["x"], "hmac-sha256": ["123456789012345"],
}  # fmt: skip


@pytest.mark.parametrize("scheme", WEAK)
async def test_a_secret_that_can_be_guessed_signs_no_events(api: Api, scheme: str) -> None:
    person = await api.person()
    trigger = {"type": "webhook", "signature": {"scheme": scheme, "secret": "SIGNING"}}
    for value in WEAK[scheme]:
        await person.key.post("/api/workflows/secrets", json={"name": "SIGNING", "value": value})
        document = {"name": "x", "trigger": trigger}
        refused = await person.key.post("/api/workflows", json=document)
        expected = {("/trigger/signature/secret", "weak_secret")}
        assert wrong(refused) == expected
        checked = await person.key.post("/api/workflows/validate", json=document)
        assert {(one["pointer"], one["code"]) for one in checked.json()["errors"]} == expected


async def test_a_secret_that_signs_is_not_replaced_by_one_that_can_be_guessed(api: Api) -> None:
    person = await api.person()
    url = await signed_workflow(person, "standard-webhooks")
    stored = {"name": "SIGNING", "value": "whsec_"}
    refused = await person.key.post("/api/workflows/secrets", json=stored)
    assert wrong(refused) == {("/value", "weak_secret")}
    assert (await send(api, url, "standard-webhooks")).status_code == 202


async def test_events_signed_with_an_empty_key_from_before_are_refused_and_the_owner_is_told_why(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "_SECRETS_SECONDS", 0)
    person = await api.person()
    url = await signed_workflow(person, "standard-webhooks")
    system = Actor(person.account.id, "system")
    async with api.services.database.transaction() as connection:
        await secrets.put_secret(connection, api.services.keyring, system, "SIGNING", "whsec_")
    moment = str(int(datetime.now(UTC).timestamp()))
    digest = hmac.digest(b"", f"m1.{moment}.{{}}".encode(), "sha256")
    headers = {
        "webhook-id": "m1", "webhook-timestamp": moment,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(), "content-type": "application/json",
    }  # fmt: skip
    answer = await post(api, url, content=b"{}", headers=headers)
    assert problem(answer) == (409, "signing_secret_unusable")
