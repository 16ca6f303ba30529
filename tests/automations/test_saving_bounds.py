"""What saving workflows may cost: how they run each other is known by edges, and an account takes turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

import pytest

from database import Database
from migrations.upgrade import downgrade, upgrade
from services.save_places import AT_A_TIME
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.families import running_step
from tests.automations.workflows import create, problem, wrong

JSONObject = dict[str, Any]


@pytest.fixture
async def crowded(settings: Settings) -> AsyncGenerator[Person]:
    """Somebody who may have two workflows."""
    async with running(settings, max_workflows=2) as api:
        yield await api.person()


async def steps_of(person: Person, *names: str) -> dict[str, str]:
    """Workflows by name, each of which runs the one before it."""
    ids: dict[str, str] = {}
    for name in names:
        steps = [running_step(list(ids.values())[-1])] if ids else []
        ids[name] = (await create(person, steps=steps))["id"]
    return ids


async def change(person: Person, workflow_id: str, *children: str) -> Any:
    steps = [{**running_step(child), "id": f"s{number}"} for number, child in enumerate(children)]
    return await person.key.patch(f"/api/workflows/{workflow_id}", json={"steps": steps})


async def test_who_runs_whom_is_known_without_reading_definitions(person: Person, database: Database) -> None:
    ids = await steps_of(person, "a", "b", "c")
    async with database.connection() as connection:
        await connection.execute(
            "update automation_versions set definition = '{}' where automation_id = any(%s)",
            ([ids["b"], ids["c"]],),
        )
    assert wrong(await change(person, ids["a"], ids["c"])) == {
        ("/steps/0/config/workflow_id", "workflow_cycle")
    }


async def test_each_step_that_leads_back_or_too_deep_is_named_and_no_other(person: Person) -> None:
    chain = await steps_of(person, "1", "2", "3", "4", "5", "6")
    own = (await create(person))["id"]
    back = (await create(person, steps=[running_step(own)]))["id"]
    fine = (await create(person))["id"]
    answer = await change(person, own, fine, back, chain["6"], chain["5"], own, back)
    assert wrong(answer) == {
        ("/steps/1/config/workflow_id", "workflow_cycle"),
        ("/steps/2/config/workflow_id", "workflow_too_deep"),
        ("/steps/4/config/workflow_id", "workflow_cycle"),
        ("/steps/5/config/workflow_id", "workflow_cycle"),
    }


async def test_what_an_earlier_version_ran_counts_no_more(person: Person) -> None:
    ids = await steps_of(person, "a", "b")
    assert (await change(person, ids["b"])).status_code == 200
    assert (await change(person, ids["a"], ids["b"])).status_code == 200


async def test_what_a_deleted_workflow_ran_counts_no_more(person: Person, database: Database) -> None:
    ids = await steps_of(person, "a", "b")
    await person.key.delete(f"/api/workflows/{ids['b']}")
    async with database.connection() as connection:
        cursor = await connection.execute("select from automation_children where child_id = %s", (ids["a"],))
        assert cursor.rowcount == 0


async def test_the_workflows_of_before_are_known_after_the_upgrade(
    person: Person, database: Database
) -> None:
    ids = await steps_of(person, "a", "b")
    before = import_module("migrations.versions.0031_automation_children").down_revision
    await asyncio.to_thread(downgrade, database.url, before)
    await asyncio.to_thread(upgrade, database.url)
    assert wrong(await change(person, ids["a"], ids["b"])) == {
        ("/steps/0/config/workflow_id", "workflow_cycle")
    }


async def test_an_account_has_two_saves_at_a_time_and_the_next_waits(api: Api, person: Person) -> None:
    async with AsyncExitStack() as held:
        for _ in range(AT_A_TIME):
            await held.enter_async_context(api.services.saves.hold(person.account.id))
        waiting = asyncio.create_task(create(person))
        await create(await api.person())
        assert not waiting.done()
    assert (await waiting)["version"] == 1


async def test_a_save_that_waits_for_too_long_is_refused(
    api: Api, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.save_places._PATIENCE_SECONDS", 0.01)
    async with AsyncExitStack() as held:
        for _ in range(AT_A_TIME):
            await held.enter_async_context(api.services.saves.hold(person.account.id))
        refused = await person.key.post("/api/workflows", json={"name": "w"})
        assert problem(refused) == (429, "saves_in_progress")
        assert int(refused.headers["retry-after"]) >= 1


async def test_an_account_has_so_many_workflows_however_many_it_makes_at_once(crowded: Person) -> None:
    made = await asyncio.gather(*(crowded.key.post("/api/workflows", json={"name": "w"}) for _ in range(6)))
    assert sorted(answer.status_code for answer in made) == [201, 201, 409, 409, 409, 409]
    assert {problem(answer) for answer in made if answer.status_code == 409} == {(409, "too_many_workflows")}
    template = await crowded.key.post("/api/workflows", json={"template_id": "alert-on-tor"})
    assert problem(template) == (409, "too_many_workflows")


async def test_a_deleted_workflow_makes_room_for_another(crowded: Person) -> None:
    made = [await create(crowded) for _ in range(2)]
    await crowded.key.delete(f"/api/workflows/{made[0]['id']}")
    await create(crowded)
