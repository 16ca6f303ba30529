"""The items of a step, one by one: of calls, which have rows of their own, and of transforms."""

from __future__ import annotations

from typing import Any

from tests.api_server import Person
from tests.automations.engine import transform
from tests.automations.families import finish
from tests.automations.workflows import create

SUMS = transform("sums", "sum(item)", for_each="trigger", on_error="continue")


async def items_of(person: Person, run_id: str, step_id: str) -> list[dict[str, Any]]:
    answer = await person.key.get(f"/api/workflows/runs/{run_id}/steps/{step_id}/items")
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_the_items_of_a_transform_are_told_apart_by_how_they_ended(
    person: Person, worker: None
) -> None:
    view = await finish(person, await create(person, steps=[SUMS]), [[1, 2], "no numbers", []])
    items = await items_of(person, view["id"], "sums")
    assert [(item["item"], item["status"]) for item in items] == [
        (0, "completed"),
        (1, "failed"),
        (2, "completed"),
    ]
    assert [item["output"] for item in items] == [3, None, 0]
    assert items[1]["error"] == view["steps"][0]["output"][1]["error"]
    path = f"/api/workflows/runs/{view['id']}/steps/sums/items/0/output"
    assert (await person.key.get(path)).json() == 3


async def test_an_output_that_only_looks_like_an_error_is_an_output(person: Person, worker: None) -> None:
    echo = transform("echo", "item", for_each="trigger")
    view = await finish(person, await create(person, steps=[echo]), [{"error": {"code": "mine"}}])
    [item] = await items_of(person, view["id"], "echo")
    assert (item["status"], item["output"]) == ("completed", {"error": {"code": "mine"}})


async def test_a_step_whose_output_is_an_array_but_has_no_items_has_none(
    person: Person, worker: None
) -> None:
    view = await finish(person, await create(person, steps=[transform("all", "trigger")]), [1, 2])
    assert await items_of(person, view["id"], "all") == []
