"""Runs that begin very many calls at one time: their workflows execute several calls in one activity."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from database import Database
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from execution.own_execution import names_of
from language.definition import Definition
from models.identifiers import new_id
from notifications import Notifier
from tests.automations.engine import Endpoint, NewTarget, ended, webhook
from tests.automations.own_runs import begun, called
from tests.engine.world import START

STEPS, ITEMS = 4, 20


def steps(url: str) -> list[dict[str, Any]]:
    """Return steps beside each other, each of which calls this URL for all its items at once."""
    each = {"for_each": "trigger", "max_concurrency": ITEMS, "needs": []}
    return [{**webhook(url, f"each{number}", body="{{ item }}"), **each} for number in range(STEPS)]


async def test_the_items_of_many_steps_at_one_time_are_called_together(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target(steps(receiver.url))
    run_id, handle = await begun(notifier, client, database, target, list(range(ITEMS)))
    assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert await handle.result() == "completed"
    assert sorted(await called(handle)) == [
        f"each{number}: webhook, items 0-19 of 20" for number in range(STEPS)
    ]
    bodies = [int(request["body"]) for request in receiver.requests]
    assert sorted(bodies) == sorted([*range(ITEMS)] * STEPS)


def test_items_beside_a_call_of_their_step_are_called_each() -> None:
    """An activity for all items of the step would make that call, too."""
    plan = Plan(Definition.model_validate({"name": "test", "steps": steps("http://127.0.0.1/")}))
    driver = Driver(plan, RunInput(new_id(), START, trigger=[*range(ITEMS)]), {"id": "-", "name": "-"})
    first, *others = driver.advance(START)
    under_way = names_of([first], [])
    names = [name.label for name in names_of(others, under_way)]
    assert names[:19] == [f"each0[{item}]: webhook" for item in range(1, ITEMS)]
    assert names[19:] == [f"each{number}: webhook, items 0-19 of 20" for number in range(1, STEPS)]
