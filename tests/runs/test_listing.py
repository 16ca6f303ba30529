"""GET /api/workflows/runs."""

from typing import Any
from uuid import UUID

import pytest

from database import Connection, Database
from models.credits import credits
from models.credits.credits import Booking
from models.runs import run_lists
from models.runs.run_queries import RunQuery
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


PARTS = ("input", "output", "steps")


async def listed(person: Person, query: str) -> dict[str, Any]:
    """The one run that a query lists."""
    [run] = (await person.key.get(f"/api/workflows/runs?{query}")).json()["runs"]
    return run


async def test_a_listed_run_is_the_run_object_without_its_large_parts(person: Person, worker: None) -> None:
    workflow = await create(person, [transform("a", "trigger"), transform("b", "[a, a]")])
    run = await finish(person, workflow, 1)
    assert (run["restarted_from"], run["test"]) == (None, False)
    light = {name: value for name, value in run.items() if name not in ELSEWHERE}
    assert await listed(person, f"workflow_id={workflow}") == light
    assert (light["steps_total"], light["steps_completed"]) == (2, 2)


async def test_a_listed_run_says_how_many_items_failed(person: Person, worker: None) -> None:
    sums = transform("a", "sum(item)") | {"for_each": "trigger", "on_error": "continue"}
    run = await finish(person, await create(person, [sums]), [[1], "x"])
    listed_run = await listed(person, f"workflow_id={run['workflow_id']}")
    assert (listed_run["items_total"], listed_run["items_failed"]) == (2, 1)


# What only the run by its id has, unless it is asked for.
ELSEWHERE = {*PARTS, "resume_urls"}


@pytest.mark.parametrize(
    ("query", "included"),
    [
        ("include=", ()),
        ("include=output", ("output",)),
        ("include=input,output,steps", PARTS),
        ("include=steps&include=input, output&include=input", PARTS),
    ],
)
async def test_a_list_gives_the_parts_that_are_asked_for(
    person: Person, worker: None, query: str, included: tuple[str, ...]
) -> None:
    looped = transform("b", "item") | {"for_each": "[a, null]"}
    workflow = await create(person, [transform("a", "trigger"), looped, transform("c", "sum('x')")])
    run = await finish(person, workflow, None)
    assert (run["input"], run["status"], run["output"]) == (None, "failed", None)
    expected = {name: value for name, value in run.items() if name not in ELSEWHERE or name in included}
    shown = await listed(person, f"workflow_id={workflow}&{query}")
    assert shown == expected | ({"omitted": []} if included else {})


async def test_the_output_of_a_step_over_an_array_is_listed(person: Person, worker: None) -> None:
    workflow = await create(person, [transform("a", "item") | {"for_each": "trigger"}])
    await finish(person, workflow, [1, 2])
    assert (await listed(person, f"workflow_id={workflow}&include=output"))["output"] == [1, 2]


async def test_a_listed_run_under_way_shows_its_steps(person: Person, database: Database) -> None:
    run_id = await adrift(person, database)
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    shown = await listed(person, f"workflow_id={run['workflow_id']}&include=input,output,steps")
    assert run.pop("resume_urls") == {}
    assert shown == run | {"omitted": []}


async def test_what_cannot_be_included_is_named(person: Person) -> None:
    response = await person.key.get("/api/workflows/runs?include=steps,inputs&include=<b>")
    assert response.status_code == 400
    [error] = response.json()["errors"]
    assert (error["parameter"], error["code"]) == ("include", "not_allowed")
    assert error["message"] == "A run has no part inputs, part of this name; there are: input, output, steps."


async def test_runs_of_one_workflow_or_one_status_can_be_listed(api: Api, worker: None) -> None:
    person = await api.person()
    one, other = await create(person), await create(person, [transform("fails", "sum(trigger)")])
    first, second = (await finish(person, one))["id"], (await finish(person, other))["id"]

    async def found(query: str) -> tuple[list[str], int]:
        page = (await person.key.get(f"/api/workflows/runs?{query}")).json()
        return [run["id"] for run in page["runs"]], page["total"]

    assert await found(f"workflow_id={one}") == ([first], 1)
    assert await found("status=completed") == ([first], 1)
    assert await found("status=failed") == ([second], 1)
    assert await found(f"workflow_id={other}&status=completed") == ([], 0)


@pytest.mark.parametrize("workflow", ["another", "nonsense"])
async def test_a_workflow_that_is_not_the_accounts_has_no_runs(
    api: Api, person: Person, workflow: str
) -> None:
    stranger = await api.person()
    theirs = await create(stranger)
    await start(stranger, theirs)
    wanted = theirs if workflow == "another" else workflow
    page = (await person.key.get(f"/api/workflows/runs?workflow_id={wanted}")).json()
    assert page == {"runs": [], "total": 0, "page": 1, "next_cursor": None}


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
            views, *_ = await run_lists.list_page(counting, person.account.id, RunQuery(limit=100))
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
        await credits.charge(
            connection, Booking(person.account.id, 3, reference, "test", run_id=UUID(run_id))
        )
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    assert (run["credits_used"], run["steps_completed"], run["steps_total"]) == (3, 1, 2)
