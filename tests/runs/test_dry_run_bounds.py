"""How much a dry run may do, how many an account has, and whom it keeps waiting."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from engine.dry_run import MAX_NODES
from models import limits
from services.dry_runs import Place, only_one
from tests.api_server import Api, Person
from tests.automations.engine import transform
from tests.runs.workflows import create, problem
from tests.stacks import eventually

PAIRS = "length(map(&length(map(&@, $.trigger)), trigger))"
NUMBERS = list(range(280))
# One of the items is light: a step of which all items fail would fail.
HEAVY = [
    transform(f"s{n}", f"item == `0` && `1` || {PAIRS}", for_each="trigger[:7]", on_error="continue")
    for n in range(100)
]


async def dry_run(person: Person, workflow: str, payload: Any = NUMBERS) -> dict[str, Any]:
    response = await person.key.post(f"/api/workflows/{workflow}/test", json={"input": payload})
    assert response.status_code == 200, response.text
    return response.json()


async def test_all_steps_together_have_one_budget_of_nodes(person: Person) -> None:
    run = await dry_run(person, await create(person, HEAVY))
    assert (run["status"], run["error"]["code"]) == ("failed", "dry_run_too_large")
    assert f"{MAX_NODES:,} nodes" in run["error"]["message"]
    done = [step["id"] for step in run["steps"] if step["status"] == "completed"]
    assert 0 < len(done) < 100 and run["error"]["step"] == f"s{len(done)}"


async def test_all_steps_together_have_one_budget_of_bytes(person: Person) -> None:
    steps = [transform(f"s{n}", "trigger") for n in range(10)]
    run = await dry_run(person, await create(person, steps), ["x" * 1000] * 900)
    assert (run["status"], run["error"]["code"]) == ("failed", "dry_run_too_large")
    assert "4 MiB" in run["error"]["message"]
    assert run["error"]["step"] == [s["id"] for s in run["steps"] if s["status"] == "completed"][-1]


async def test_a_hundred_plain_steps_over_a_large_input_are_not_too_much(person: Person) -> None:
    steps = [transform(f"s{n}", "length(trigger[?n > `5`])") for n in range(100)]
    run = await dry_run(person, await create(person, steps), [{"n": n} for n in range(5000)])
    assert (run["status"], run["output"]) == ("completed", 4994)


@pytest.mark.parametrize(
    ("path", "place", "other"),
    [("validate", "validation", "dry_run"), ("{workflow}/test", "dry_run", "validation")],
)
async def test_an_account_has_one_dry_run_and_one_check_at_a_time_over_all_processes(
    api: Api, person: Person, path: str, place: Place, other: Place
) -> None:
    workflow = await create(person)
    path = f"/api/workflows/{path.format(workflow=workflow)}"
    async with only_one(api.services.database, person.account.id, place):
        refused = await person.key.post(path, json={"name": "w"} if path.endswith("validate") else {})
        assert problem(refused) == (429, "dry_run_in_progress")
        assert int(refused.headers["retry-after"]) >= 1
        stranger = await api.person()
        assert (await stranger.key.post("/api/workflows/validate", json={"name": "w"})).status_code == 200
    async with only_one(api.services.database, person.account.id, other):
        accepted = await person.key.post(path, json={"name": "w"} if path.endswith("validate") else {})
    assert accepted.status_code == 200


async def test_a_refused_or_failed_dry_run_gives_its_place_back(person: Person) -> None:
    workflow = await create(person, input_schema={"type": "object"})
    for _ in range(2):
        response = await person.key.post(f"/api/workflows/{workflow}/test", json={"input": []})
        assert problem(response) == (400, "invalid_input")


async def test_who_is_cancelled_while_it_asks_for_its_place_keeps_none(api: Api, person: Person) -> None:
    database = api.services.database

    async def ask() -> None:
        async with only_one(database, person.account.id):
            raise AssertionError("it was cancelled before")

    async with database.transaction() as connection:
        await connection.execute("lock table rate_windows in access exclusive mode")
        asking = asyncio.create_task(ask())
        await asyncio.sleep(0)
        asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled()
    async with only_one(database, person.account.id):
        pass


async def test_a_place_that_nobody_gives_back_is_free_after_its_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await api.person()
    monkeypatch.setattr("services.dry_runs._LEASE_SECONDS", 1)
    async with api.services.database.connection() as connection:
        assert await limits.hold(connection, ("dry_run", str(person.account.id)), 1)

    async def accepted() -> bool:
        body = {"name": "w"}
        return (await person.key.post("/api/workflows/validate", json=body)).status_code == 200

    await eventually(accepted, what="the place is free")


async def test_a_process_that_is_killed_fails_its_dry_run_alone(api: Api, person: Person) -> None:
    workflow = await create(person, HEAVY[:5])
    pool = api.services.pool
    assert (await dry_run(person, workflow))["status"] == "completed"
    [pid] = pool.pids
    os.kill(pid, signal.SIGSTOP)
    lost = asyncio.ensure_future(person.key.post(f"/api/workflows/{workflow}/test", json={"input": NUMBERS}))
    await eventually(lambda: pool.busy == 1, what="the process has its work")
    os.kill(pid, signal.SIGKILL)
    assert problem(await lost) == (503, "work_lost")
    assert (await dry_run(person, workflow))["status"] == "completed"


async def test_a_dry_run_that_stands_still_keeps_no_neighbour_waiting(api: Api) -> None:
    person, neighbour = await api.person(), await api.person()
    workflow, pool = await create(person, HEAVY[:5]), api.services.pool
    await dry_run(person, workflow)
    for pid in pool.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        still = asyncio.ensure_future(dry_run(person, workflow))
        await eventually(lambda: pool.busy == 1, what="the process has its work")
        theirs = await create(neighbour, [transform("a", "trigger")])
        assert (await dry_run(neighbour, theirs, 5))["output"] == 5
        assert not still.done()
    finally:
        for pid in pool.pids:
            os.kill(pid, signal.SIGCONT)
    assert (await still)["status"] == "completed"
