"""What happens is told to endpoints: each event with its cause, as its schema says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from database import Database
from language.definition import Definition
from models.accounts import keys
from models.automations import automations, run_targets
from models.credits import credits
from models.credits.credits import Booking
from models.runs.runs import RunView
from sealing import Keyring
from tests.automations.engine import Endpoint, accept, cancel, ended, transform, waiting, webhook
from tests.checked_definitions import checked
from tests.deliveries.receivers import Hooks, told

NOWHERE = "http://127.0.0.1:9/"


async def types(hooks: Hooks) -> list[str]:
    return [row["type"] for row in await told(hooks)]


async def run(hooks: Hooks, notifier: Any, steps: list[dict[str, Any]]) -> RunView:
    """A run of a new workflow, once it has ended."""
    target = await target_of(hooks, steps)
    [run_id] = await accept(hooks.database, target)
    return await ended(hooks.database, notifier, hooks.account_id, run_id)


async def target_of(hooks: Hooks, steps: list[dict[str, Any]]) -> run_targets.RunTarget:
    definition = Definition.model_validate({"name": "Näme", "steps": steps})
    async with hooks.database.transaction() as connection:
        created = await automations.create(
            connection, hooks.keyring, hooks.actor, checked(definition, "active")
        )
        return await run_targets.run_target(connection, hooks.account_id, created)


async def test_the_end_of_a_run_is_told(hooks: Hooks, notifier: Any) -> None:
    await hooks.endpoint(NOWHERE, events=["workflow.run.*"])
    view = await run(hooks, notifier, [])
    [event] = await told(hooks)
    assert event["type"] == "workflow.run.completed"
    shown = view.model_dump(mode="json")
    expected = {
        "run_id": shown["id"], "workflow_name": "Näme", "version": 1, "trigger": "manual",
        "credits_used": 0, "completed_at": shown["completed_at"], "started_at": shown["started_at"],
    }  # fmt: skip
    assert expected.items() <= event["data"].items()


async def test_a_run_that_fails_tells_why(hooks: Hooks, notifier: Any, receiver: Endpoint) -> None:
    await hooks.endpoint(NOWHERE, events=["workflow.run.failed"])
    await run(hooks, notifier, [webhook("http://127.0.0.2:8080/")])
    [event] = await told(hooks)
    assert event["type"] == "workflow.run.failed"
    assert (event["data"]["error"]["code"], event["data"]["error"]["step"]) == ("forbidden_address", "call")


@pytest.mark.parametrize(("items", "ends"), [(["x", [1]], "completed"), (["x", "x"], "failed")])
async def test_the_end_of_a_run_tells_how_many_items_failed(
    hooks: Hooks, notifier: Any, items: list[Any], ends: str
) -> None:
    await hooks.endpoint(NOWHERE, events=["workflow.run.*"])
    sums = transform("a", "sum(item)", for_each="trigger", on_error="continue")
    [run_id] = await accept(hooks.database, await target_of(hooks, [sums]), payload=items)
    await ended(hooks.database, notifier, hooks.account_id, run_id)
    [event] = await told(hooks)
    counts = (event["data"]["items_total"], event["data"]["items_failed"])
    assert (event["type"], counts) == (f"workflow.run.{ends}", (2, items.count("x")))


async def test_a_run_that_is_cancelled_gives_no_event(hooks: Hooks, notifier: Any) -> None:
    await hooks.endpoint(NOWHERE)
    target = await target_of(hooks, [{"id": "wait", "type": "delay", "config": {"seconds": 60}}])
    [run_id] = await accept(hooks.database, target)
    await waiting(hooks.database, hooks.account_id, run_id)
    await cancel(hooks.database, notifier, hooks.account_id, run_id)
    assert await types(hooks) == []


async def test_where_nobody_wants_an_event_none_is_kept(hooks: Hooks, notifier: Any) -> None:
    await hooks.endpoint(NOWHERE, events=["monitor.*"])
    await run(hooks, notifier, [])
    assert await types(hooks) == []


async def test_keys_tell_that_they_were_made_and_revoked_once(hooks: Hooks) -> None:
    await hooks.endpoint(NOWHERE)
    scopes = frozenset(keys.ALL_SCOPES)
    async with hooks.database.transaction() as connection:
        key, _ = await keys.create_key(connection, hooks.actor, "CI", ["lookups"], None)
        await keys.revoke(connection, hooks.actor, key.id, scopes)
        await keys.revoke(connection, hooks.actor, key.id, scopes, permanent=True)
    assert [row["type"] for row in await told(hooks)] == ["key.created", "key.revoked"]


async def change(hooks: Hooks, amount: int, reference: str) -> None:
    async with hooks.database.connection() as connection:
        if amount > 0:
            await credits.grant(
                connection, Booking(hooks.account_id, amount, f"{hooks.account_id}/{reference}", "-")
            )
        else:
            await credits.charge(
                connection, Booking(hooks.account_id, -amount, f"{hooks.account_id}/{reference}", "-")
            )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([200], ["credits.topped_up"]),
        ([200, -100], ["credits.topped_up"]),
        ([200, -101], ["credits.topped_up", "credits.low"]),
        ([200, -101, -1], ["credits.topped_up", "credits.low"]),
        ([200, -101, 50, -50], ["credits.topped_up", "credits.low", "credits.topped_up", "credits.low"]),
        ([200, -200], ["credits.topped_up", "credits.exhausted", "credits.low"]),
        ([50, -50], ["credits.topped_up", "credits.exhausted"]),
    ],
)
async def test_credits_tell_when_they_cross_a_bound(
    hooks: Hooks, changes: list[int], expected: list[str]
) -> None:
    await hooks.endpoint(NOWHERE)
    for number, amount in enumerate(changes):
        await change(hooks, amount, str(number))
    assert sorted(await types(hooks)) == sorted(expected)


async def test_a_charge_that_is_repeated_tells_once(hooks: Hooks) -> None:
    await hooks.endpoint(NOWHERE, events=["credits.exhausted"])
    await change(hooks, 10, "grant")
    await asyncio.gather(*(change(hooks, -10, "same") for _ in range(5)))
    assert await types(hooks) == ["credits.exhausted"]


async def test_an_event_is_undone_with_its_cause(hooks: Hooks, database: Database, keyring: Keyring) -> None:
    await hooks.endpoint(NOWHERE)
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as connection:
            await keys.create_key(connection, hooks.actor, "CI", ["lookups"], None)
            raise ZeroDivisionError
    assert await types(hooks) == []
    assert await hooks.rows() == []
