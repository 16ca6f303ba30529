"""Monitors: made, found, changed, paused, resumed and deleted, by requests."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from database import Database
from models import audit
from models.accounts import keys
from models.monitors.monitor_views import MonitorView
from models.monitors.tolerances import effective_tolerances
from tests.api_server import Api
from tests.lists.making import create as create_list
from tests.monitors.asking import MOUNTS, create, given, problems, refused, start, watching


async def test_a_monitor_of_a_name_alone_looks_at_email_addresses_every_month(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, name="  Customers ")
    assert made.keys() == MonitorView.model_fields.keys()
    assert made | {
        "name": "Customers", "status": "active", "monitor_type": "email", "frequency": "monthly",
        "cron": None, "timezone": "UTC", "change_detection": "diff_only", "tracked_fields": [],
        "ignored_fields": [], "tolerance": {"publications.cited_by": 10}, "retention_days": 90,
        "paused_reason": None,
        "data_source_type": "inline", "data_source_ref": None,
        "target_count": 0, "email_count": 0, "last_run_at": None,
    } == made  # fmt: skip
    waits = datetime.fromisoformat(made["next_run_at"]) - datetime.fromisoformat(made["created_at"])
    assert timedelta(days=27) < waits < timedelta(days=32)


async def test_a_monitor_has_what_was_chosen_of_it(api: Api) -> None:
    person = await api.person()
    chosen = {
        "name": "Domains", "status": "active", "monitor_type": "domain", "frequency": None,
        "cron": "30 9 * * MON-FRI", "timezone": "Europe/Berlin", "change_detection": "full_refresh",
        "tracked_fields": ["whois", "hosting.*"], "ignored_fields": ["whois.expires"],
        "tolerance": {"hosting.asn": 2.5}, "retention_days": 7,
    }  # fmt: skip
    made = await create(person.key, **chosen, targets=["Example.com", "example.org"], emails=["EXAMPLE.com"])
    tolerance = effective_tolerances("domain", {"hosting.asn": 2.5})
    assert made | chosen | {"tolerance": tolerance} == made
    assert (made["target_count"], made["email_count"]) == (2, 2)
    assert await given(person.key, f"/api/monitors/{made['id']}") == made


async def test_monitors_are_found_newest_first_and_by_type(api: Api) -> None:
    person = await api.person()
    assert await given(person.key, "/api/monitors") == {"monitors": [], "total": 0}
    made = [await create(person.key, monitor_type=type) for type in ("ip", "email", "ip")]
    assert await given(person.key, "/api/monitors") == {"monitors": made[::-1], "total": 3}
    assert await given(person.key, "/api/monitors", type="ip") == {"monitors": [made[2], made[0]], "total": 2}


@pytest.mark.parametrize("mount", MOUNTS)
async def test_all_calls_work_at_both_paths(api: Api, mount: str) -> None:
    person = await api.person(credits=10)
    made = (await person.key.post(mount, json={"name": "both", "emails": ["ada@example.com"]})).json()
    path = f"{mount}/{made['id']}"
    for change in (person.key.patch, person.key.put):
        assert (await change(path, json={"name": "renamed"})).json()["name"] == "renamed"
    assert (await person.key.post(f"{path}/pause")).json()["status"] == "paused"
    assert (await person.key.post(f"{path}/resume")).json()["status"] == "active"
    assert await given(person.key, f"{path}/targets") == ["ada@example.com"]
    started = await person.key.post(f"{path}/run")
    run = started.headers["location"]
    assert run == f"{path}/runs/{started.json()['run_id']}"
    assert (await given(person.key, f"{path}/runs"))["total"] == 1
    assert (await given(person.key, run))["status"] == "queued"
    assert (await person.key.post(f"{run}/cancel")).json()["status"] == "cancelled"
    assert await given(person.key, f"{run}/results") == []
    assert (await person.key.get(f"{run}/results/download")).status_code == 200
    assert (await given(person.key, f"{path}/targets/history", target="ada@example.com"))["results"] == []
    assert (await person.key.delete(path)).json() == {"status": "deleted"}
    assert refused(await person.key.get(path)) == (404, "not_found")


async def test_agents_need_a_key_and_other_paths_take_a_session_too(api: Api) -> None:
    person = await api.person()
    for place in ("monitors", "monitoring/runs", "monitoring/results", "monitoring/targets"):
        assert (await person.session.get(f"/api/{place}")).status_code == 200
        assert refused(await person.session.get(f"/api/agent/{place}")) == (403, "api_key_required")


@pytest.mark.parametrize(
    "place", ["monitors", "agent/monitors", "monitoring/runs", "agent/monitoring/targets"]
)
async def test_a_key_needs_the_scope_monitors(api: Api, place: str) -> None:
    person = await api.person(scopes=keys.ALL_SCOPES - {"monitors"})
    assert refused(await person.key.get(f"/api/{place}")) == (403, "insufficient_scope")
    person = await api.person(scopes=["monitors"])
    assert (await person.key.get(f"/api/{place}")).status_code == 200


LIST = "01a20000-0000-7000-8000-000000000000"
BAD: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "name is no text": ({"name": 7}, [("/name", "wrong_type")]),
    "blank name": ({"name": " "}, [("/name", "too_short")]),
    "unknown field": ({"freqency": "daily"}, [("/freqency", "unknown_field")]),
    "unknown type": ({"monitor_type": "username"}, [("/monitor_type", "not_allowed")]),
    "unknown frequency": ({"frequency": "yearly"}, [("/frequency", "not_allowed")]),
    "two calendars": ({"frequency": "daily", "cron": "0 9 * * *"}, [("/cron", "one_schedule")]),
    "bad cron": ({"cron": "0 25 * * *"}, [("/cron", "bad_cron")]),
    "a cron that never fires": ({"cron": "0 0 30 2 *"}, [("/cron", "never_fires")]),
    "unknown zone": ({"timezone": "Europe/Berln"}, [("/timezone", "unknown_timezone")]),
    "unknown field of answers": (
        {"tracked_fields": ["name", "nmae"]},
        [("/tracked_fields/1", "unknown_field")],
    ),
    "field of another type": ({"ignored_fields": ["whois"]}, [("/ignored_fields/0", "unknown_field")]),
    "tolerance of no number": ({"tolerance": {"mx_found": 1}}, [("/tolerance/mx_found", "unknown_field")]),
    "tolerance with slash": ({"tolerance": {"a/b~": 1}}, [("/tolerance/a~1b~0", "unknown_field")]),
    "tolerance below zero": ({"tolerance": {"age": -1}}, [("/tolerance/age", "out_of_range")]),
    "all ignored": (
        {"tracked_fields": ["name"], "ignored_fields": ["n*"]},
        [("/ignored_fields", "nothing_tracked")],
    ),
    "kept for no day": ({"retention_days": 0}, [("/retention_days", "out_of_range")]),
    "no targets": ({"targets": []}, [("/targets", "too_few_items")]),
    "no emails": ({"emails": []}, [("/emails", "too_few_items")]),
    "bad targets": (
        {"monitor_type": "ip", "targets": ["192.0.2.1", "x"], "emails": ["y"]},
        [("/targets/1", "invalid_ip"), ("/emails/0", "invalid_ip")],
    ),
    "list without name": ({"data_source_type": "list"}, [("/data_source_ref", "required")]),
    "inline with a list": (
        {"data_source_type": "inline", "data_source_ref": LIST},
        [("/data_source_ref", "not_allowed")],
    ),
    "list and targets": (
        {"data_source_type": "list", "data_source_ref": LIST, "targets": ["ada@example.com"]},
        [("/targets", "not_allowed")],
    ),
    "unknown list": (
        {"data_source_type": "list", "data_source_ref": LIST},
        [("/data_source_ref", "unknown_list")],
    ),
    "malformed list": ({"data_source_ref": "my list"}, [("/data_source_ref", "unknown_list")]),
    "all at once": (
        {"cron": "x", "timezone": "x", "tracked_fields": ["zzz"], "tolerance": {"zzz": 1}, "targets": ["x"]},
        [
            ("/timezone", "unknown_timezone"),
            ("/cron", "bad_cron"),
            ("/tracked_fields/0", "unknown_field"),
            ("/tolerance/zzz", "unknown_field"),
            ("/targets/0", "invalid_email"),
        ],
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_monitor_is_refused_where_it_is_wrong(api: Api, case: str) -> None:
    body, wrong = BAD[case]
    person = await api.person()
    assert problems(await person.key.post("/api/monitors", json={"name": "m", **body})) == wrong
    assert (await given(person.key, "/api/monitors"))["total"] == 0


async def test_the_nearest_field_is_named_where_there_is_none(api: Api) -> None:
    person = await api.person()
    body = {
        "name": "m",
        "monitor_type": "domain",
        "tracked_fields": ["whois.registar"],
        "tolerance": {"hosting.as": 1},
    }
    errors = (await person.key.post("/api/monitors", json=body)).json()["errors"]
    named = ["Did you mean whois.registrar?", "Did you mean hosting.asn?"]
    assert [error["message"].partition(". ")[2] for error in errors] == named


async def test_a_list_may_be_named_and_its_id_is_kept(api: Api) -> None:
    person = await api.person()
    listed, other = await create_list(person.key, name="staff"), await create_list(person.key, name="guests")
    body = {"name": "m", "data_source_type": "list", "data_source_ref": "staff"}
    made = (await person.key.post("/api/monitors", json=body)).json()
    assert made["data_source_ref"] == listed["id"]
    path = f"/api/monitors/{made['id']}"
    changed = (await person.key.patch(path, json={"data_source_ref": "guests"})).json()
    assert changed["data_source_ref"] == other["id"]


async def test_a_name_that_several_lists_have_is_refused_with_their_ids(api: Api) -> None:
    person = await api.person()
    twins = [(await create_list(person.key, name="twins"))["id"] for _ in range(2)]
    body = {"name": "m", "data_source_type": "list", "data_source_ref": "twins"}
    refused = await person.key.post("/api/monitors", json=body)
    assert problems(refused) == [("/data_source_ref", "ambiguous_name")]
    assert all(one in refused.json()["errors"][0]["message"] for one in twins)


async def test_another_accounts_list_is_refused_as_an_unknown_one(api: Api) -> None:
    owner, stranger = await api.person(), await api.person()
    theirs = await create_list(owner.key)
    for ref in (theirs["id"], LIST):
        body = {"name": "m", "data_source_type": "list", "data_source_ref": ref}
        refusal = await stranger.key.post("/api/monitors", json=body)
        assert problems(refusal) == [("/data_source_ref", "unknown_list")]


async def test_a_list_of_another_type_is_refused(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key, type="ip")
    body = {"name": "m", "data_source_type": "list", "data_source_ref": listed["id"]}
    assert problems(await person.key.post("/api/monitors", json=body)) == [
        ("/data_source_ref", "list_of_other_type")
    ]


async def test_what_a_get_gives_can_be_sent_back(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key)
    for body in (
        {"cron": "0 9 * * *"},
        {"data_source_ref": listed["id"]},
        {"retention_days": 5},
        {"status": "paused"},
    ):
        made = await create(person.key, **body)
        for change in (person.key.patch, person.key.put):
            answer = await change(f"/api/monitors/{made['id']}", json={**made, "name": "b"})
            assert answer.json() == {**made, "name": "b", "updated_at": answer.json()["updated_at"]}
        copy = (await person.key.post("/api/monitors", json=made)).json()
        own = ("id", "created_at", "updated_at", "next_run_at")
        assert {**copy, **{name: made[name] for name in own}} == made


async def test_the_retention_of_the_installation_sent_back_is_no_choice(api: Api, database: Database) -> None:
    person = await api.person()
    made = await create(person.key)
    await person.key.put(f"/api/monitors/{made['id']}", json=made)
    async with database.connection() as connection:
        cursor = await connection.execute("select retention_days from monitors where id = %s", (made["id"],))
        assert await cursor.fetchone() == {"retention_days": None}


async def test_the_default_tolerances_sent_back_are_no_choice(api: Api, database: Database) -> None:
    person = await api.person()
    made = await create(person.key, monitor_type="ip", tolerance={"threat.abuse_score": 0})
    assert made["tolerance"] == effective_tolerances("ip", {"threat.abuse_score": 0})
    path = f"/api/monitors/{made['id']}"
    assert (await person.key.put(path, json=made)).json()["tolerance"] == made["tolerance"]
    async with database.connection() as connection:
        cursor = await connection.execute("select tolerance from monitors where id = %s", (made["id"],))
        assert await cursor.fetchone() == {"tolerance": {"threat.abuse_score": 0}}
    changed = (await person.key.patch(path, json={"tolerance": {"malware.reputation": 2}})).json()
    assert changed["tolerance"] == effective_tolerances("ip", {"malware.reputation": 2})


@pytest.mark.parametrize(
    ("field", "taken"),
    [
        ("results.hackishness", True), ("results.body", True), ("results.crawl_date", True),
        ("query", True), ("total", True), ("results.emails", False), ("results.leak", False),
        ("results", False),
    ],
)  # fmt: skip
async def test_numbers_texts_and_arrays_of_texts_have_tolerances(api: Api, field: str, taken: bool) -> None:
    person = await api.person()
    body = {"name": "m", "monitor_type": "darkweb", "tolerance": {field: 3}}
    assert (await person.key.post("/api/monitors", json=body)).is_success == taken


async def test_one_of_frequency_and_cron_takes_the_place_of_the_other(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, frequency="daily")
    path = f"/api/monitors/{made['id']}"
    changed = (await person.key.patch(path, json={"cron": "0 9 * * *"})).json()
    assert (changed["frequency"], changed["cron"]) == (None, "0 9 * * *")
    assert changed["next_run_at"].endswith("T09:00:00Z")
    changed = (await person.key.patch(path, json={"frequency": "weekly"})).json()
    assert (changed["frequency"], changed["cron"]) == ("weekly", None)
    same = (await person.key.patch(path, json={"frequency": None, "cron": None})).json()
    assert (same["frequency"], same["cron"]) == ("weekly", None)
    both = await person.key.patch(path, json={"frequency": "daily", "cron": "0 9 * * *"})
    assert problems(both) == [("/cron", "one_schedule")]


async def test_a_change_is_checked_with_what_stays(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, monitor_type="domain", tracked_fields=["whois"])
    path = f"/api/monitors/{made['id']}"
    assert problems(await person.key.patch(path, json={"ignored_fields": ["whois"]})) == [
        ("/ignored_fields", "nothing_tracked")
    ]
    assert problems(await person.key.patch(path, json={"tracked_fields": ["security"]})) == [
        ("/tracked_fields/0", "unknown_field")
    ]
    assert await given(person.key, path) == made


async def test_the_type_of_a_monitor_stays(api: Api) -> None:
    person = await api.person()
    path = f"/api/monitors/{(await create(person.key, monitor_type='ip'))['id']}"
    assert (await person.key.patch(path, json={"monitor_type": "ip"})).status_code == 200
    assert problems(await person.key.patch(path, json={"monitor_type": "email"})) == [
        ("/monitor_type", "not_allowed")
    ]


@pytest.mark.parametrize("field", ["targets", "emails"])
async def test_targets_in_a_change_are_refused_with_the_place_for_them(api: Api, field: str) -> None:
    person = await api.person()
    path = f"/api/monitors/{(await create(person.key))['id']}"
    refusal = await person.key.patch(path, json={field: ["ada@example.com"]})
    assert problems(refusal) == [(f"/{field}", "not_allowed")]
    assert "/targets" in refusal.json()["errors"][0]["message"]


async def test_a_monitor_goes_from_its_own_targets_to_a_list_and_back(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key, targets=["ada@example.com", "bob@example.com"])
    path = f"/api/monitors/{(await create(person.key, targets=['eve@example.com']))['id']}"
    changed = (await person.key.patch(path, json={"data_source_ref": listed["id"]})).json()
    assert (changed["data_source_type"], changed["target_count"]) == ("list", 2)
    assert await given(person.key, f"{path}/targets") == ["ada@example.com", "bob@example.com"]
    kept = await person.key.patch(path, json={"data_source_type": "list"})
    assert kept.json()["data_source_ref"] == listed["id"]
    for source in ({}, {"data_source_type": "list"}):
        missing = await person.key.patch(path, json={**source, "data_source_ref": None})
        assert problems(missing) == [("/data_source_ref", "required")]
    both = await person.key.patch(path, json={"data_source_type": "inline", "data_source_ref": listed["id"]})
    assert problems(both) == [("/data_source_ref", "not_allowed")]
    changed = (await person.key.patch(path, json={"data_source_type": "inline"})).json()
    assert (changed["data_source_ref"], changed["target_count"]) == (None, 1)


@pytest.mark.parametrize("by_status", [True, False])
async def test_a_paused_monitor_is_never_due_until_it_is_resumed(api: Api, by_status: bool) -> None:
    person = await api.person()
    path = f"/api/monitors/{(await create(person.key, frequency='daily'))['id']}"

    async def become(status: str, call: str) -> dict[str, Any]:
        if by_status:
            return (await person.key.patch(path, json={"status": status})).json()
        return (await person.key.post(f"{path}/{call}")).json()

    for _ in range(2):
        paused = await become("paused", "pause")
        assert (paused["status"], paused["next_run_at"], paused["paused_reason"]) == ("paused", None, None)
    for _ in range(2):
        resumed = await become("active", "resume")
        assert (resumed["status"], resumed["next_run_at"] is None) == ("active", False)


async def test_a_monitor_can_be_made_paused(api: Api) -> None:
    person = await api.person()
    made = await create(person.key, status="paused")
    assert (made["status"], made["next_run_at"]) == ("paused", None)


async def test_a_monitor_whose_list_is_deleted_is_paused_and_resumes_with_another(api: Api) -> None:
    person = await api.person()
    first, second = [await create_list(person.key, targets=["ada@example.com"]) for _ in range(2)]
    path = f"/api/monitors/{(await create(person.key, data_source_ref=first['id']))['id']}"
    await person.key.delete(f"/api/lists/{first['id']}")
    paused = await given(person.key, path)
    assert (paused["status"], paused["paused_reason"], paused["target_count"]) == (
        "paused",
        "list_deleted",
        0,
    )
    assert await given(person.key, f"{path}/targets") == []
    assert (await person.key.patch(path, json={**paused, "name": "b"})).json()["name"] == "b"
    for refusal in (
        await person.key.post(f"{path}/resume"),
        await person.key.patch(path, json={"status": "active"}),
        await person.key.post(f"{path}/run"),
    ):
        assert refused(refusal) == (409, "list_deleted")
    wanted = {"status": "active", "data_source_ref": second["id"]}
    resumed = (await person.key.patch(path, json=wanted)).json()
    assert (resumed["status"], resumed["paused_reason"], resumed["target_count"]) == ("active", None, 1)


async def test_a_change_that_cannot_be_resumed_changes_nothing(api: Api) -> None:
    person = await api.person()
    listed = await create_list(person.key)
    path = f"/api/monitors/{(await create(person.key, data_source_ref=listed['id']))['id']}"
    await person.key.delete(f"/api/lists/{listed['id']}")
    refusal = await person.key.patch(path, json={"name": "changed", "status": "active"})
    assert refused(refusal) == (409, "list_deleted")
    assert (await given(person.key, path))["name"] == "a monitor"


async def test_a_deleted_monitor_is_gone_with_its_runs_and_its_run_is_cancelled(api: Api) -> None:
    person = await api.person(credits=10)
    monitor_id = await watching(person.key, "example.com", "example.org")
    await start(person, monitor_id)
    assert (await given(person.key, "/api/credits"))["balance"] == 8
    assert (await person.key.delete(f"/api/monitors/{monitor_id}")).json() == {"status": "deleted"}
    assert (await given(person.key, "/api/credits"))["balance"] == 10
    assert await given(person.key, "/api/monitoring/runs") == {"runs": [], "total": 0}
    for refusal in (
        await person.key.delete(f"/api/monitors/{monitor_id}"),
        await person.key.get(f"/api/monitors/{monitor_id}/runs"),
        await person.key.get(f"/api/monitors/{monitor_id}/targets"),
    ):
        assert refused(refusal) == (404, "not_found")


async def test_what_happens_to_a_monitor_stands_in_the_audit_log(api: Api, database: Database) -> None:
    person = await api.person()
    path = f"/api/monitors/{(await create(person.key))['id']}"
    await person.key.patch(path, json={"name": "second", "status": "paused"})
    await person.key.patch(path, json={"name": "second"})
    await person.key.post(f"{path}/targets", json=["ada@example.com"])
    await person.key.request("DELETE", f"{path}/targets", json=["ada@example.com"])
    await person.key.post(f"{path}/resume")
    await person.key.delete(path)
    async with database.connection() as connection:
        found = await audit.list_entries(connection, person.account.id, target_kind="monitor", limit=100)
    assert [entry.action for entry in reversed(found)] == [
        f"monitor.{action}" for action in
        ("created", "changed", "paused", "targets_added", "targets_removed", "resumed", "deleted")
    ]  # fmt: skip


async def test_an_account_has_at_most_a_thousand_monitors_also_when_two_are_made_at_once(
    api: Api, database: Database
) -> None:
    person = await api.person()
    async with database.connection() as connection:
        await connection.execute(
            "insert into monitors (id, account_id, name, status, monitor_type, frequency, timezone,"
            " change_detection, tracked_fields, ignored_fields, tolerance, target_count, created_at,"
            " updated_at) select gen_random_uuid(), %s, 'm', 'paused', 'ip', 'daily', 'UTC', 'diff_only',"
            " '{}', '{}', '{}', 0, now(), now() from generate_series(1, 999)",
            (person.account.id,),
        )
    answers = await asyncio.gather(*(person.key.post("/api/monitors", json={"name": "m"}) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"too_many_monitors"}
    assert (await given(person.key, "/api/monitors"))["total"] == 1_000


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/api/monitors?type=username", "type"),
        ("/api/monitoring/runs?limit=0", "limit"),
        ("/api/monitoring/runs?limit=101", "limit"),
        ("/api/monitoring/results?offset=-1", "offset"),
        ("/api/monitoring/results?offset=99999999999999999999", "offset"),
        ("/api/monitoring/results?changes_only=perhaps", "changes_only"),
        ("/api/monitoring/targets?type=", "type"),
        (f"/api/monitors/{LIST}/targets/history", "target"),
        (f"/api/monitors/{LIST}/targets/history?target=a%00b", "target"),
        (f"/api/monitors/{LIST}/targets/history?target=a&cursor=x", "cursor"),
        (f"/api/monitors/{LIST}/runs/{LIST}/results?limit=x", "limit"),
    ],
)
async def test_a_bad_parameter_is_named(api: Api, path: str, parameter: str) -> None:
    person = await api.person()
    response = await person.key.get(path)
    assert response.status_code == 400, response.text
    assert [error["parameter"] for error in response.json()["errors"]] == [parameter]
