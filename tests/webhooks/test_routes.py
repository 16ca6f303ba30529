"""Webhooks over the API: made, read, changed and deleted, and what is refused."""

from __future__ import annotations

import asyncio
import base64
from typing import Any
from uuid import UUID, uuid4

import httpx
import jsonschema_rs
import pytest

from database import Database
from models import audit
from models.events.event_types import EVENT_TYPES
from models.webhooks import endpoints
from models.webhooks.endpoints import MAX_ENDPOINTS
from sealing import Keyring
from tests.api_server import Api, Person, running

PATH = "/api/webhooks"
WANTED: dict[str, Any] = {
    "url": "https://example.com/hooks?team=1",
    "events": ["workflow.run.*", "credits.low"],
    "description": " For the team. ",
    "headers": {"Authorization": "Bearer canary-1", "User-Agent": "us/1.0"},
    "rate_limit": 120,
}
FIELDS = {
    "id", "url", "events", "description", "headers", "rate_limit", "is_active", "disabled_reason",
    "created_at", "updated_at",
}  # fmt: skip


async def made(person: Person, **wanted: Any) -> dict[str, Any]:
    """A new webhook, as the answer has it."""
    response = await person.key.post(PATH, json={**WANTED, **wanted})
    assert response.status_code == 201, response.text
    return response.json()


async def shown(person: Person, webhook_id: str) -> dict[str, Any]:
    response = await person.key.get(f"{PATH}/{webhook_id}")
    assert response.status_code == 200
    return response.json()


def found(response: httpx.Response) -> list[tuple[str, str]]:
    """Pointers and codes of what was wrong."""
    assert response.status_code == 400, response.text
    assert response.json()["code"] == "invalid_input"
    return [(error["pointer"], error["code"]) for error in response.json()["errors"]]


class TestMaking:
    async def test_a_new_webhook_is_answered_with_its_secret_and_shown_without_it(
        self, person: Person
    ) -> None:
        created = await made(person)
        secret = created.pop("secret")
        assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
        assert created.keys() == FIELDS
        assert created == {**created, **WANTED, "is_active": True, "disabled_reason": None}
        assert await shown(person, created["id"]) == created
        listed = await person.key.get(PATH)
        assert listed.json() == {"webhooks": [created]}
        assert "secret" not in listed.text

    async def test_only_url_and_events_are_needed(self, person: Person) -> None:
        response = await person.session.post(PATH, json={"url": "http://127.0.0.1:8080/", "events": ["*"]})
        assert response.status_code == 201
        rest = {name: response.json()[name] for name in ("description", "headers", "rate_limit")}
        assert rest == {"description": None, "headers": {}, "rate_limit": None}

    async def test_webhooks_are_listed_newest_first(self, person: Person) -> None:
        ids = [(await made(person))["id"] for _ in range(3)]
        listed = (await person.key.get(PATH)).json()["webhooks"]
        assert [one["id"] for one in listed] == ids[::-1]

    async def test_secret_and_headers_are_stored_sealed(
        self, person: Person, database: Database, keyring: Keyring
    ) -> None:
        created = await made(person)
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select endpoints::text as text, sealed from endpoints where id = %s", (created["id"],)
            )
            row = await cursor.fetchone()
        assert row is not None
        for hidden in (created["secret"], "canary-1"):
            assert hidden not in row["text"]
            assert hidden.encode() not in row["sealed"]
        opened = endpoints.unseal(keyring, UUID(created["id"]), row["sealed"])
        assert (opened.secret, opened.headers) == (created["secret"], WANTED["headers"])

    async def test_an_account_has_a_hundred_webhooks_at_most(self, person: Person) -> None:
        answers = await asyncio.gather(
            *(person.key.post(PATH, json=WANTED) for _ in range(MAX_ENDPOINTS + 3))
        )
        refused = [answer for answer in answers if answer.status_code != 201]
        assert [(one.status_code, one.json()["code"]) for one in refused] == [(409, "too_many_webhooks")] * 3
        assert len((await person.key.get(PATH)).json()["webhooks"]) == MAX_ENDPOINTS

    async def test_a_key_without_the_scope_is_refused(self, api: Api) -> None:
        other = await api.person(scopes=["workflows"])
        response = await other.key.post(PATH, json=WANTED)
        assert (response.status_code, response.json()["code"]) == (403, "insufficient_scope")


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"url": "ftp://example.com"}, "/url", "invalid_url"),
    ({"url": ""}, "/url", "invalid_url"),
    ({"url": "https://user:pass@example.com"}, "/url", "invalid_url"),
    ({"url": "https://example.com/a b"}, "/url", "invalid_url"),
    ({"url": "https://example.com/" + "x" * 2000}, "/url", "too_long"),
    ({"url": 1}, "/url", "wrong_type"),
    ({"url": None}, "/url", "wrong_type"),
    ({"url": "http://10.0.0.1/"}, "/url", "forbidden_address"),
    ({"url": "http://127.1.1.1/"}, "/url", "forbidden_address"),
    ({"url": "http://[::ffff:169.254.169.254]/"}, "/url", "forbidden_address"),
    ({"url": "http://example.com:25/"}, "/url", "forbidden_address"),
    ({"events": []}, "/events", "too_few_items"),
    ({"events": ["*"] * 51}, "/events", "too_many_items"),
    ({"events": "*"}, "/events", "wrong_type"),
    ({"events": None}, "/events", "wrong_type"),
    ({"events": ["*", "monitor.run"]}, "/events/1", "unknown_event"),
    ({"events": ["key.create"]}, "/events/0", "unknown_event"),
    ({"events": ["nothing.*"]}, "/events/0", "unknown_event"),
    ({"events": ["monitor*"]}, "/events/0", "unknown_event"),
    ({"events": [7]}, "/events/0", "wrong_type"),
    ({"headers": None}, "/headers", "wrong_type"),
    ({"headers": {f"x-{n}": "" for n in range(21)}}, "/headers", "too_many_items"),
    ({"headers": {"x" * 101: "1"}}, "/headers/" + "x" * 101, "too_long"),
    ({"headers": {"x-a": "1" * 2001}}, "/headers/x-a", "too_long"),
    ({"headers": {"x-a": 1}}, "/headers/x-a", "wrong_type"),
    ({"headers": {"": "1"}}, "/headers/", "invalid_format"),
    ({"headers": {"x a": "1"}}, "/headers/x a", "invalid_format"),
    ({"headers": {"x/a~": "1"}}, "/headers/x~1a~0", "invalid_format"),
    ({"headers": {"x-a": "1\r\nhost: other"}}, "/headers/x-a", "invalid_format"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "/headers", "invalid_format"),
    ({"headers": {"Host": "other"}}, "/headers/Host", "forbidden_header"),
    ({"headers": {"Transfer-Encoding": "chunked"}}, "/headers/Transfer-Encoding", "forbidden_header"),
    ({"headers": {"Webhook-Signature": "v1,x"}}, "/headers/Webhook-Signature", "forbidden_header"),
    ({"headers": {"webhook-anything": "x"}}, "/headers/webhook-anything", "forbidden_header"),
    ({"headers": {"content-type": "text/plain"}}, "/headers/content-type", "forbidden_header"),
    ({"headers": {"content-encoding": "gzip"}}, "/headers/content-encoding", "forbidden_header"),
    ({"headers": {"accept-encoding": "br"}}, "/headers/accept-encoding", "forbidden_header"),
    ({"rate_limit": 0}, "/rate_limit", "out_of_range"),
    ({"rate_limit": 10_001}, "/rate_limit", "out_of_range"),
    ({"rate_limit": 1.5}, "/rate_limit", "wrong_type"),
    ({"rate_limit": "9"}, "/rate_limit", "wrong_type"),
    ({"rate_limit": True}, "/rate_limit", "wrong_type"),
    ({"description": "x" * 501}, "/description", "too_long"),
    ({"is_active": "yes"}, "/is_active", "wrong_type"),
    ({"is_active": None}, "/is_active", "wrong_type"),
    ({"evnts": ["*"]}, "/evnts", "unknown_field"),
]  # fmt: skip
each_bad = pytest.mark.parametrize(
    ("bad", "pointer", "code"), BAD, ids=[f"{code}{pointer[:30]}" for _, pointer, code in BAD]
)


class TestWhatIsRefused:
    @each_bad
    async def test_bad_input_is_refused_where_it_stands(
        self, person: Person, bad: dict[str, Any], pointer: str, code: str
    ) -> None:
        assert found(await person.key.post(PATH, json={**WANTED, **bad})) == [(pointer, code)]
        assert (await person.key.get(PATH)).json() == {"webhooks": []}

    async def test_changes_are_checked_alike(self, person: Person) -> None:
        created = await made(person)
        before = await shown(person, created["id"])
        for bad, pointer, code in BAD:
            changed = await person.key.patch(f"{PATH}/{created['id']}", json=bad)
            replaced = await person.key.put(PATH, json={"id": created["id"], **bad})
            assert found(changed) == found(replaced) == [(pointer, code)]
        assert await shown(person, created["id"]) == before

    async def test_all_that_is_wrong_is_told_at_once(self, person: Person) -> None:
        bad: dict[str, Any] = {
            "url": "http://192.168.0.1/", "events": ["*", "nope", "key.*", "no.*"], "rate_limit": 0,
            "headers": {"Host": "x", "X-Fine": "1", "webhook-id": "\n"}, "colour": "red",
        }  # fmt: skip
        assert sorted(found(await person.key.post(PATH, json=bad))) == [
            ("/colour", "unknown_field"), ("/events/1", "unknown_event"), ("/events/3", "unknown_event"),
            ("/headers/Host", "forbidden_header"), ("/headers/webhook-id", "forbidden_header"),
            ("/headers/webhook-id", "invalid_format"), ("/rate_limit", "out_of_range"),
            ("/url", "forbidden_address"),
        ]  # fmt: skip

    async def test_url_and_events_are_needed(self, person: Person) -> None:
        assert found(await person.key.post(PATH, json={})) == [("/url", "required"), ("/events", "required")]

    @pytest.mark.parametrize("body", [[], "text", 1])
    async def test_a_body_that_is_no_object_is_refused(self, person: Person, body: Any) -> None:
        assert found(await person.key.post(PATH, json=body)) == [("", "wrong_type")]

    @pytest.mark.parametrize("id", [5, True, None, [], {}])
    @pytest.mark.parametrize(("method", "path"), [("PUT", ""), ("DELETE", ""), ("POST", "/test")])
    async def test_what_is_no_text_is_no_id(self, person: Person, method: str, path: str, id: Any) -> None:
        response = await person.key.request(method, PATH + path, json={"id": id})
        assert found(response) == [("/id", "wrong_type")]

    async def test_a_forbidden_address_names_the_setting_that_opens_it(self, person: Person) -> None:
        response = await person.key.post(PATH, json={**WANTED, "url": "http://10.0.0.1/"})
        assert "VEDETTE_ALLOW_PRIVATE_NETWORKS" in response.json()["detail"]

    async def test_what_the_operator_opens_may_be_set(self, person: Person) -> None:
        await made(person, url="http://127.0.0.1:8080/")

    async def test_by_default_this_machine_is_closed(self, settings: Any) -> None:
        async with running(settings) as api:
            somebody = await api.person()
            response = await somebody.key.post(PATH, json={**WANTED, "url": "http://127.0.0.1:8080/"})
            assert found(response) == [("/url", "forbidden_address")]

    async def test_the_nearest_type_of_events_is_named(self, person: Person) -> None:
        response = await person.key.post(PATH, json={**WANTED, "events": ["monitor.run.complete"]})
        assert "monitor.run.completed" in response.json()["errors"][0]["message"]

    async def test_no_answer_repeats_what_was_refused(self, person: Person) -> None:
        bad = {"url": "http://10.9.8.7/canary-2", "events": ["canary-3"], "headers": {"Host": "canary-4"}}
        assert "canary" not in (await person.key.post(PATH, json=bad)).text


CHANGES: list[dict[str, Any]] = [
    {"url": "https://example.org/"},
    {"events": ["*"]},
    {"description": "other"},
    {"description": None},
    {"headers": {"X-Other": "2"}},
    {"headers": {}},
    {"rate_limit": 1},
    {"rate_limit": None},
    {"is_active": False},
    {"url": "https://example.org/", "rate_limit": 10_000, "events": ["key.*", "*"]},
    {},
]


class TestChanging:
    @pytest.mark.parametrize("changes", CHANGES, ids=str)
    @pytest.mark.parametrize("method", ["PUT", "PATCH"])
    async def test_what_is_named_changes_and_the_rest_stays(
        self, person: Person, method: str, changes: dict[str, Any]
    ) -> None:
        before = await made(person)
        path, body = (PATH, {"id": before["id"], **changes}) if method == "PUT" else (
            f"{PATH}/{before['id']}", changes
        )  # fmt: skip
        response = await person.key.request(method, path, json=body)
        assert response.status_code == 200, response.text
        del before["secret"]
        after = response.json()
        assert after.pop("updated_at") >= before.pop("updated_at")
        assert after == {**before, **changes}
        assert (await shown(person, before["id"])).items() >= after.items()

    async def test_what_was_got_can_be_edited_and_put(self, person: Person) -> None:
        got = await shown(person, (await made(person))["id"])
        put = await person.key.put(PATH, json={**got, "description": "edited"})
        assert put.status_code == 200
        assert put.json() == {**got, "description": "edited", "updated_at": put.json()["updated_at"]}

    async def test_fields_that_nobody_can_set_are_ignored(self, person: Person) -> None:
        created = await made(person)
        changes = {"secret": "whsec_mine", "disabled_reason": "gone", "created_at": 0, "id": str(uuid4())}
        response = await person.key.patch(f"{PATH}/{created['id']}", json=changes)
        before = {name: created[name] for name in FIELDS - {"updated_at"}}
        assert response.json().items() >= before.items()

    async def test_the_id_of_a_put_is_needed(self, person: Person) -> None:
        assert found(await person.key.put(PATH, json={"events": ["*"]})) == [("/id", "required")]

    async def test_headers_that_change_leave_the_secret_as_it_is(
        self, person: Person, database: Database, keyring: Keyring
    ) -> None:
        created = await made(person)
        await person.key.patch(f"{PATH}/{created['id']}", json={"headers": {"X-New": "1"}})
        async with database.connection() as connection:
            _, sending = await endpoints.load_sending(
                connection, keyring, person.account.id, UUID(created["id"])
            )
        assert (sending.secret, sending.headers) == (created["secret"], {"X-New": "1"})

    async def test_switching_on_forgets_why_it_was_off(self, person: Person, database: Database) -> None:
        created = await made(person)
        async with database.transaction() as connection:
            await endpoints.disable(connection, UUID(created["id"]), "failing")
        off = await shown(person, created["id"])
        assert (off["is_active"], off["disabled_reason"]) == (False, "failing")
        on = await person.key.patch(f"{PATH}/{created['id']}", json={"is_active": True})
        assert (on.json()["is_active"], on.json()["disabled_reason"]) == (True, None)


class TestDeleting:
    @pytest.mark.parametrize("form", ["path", "query", "body"])
    async def test_a_deleted_webhook_is_gone(self, person: Person, form: str) -> None:
        kept, id = (await made(person))["id"], (await made(person))["id"]
        requests: dict[str, dict[str, Any]] = {
            "path": {"url": f"{PATH}/{id}"},
            "query": {"url": PATH, "params": {"id": id}},
            "body": {"url": PATH, "json": {"id": id}},
        }
        response = await person.key.request("DELETE", **requests[form])
        assert (response.status_code, response.content) == (204, b"")
        assert (await person.key.get(f"{PATH}/{id}")).status_code == 404
        assert (await person.key.request("DELETE", **requests[form])).status_code == 404
        assert [one["id"] for one in (await person.key.get(PATH)).json()["webhooks"]] == [kept]

    async def test_which_one_must_be_named(self, person: Person) -> None:
        assert found(await person.key.delete(PATH)) == [("/id", "required")]


async def test_every_change_is_audited_without_secrets_and_values_of_headers(
    person: Person, database: Database
) -> None:
    created = await made(person)
    path = f"{PATH}/{created['id']}"
    await person.session.patch(path, json={"headers": {"Authorization": "Bearer canary-5"}})
    await person.key.patch(path, json={"url": "https://example.org/", "rate_limit": 120})
    rotated = (await person.key.post(f"{path}/rotate-secret")).json()
    await person.key.delete(path)
    async with database.connection() as connection:
        entries = await audit.list_entries(connection, person.account.id, target_kind="webhook")
    entries.reverse()
    assert [(entry.action, entry.actor.kind) for entry in entries] == [
        ("webhook.created", "key"), ("webhook.changed", "session"), ("webhook.changed", "key"),
        ("webhook.secret_rotated", "key"), ("webhook.deleted", "key"),
    ]  # fmt: skip
    assert {str(entry.target.id) for entry in entries} == {created["id"]}
    names = {"old": ["Authorization", "User-Agent"], "new": ["Authorization"]}
    assert entries[1].changes == {"headers": names}
    assert entries[2].changes == {"url": {"old": WANTED["url"], "new": "https://example.org/"}}
    text = str([entry.model_dump() for entry in entries])
    assert not [one for one in (created["secret"], rotated["secret"], "canary") if one in text]


async def test_the_log_says_that_headers_changed_where_only_a_value_did(
    person: Person, database: Database
) -> None:
    created = await made(person, headers={"X-Key": "canary-6"})
    await person.key.patch(f"{PATH}/{created['id']}", json={"headers": {"X-Key": "canary-7"}})
    async with database.connection() as connection:
        [entry, _] = await audit.list_entries(connection, person.account.id, target_kind="webhook")
    assert entry.changes == {"headers": {"old": ["X-Key"], "new": ["X-Key"]}}


async def test_the_types_of_events_come_with_schema_and_example(person: Person) -> None:
    listed = (await person.key.get(f"{PATH}/event-types")).json()["event_types"]
    assert [one["name"] for one in listed] == list(EVENT_TYPES)
    for one in listed:
        assert one.keys() == {"name", "description", "schema", "example"}
        jsonschema_rs.validate(one["schema"], one["example"])


async def test_openapi_has_a_request_for_every_type_of_events(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()
    assert document["webhooks"].keys() == EVENT_TYPES.keys()
    for name, entry in document["webhooks"].items():
        operation = entry["post"]
        names = [one["name"] for one in operation["parameters"]]
        assert names[:3] == ["webhook-id", "webhook-timestamp", "webhook-signature"]
        assert set(names[3:]) <= {"Vedette-Chain"}
        content = operation["requestBody"]["content"]["application/json"]
        jsonschema_rs.validate(content["schema"], content["examples"][name]["value"])
