"""POST /api/workflows/runs/bulk: many runs retried or cancelled at once."""

import asyncio
from typing import Any
from uuid import UUID

import psycopg
import pytest

from database import Connection
from models.runs import bulk_actions, bulk_choice, confirmations
from models.runs.bulk_actions import Share
from models.runs.run_bounds import UnfinishedRuns
from tests.api_server import Api, Person
from tests.automations.engine import transform, until
from tests.runs.bulk_actions import (
    ACTIONS,
    BULK,
    confirm_action,
    create_failing_runs,
    make_dry_run,
    retries_of,
    retry_all,
    wait_for_action,
    wait_for_run,
)
from tests.runs.workflows import create, finish, problem, start


@pytest.fixture
async def person(api: Api) -> Person:
    return await api.person(credits=100)


async def test_failed_runs_of_a_filter_are_retried_each_once(person: Person, worker: None) -> None:
    workflow, failed = await create_failing_runs(person, 3)
    other, _ = await create_failing_runs(person, 1)
    chosen = {"workflow_id": workflow, "status": "failed"}
    told = await make_dry_run(person.key, chosen)
    assert (told["count"], told["credits_max"]) == (3, 0)
    _, late = workflow, (await finish(person, workflow, "text"))["id"]
    response = await confirm_action(person.key, chosen, told["confirm"])
    assert response.status_code == 202, response.text
    action = response.json()
    assert response.headers["location"] == f"{ACTIONS}/{action['id']}"
    assert (action["filter"], action["total"]) == (chosen, 3)
    action = await wait_for_action(person, action["id"])
    assert (action["status"], action["done"], action["skipped"], action["failed"]) == ("completed", 3, {}, 0)
    assert await retries_of(person, workflow) == sorted(failed), f"not {late}, made after the dry run"
    assert await retries_of(person, other) == []


async def test_two_requests_with_one_confirmation_are_one_action(person: Person, worker: None) -> None:
    workflow, failed = await create_failing_runs(person, 2)
    chosen = {"workflow_id": workflow}
    confirm = (await make_dry_run(person.key, chosen))["confirm"]
    both = await asyncio.gather(*(confirm_action(person.key, chosen, confirm) for _ in range(2)))
    assert len({answer.json()["id"] for answer in both}) == 1
    await wait_for_action(person, both[0].json()["id"])
    again = await confirm_action(person.key, chosen, confirm)
    assert (again.status_code, again.json()["status"]) == (202, "completed")
    assert await retries_of(person, workflow) == sorted(failed)


async def test_unfinished_runs_are_cancelled_and_ended_ones_are_left(person: Person, worker: None) -> None:
    workflow = await create(person, [{"id": "a", "type": "delay", "config": {"days": 1}}])
    runs = [await start(person, workflow) for _ in range(3)]
    chosen = {"workflow_id": workflow}
    told = await make_dry_run(person.key, chosen, action="cancel")
    assert (told["count"], told["credits_max"]) == (3, 0)
    response = await confirm_action(person.key, chosen, told["confirm"], action="cancel")
    action = await wait_for_action(person, response.json()["id"])
    assert action["done"] == 3
    for run_id in runs:
        assert (await person.key.get(f"/api/workflows/runs/{run_id}")).json()["status"] == "cancelled"
    assert (await make_dry_run(person.key, chosen, action="cancel"))["count"] == 0
    assert (await make_dry_run(person.key, chosen))["count"] == 3, "cancelled runs can be retried"


async def test_the_newest_version_is_run_if_that_is_asked_for(person: Person, worker: None) -> None:
    workflow, failed = await create_failing_runs(person, 1)
    steps = [transform("broken", "'mended'")]
    await person.key.patch(f"/api/workflows/{workflow}", json={"steps": steps})
    chosen = {"workflow_id": workflow}
    told = await make_dry_run(person.key, chosen, version="newest")
    await wait_for_action(
        person,
        (await confirm_action(person.key, chosen, told["confirm"], version="newest")).json()["id"],
    )

    async def look() -> dict[str, Any] | None:
        found = await person.key.get(
            "/api/workflows/runs", params={"workflow_id": workflow, "status": "completed"}
        )
        return next(iter(found.json()["runs"]), None)

    run = await until(look)
    assert (run["restarted_from"], run["workflow_version"]) == (failed[0], 2)


async def test_a_run_that_a_rule_refuses_is_skipped_with_its_reason(person: Person, worker: None) -> None:
    workflow, failed = await create_failing_runs(person, 1)
    chosen = {"workflow_id": workflow}
    confirm = (await make_dry_run(person.key, chosen))["confirm"]
    await person.key.patch(f"/api/workflows/{workflow}", json={"status": "paused"})
    action = await wait_for_action(person, (await confirm_action(person.key, chosen, confirm)).json()["id"])
    assert (action["done"], action["skipped"]) == (0, {"workflow_not_active": 1})
    assert [(error["run_id"], error["code"]) for error in action["errors"]] == [
        (failed[0], "workflow_not_active")
    ]


async def test_of_a_run_and_its_failed_retry_only_the_retry_is_taken(person: Person, worker: None) -> None:
    workflow, [first, second] = await create_failing_runs(person, 2)
    retry = (await person.key.post(f"/api/workflows/runs/{first}/retry")).json()["run_id"]
    await wait_for_run(person, retry)
    chosen = {"workflow_id": workflow}
    told = await make_dry_run(person.key, chosen)
    assert told["count"] == 2
    await wait_for_action(person, (await confirm_action(person.key, chosen, told["confirm"])).json()["id"])
    assert await retries_of(person, workflow) == sorted([first, second, retry])


async def test_two_actions_of_the_same_runs_retry_each_once(person: Person, worker: None) -> None:
    workflow, failed = await create_failing_runs(person, 3)
    chosen = {"workflow_id": workflow}
    confirms = [(await make_dry_run(person.key, chosen))["confirm"] for _ in range(2)]
    both = await asyncio.gather(*(confirm_action(person.key, chosen, confirm) for confirm in confirms))
    actions = [await wait_for_action(person, answer.json()["id"]) for answer in both]
    assert sum(action["done"] for action in actions) == 3
    refused = sum(action["skipped"].get("already_retried", 0) for action in actions)
    assert refused == sum(action["total"] for action in actions) - 3
    assert await retries_of(person, workflow) == sorted(failed)


async def test_an_action_that_is_cancelled_takes_no_more_runs(
    person: Person, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, _ = await create_failing_runs(person, 2)
    monkeypatch.setattr(bulk_actions, "_SHARE", 1)
    take, shares, is_cancelled = bulk_actions.take, list[UUID](), asyncio.Event()

    async def take_one_before_the_cancellation(connection: Connection) -> Share | None:
        if shares and not is_cancelled.is_set():
            return None
        if share := await take(connection):
            shares.append(share.action_id)
        return share

    monkeypatch.setattr(bulk_actions, "take", take_one_before_the_cancellation)
    action_id = await retry_all(person, {"workflow_id": workflow})

    async def look() -> bool:
        return (await person.key.get(f"{ACTIONS}/{action_id}")).json()["status"] == "running"

    await until(look)
    action = (await person.key.post(f"{ACTIONS}/{action_id}/cancel")).json()
    assert (action["status"], action["done"]) == ("cancelled", 1)
    is_cancelled.set()
    other = await retry_all(person, {"workflow_id": (await create_failing_runs(person, 1))[0]})
    assert (await wait_for_action(person, other))["done"] == 1
    assert shares == [UUID(action_id), UUID(other)]
    assert (await person.key.get(f"{ACTIONS}/{action_id}")).json() == action
    assert len(await retries_of(person, workflow)) == 1


async def test_a_request_that_is_sent_again_with_its_key_has_the_same_answer(person: Person) -> None:
    confirm = (await make_dry_run(person.key, {"step": "a"}))["confirm"]
    body = {"filter": {"step": "a"}, "action": "retry", "confirm": confirm}
    headers = {"Idempotency-Key": confirm[:30]}
    answers = [await person.key.post(BULK, json=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"
    other = await person.key.post(BULK, json=body | {"filter": {"step": "b"}}, headers=headers)
    assert problem(other) == (422, "idempotency_key_reused")


async def test_a_filter_of_more_runs_than_an_action_takes_is_refused(
    person: Person, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, _ = await create_failing_runs(person, 3)
    chosen = {"workflow_id": workflow}
    monkeypatch.setattr(bulk_choice, "MOST", 2)
    body = {"filter": chosen, "action": "retry", "dry": True}
    response = await person.key.post(BULK, json=body)
    assert problem(response) == (409, "too_many_chosen")
    assert response.json()["limit"] == 2
    monkeypatch.setattr(bulk_choice, "MOST", 3)
    assert (await make_dry_run(person.key, chosen))["count"] == 3


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"filter": None}, "/filter"),
        ({"filter": {"state": "failed"}}, "/filter/state"),
        ({"filter": {"status": "queued"}}, "/filter/status"),
        ({"filter": {"status": "failed"}, "action": "cancel"}, "/filter/status"),
        ({"filter": {"since": 5}}, "/filter/since"),
        ({"filter": {"since": "2026-11-02T00:00:00Z", "until": "2026-11-01T00:00:00Z"}}, "/filter/until"),
        ({"filter": {"error_code": "x" * 101}}, "/filter/error_code"),
        ({"action": "delete"}, "/action"),
        ({"version": 2}, "/version"),
        ({"version": "newest", "action": "cancel"}, "/version"),
        ({"dry": "yes"}, "/dry"),
        ({"dry": True, "confirm": "x"}, "/confirm"),
        ({"dry": False}, "/confirm"),
        ({"dry": False, "confirm": 5}, "/confirm"),
    ],
)
async def test_bad_input_is_named(person: Person, change: dict[str, Any], wrong: str) -> None:
    body: dict[str, Any] = {"filter": {}, "action": "retry", "dry": True}
    response = await person.key.post(BULK, json=body | change)
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [wrong]


async def test_a_confirmation_is_good_for_its_own_wish_alone(api: Api, person: Person) -> None:
    confirm = (await make_dry_run(person.key, {"step": "a"}))["confirm"]
    refused = (409, "confirmation_mismatch")
    assert problem(await confirm_action(person.session, {"step": "a"}, confirm)) == refused
    assert problem(await confirm_action((await api.person()).key, {"step": "a"}, confirm)) == refused
    assert problem(await confirm_action(person.key, {"step": "b"}, confirm)) == refused
    assert problem(await confirm_action(person.key, {"step": "a"}, confirm, action="cancel")) == refused
    assert problem(await confirm_action(person.key, {"step": "a"}, confirm, version="newest")) == refused
    for forged in ("é" * 54, confirm[:-2], confirm[::-1]):
        assert problem(await confirm_action(person.key, {"step": "a"}, forged)) == refused, forged
    assert (await confirm_action(person.key, {"step": "a"}, confirm)).json()["status"] == "completed", (
        "of none"
    )


async def test_a_confirmation_ends_after_ten_minutes(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    confirm = (await make_dry_run(person.key, {}))["confirm"]
    with monkeypatch.context() as patch:
        patch.setattr(confirmations, "MINUTES", -1)
        assert problem(await confirm_action(person.key, {}, confirm)) == (409, "confirmation_expired")
    assert (await confirm_action(person.key, {}, confirm)).status_code == 202


async def test_a_share_that_is_lost_before_its_commit_is_taken_again_and_no_run_twice(
    person: Person, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, failed = await create_failing_runs(person, 5)
    monkeypatch.setattr(bulk_actions, "_SHARE", 2)
    record, shares = bulk_actions.record, list[Share]()

    async def lose_the_second(connection: Connection, share: Share) -> None:
        shares.append(share)
        if len(shares) == 2:
            raise psycopg.OperationalError("the connection is lost")
        await record(connection, share)

    monkeypatch.setattr(bulk_actions, "record", lose_the_second)
    chosen = {"workflow_id": workflow}
    confirm = (await make_dry_run(person.key, chosen))["confirm"]
    action = await wait_for_action(person, (await confirm_action(person.key, chosen, confirm)).json()["id"])
    assert (action["done"], len(shares)) == (5, 4)
    assert await retries_of(person, workflow) == sorted(failed)


async def test_retries_wait_while_the_account_has_no_room(
    person: Person, worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, failed = await create_failing_runs(person, 2)
    monkeypatch.setattr(bulk_actions, "_PAUSE_SECONDS", 0.1)
    find_full, asked = UnfinishedRuns.find_full, list[UUID]()

    async def be_full_once(self: UnfinishedRuns, connection: Connection, new: dict[UUID, int]) -> set[UUID]:
        asked.extend(new)
        return set(new) if len(asked) == 2 else await find_full(self, connection, new)

    chosen = {"workflow_id": workflow}
    confirm = (await make_dry_run(person.key, chosen))["confirm"]
    monkeypatch.setattr(UnfinishedRuns, "find_full", be_full_once)
    action = await wait_for_action(person, (await confirm_action(person.key, chosen, confirm)).json()["id"])
    assert (action["done"], action["skipped"], len(asked)) == (2, {}, 3)
    assert await retries_of(person, workflow) == sorted(failed)
