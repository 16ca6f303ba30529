"""Expressions that do all the work they may, wherever one can stand: the run fails, the engine does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from database import Database
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept_each,
    ended,
    events_of,
    failed_tasks,
    run_workflow,
    transform,
    webhook,
)

pytestmark = pytest.mark.long

ALL_PAIRS = "length(map(&length(map(&@, $.trigger)), trigger))"
ALL_TRIPLES = "length(map(&length(map(&length(map(&@, $.trigger)), $.trigger)), trigger))"
FIVE_TIMES = "map(&[$.trigger, $.trigger, $.trigger, $.trigger, $.trigger], trigger)"
BOMB = list(range(500))
LARGE_BOMB = ["x" * 150] * 500
"""Too large to travel: an activity evaluates what reads it."""

Case = tuple[dict[str, Any], str]


def call(**config: Any) -> dict[str, Any]:
    return {"id": "bomb", "type": "webhook", "config": {"url": "http://127.0.0.1:9/", **config}}


CASES: dict[str, Case] = {
    "condition": (
        {"id": "bomb", "type": "condition", "config": {"expression": ALL_PAIRS}}, "too_many_nodes",
    ),
    "transform": (transform("bomb", ALL_PAIRS), "too_many_nodes"),
    "mapping": (
        {"id": "bomb", "type": "transform", "config": {"mapping": {"a": "`1`", "b": ALL_PAIRS}}},
        "too_many_nodes",
    ),
    "a large result": (transform("bomb", FIVE_TIMES), "output_too_large"),
    "for_each": (call() | {"for_each": f"[{ALL_PAIRS}]"}, "too_many_nodes"),
    "for_each of a transform": (transform("bomb", "item", for_each=f"[{ALL_TRIPLES}]"), "too_many_nodes"),
    "an item of a transform": (transform("bomb", ALL_PAIRS, for_each="trigger"), "too_many_nodes"),
    "the items of a transform together": (
        transform("bomb", "length(map(&[@, @, @, @], $.trigger))", for_each="trigger"), "too_many_nodes",
    ),
    "until": (
        {"id": "bomb", "type": "delay", "config": {"until": f"{{{{ {ALL_PAIRS} }}}}"}}, "too_many_nodes",
    ),
    "url": (call(url=f"http://127.0.0.1:9/{{{{ {ALL_PAIRS} }}}}"), "too_many_nodes"),
    "header": (call(headers={"X-Bomb": f"{{{{ {ALL_PAIRS} }}}}"}), "too_many_nodes"),
    "body": (call(body={"deep": [f"a {{{{ {ALL_PAIRS} }}}}"]}), "too_many_nodes"),
    "value of a lookup": (
        {"id": "bomb", "type": "ip_lookup", "config": {"value": f"{{{{ {ALL_PAIRS} }}}}"}}, "too_many_nodes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("execution", ["workflow", "shift"])
@pytest.mark.parametrize("payload", [BOMB, LARGE_BOMB], ids=["travels", "is stored"])
@pytest.mark.parametrize("where", CASES)
async def test_a_bomb_fails_its_step_and_never_a_task_of_the_engine(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    where: str,
    payload: list[Any],
    execution: str,
) -> None:
    bomb, code = CASES[where]
    target = await new_target([bomb, transform("after", "'never'")], execution=execution)
    ids = await accept_each(database, target, [payload] * 4)
    views = await asyncio.gather(*(ended(database, notifier, target.account_id, run_id) for run_id in ids))
    for view in views:
        assert view.status == "failed" and view.error is not None
        assert (view.error["step"], view.error["code"], view.steps[0].attempts) == ("bomb", code, 1)
    if execution == "workflow":
        for run_id in ids:
            handle = await run_workflow(client, run_id)
            assert await handle.result() == "failed"
            assert await failed_tasks(handle) + await events_of(handle, "workflow_task_timed_out") == []


async def test_runs_beside_a_bomb_complete(
    notifier: Notifier, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([transform("pairs", ALL_PAIRS), webhook(receiver.url, body="{{ pairs }}")])
    ids = await accept_each(database, target, [BOMB, [1, 2, 3], BOMB, [1]])
    views = [await ended(database, notifier, target.account_id, run_id) for run_id in ids]
    assert [view.status for view in views] == ["failed", "completed", "failed", "completed"]
    assert sorted(request["body"] for request in receiver.requests) == ["1", "3"]


@pytest.mark.parametrize("execution", ["workflow", "shift"])
async def test_many_bombs_are_done_in_tasks_that_the_engine_can_stand(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, execution: str
) -> None:
    bomb = transform("bomb", ALL_PAIRS, on_error="continue")
    target = await new_target([bomb, transform("end", "'on'")], execution=execution)
    ids = await accept_each(database, target, [BOMB] * 64)
    views = [await ended(database, notifier, target.account_id, run_id, 60) for run_id in ids]
    assert {(view.status, view.output) for view in views} == {("completed", "on")}
    if execution == "workflow":
        for run_id in ids:
            assert await failed_tasks(await run_workflow(client, run_id)) == []
