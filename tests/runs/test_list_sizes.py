"""How much a page of GET /api/workflows/runs has. Nobody takes these runs forward."""

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Json

from database import Database
from models.automations import run_targets
from models.runs.acceptance import RunRequest, accept
from tests.api_server import Api, Person
from tests.automations.engine import transform
from tests.runs.workflows import create, start

MIB = 1024 * 1024


async def test_a_page_of_a_hundred_runs_has_less_than_100_kb(api: Api, database: Database) -> None:
    person = await api.person()
    workflow = await create(person, [transform(f"step_{n}", "'x'") for n in range(20)], name="n" * 100)
    await many(database, person, workflow, 100, {"text": "x" * 10_000})
    page = await person.key.get("/api/workflows/runs?limit=100")
    assert len(page.json()["runs"]) == 100
    assert len(page.content) < 100_000


async def many(database: Database, person: Person, workflow: str, count: int, payload: Any) -> None:
    """Accept so many runs of a workflow at once."""
    async with database.connection() as connection:
        target = await run_targets.run_target(connection, person.account.id, UUID(workflow))
        await accept(connection, [RunRequest(target, "manual", payload) for _ in range(count)])


async def test_a_page_has_4_mib_of_parts_the_newest_runs_first(api: Api, database: Database) -> None:
    person = await api.person()
    workflow = await create(person)
    await many(database, person, workflow, 1, "small and old")
    await many(database, person, workflow, 6, "x" * 900_000)
    runs = (await person.key.get("/api/workflows/runs?include=input,output,steps")).json()["runs"]
    assert ["input" in run for run in runs] == [True] * 4 + [False] * 2 + [True]
    assert [run["omitted"] for run in runs] == [[]] * 4 + [["input"]] * 2 + [[]]
    assert all((run["output"], run["steps"]) == (None, []) for run in runs)


async def step_done(database: Database, run_id: str, output: Any, items: Sequence[Any] = ()) -> None:
    """Write that step `a` of a run is done; its output, or that of its items, is the run's."""
    async with database.connection() as connection:
        await connection.execute("update runs set output_of = 'a' where id = %s", (run_id,))
        await connection.execute(
            "insert into run_steps (run_id, step_id, position, status, output, attempts, gathered)"
            " values (%s, 'a', 0, 'completed', %s, 1, %s)",
            (run_id, Json(output), bool(items)),
        )
        for number, item in enumerate(items):
            await connection.execute(
                "insert into run_step_items (run_id, step_id, item, status, output, attempts)"
                " values (%s, 'a', %s, 'completed', %s, 1)",
                (run_id, number, Json(item)),
            )


@pytest.mark.parametrize(
    ("output", "items"),
    [
        ("x" * 5 * MIB, ()),
        (random.Random(1).randbytes(5 * MIB // 2).hex(), ()),
        (None, ["x" * 2 * MIB] * 3),
    ],
    ids=["is compressed in its row", "is not compressed", "is that of items"],
)
async def test_a_large_output_has_no_room(
    api: Api, database: Database, output: Any, items: list[str]
) -> None:
    person = await api.person()
    workflow = await create(person, [transform("a", "'x'")])
    small, large = [await start(person, workflow) for _ in range(2)]
    await step_done(database, small, "small")
    await step_done(database, large, output, items)
    page = (await person.key.get("/api/workflows/runs?include=output,steps")).json()
    newest, oldest = page["runs"]
    assert (newest["omitted"], newest["steps_completed"]) == (["output", "steps"], 1)
    assert "output" not in newest and "steps" not in newest
    assert (oldest["omitted"], oldest["output"], oldest["steps"][0]["output"]) == ([], "small", "small")
