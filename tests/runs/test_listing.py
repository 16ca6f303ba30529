"""GET /api/workflows/runs."""

from typing import Any
from uuid import UUID

import pytest

from database import Connection, Database
from models import credits, runs
from tests.api_server import Api, Person
from tests.automations.engine import transform
from tests.runs.workflows import adrift, create, finish, start


async def test_runs_are_listed_by_page_newest_first(api: Api) -> None:
    person = await api.person()
    workflow = await create(person)
    ids = [await start(person, workflow, n) for n in range(3)]
    page = (await person.key.get("/api/workflows/runs?limit=2")).json()
    assert ([run["id"] for run in page["runs"]], page["total"], page["page"]) == (ids[:0:-1], 3, 1)
    rest = (await person.key.get("/api/workflows/runs?limit=2&page=2")).json()
    assert ([run["id"] for run in rest["runs"]], rest["total"], rest["page"]) == (ids[:1], 3, 2)


async def test_a_listed_run_is_the_run_object(person: Person, worker: None) -> None:
    workflow = await create(person, [transform("a", "trigger"), transform("b", "[a, a]")])
    run = await finish(person, workflow, 1)
    assert (run["restarted_from"], run["test"]) == (None, False)
    page = (await person.key.get(f"/api/workflows/runs?workflow_id={workflow}")).json()
    assert page["runs"] == [run]


async def test_runs_of_one_workflow_or_one_status_can_be_listed(api: Api, worker: None) -> None:
    person = await api.person()
    one, other = await create(person), await create(person, [transform("fails", "sum(trigger)")])
    first, second = (await finish(person, one))["id"], (await finish(person, other))["id"]

    async def listed(query: str) -> tuple[list[str], int]:
        page = (await person.key.get(f"/api/workflows/runs?{query}")).json()
        return [run["id"] for run in page["runs"]], page["total"]

    assert await listed(f"workflow_id={one}") == ([first], 1)
    assert await listed("status=completed") == ([first], 1)
    assert await listed("status=failed") == ([second], 1)
    assert await listed(f"workflow_id={other}&status=completed") == ([], 0)


@pytest.mark.parametrize("workflow", ["another", "nonsense"])
async def test_a_workflow_that_is_not_the_accounts_has_no_runs(
    api: Api, person: Person, workflow: str
) -> None:
    stranger = await api.person()
    theirs = await create(stranger)
    await start(stranger, theirs)
    wanted = theirs if workflow == "another" else workflow
    page = (await person.key.get(f"/api/workflows/runs?workflow_id={wanted}")).json()
    assert page == {"runs": [], "total": 0, "page": 1}


@pytest.mark.parametrize("query", ["status=lost", "limit=101", "limit=0", "page=0"])
async def test_a_filter_that_cannot_be_is_refused(person: Person, query: str) -> None:
    response = await person.key.get(f"/api/workflows/runs?{query}")
    assert response.status_code == 400
    assert response.json()["errors"][0]["parameter"] == query.partition("=")[0]


class Counting:
    """A connection that counts its statements."""

    def __init__(self, connection: Connection) -> None:
        self.statements = 0
        self._connection = connection

    async def execute(self, *arguments: Any) -> Any:
        self.statements += 1
        return await self._connection.execute(*arguments)


async def test_a_page_takes_as_many_statements_however_many_runs_it_has(api: Api, database: Database) -> None:
    person = await api.person()
    workflow = await create(person, [transform("a", "'x'")])
    counts: list[int] = []
    for wanted in (1, 5):
        while (await person.key.get("/api/workflows/runs")).json()["total"] < wanted:
            await start(person, workflow)
        async with database.connection() as connection:
            counting: Any = Counting(connection)
            views, _ = await runs.list_page(
                counting, person.account.id, automation_id=None, status=None, page=1, limit=100
            )
        assert len(views) == wanted
        counts.append(counting.statements)
    assert counts[0] == counts[1]


async def test_what_a_run_costs_counts_while_it_goes_on(person: Person, database: Database) -> None:
    run_id = await adrift(person, database)
    async with database.connection() as connection:
        await connection.execute(
            "insert into run_steps (run_id, step_id, position, status, attempts, credits_used)"
            " values (%s, 'a', 0, 'completed', 1, 3)",
            (run_id,),
        )
        reference = f"run/{run_id}/a"
        await credits.charge(connection, person.account.id, 3, reference, "test", run_id=UUID(run_id))
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    assert (run["credits_used"], run["steps_completed"], run["steps_total"]) == (3, 1, 2)
