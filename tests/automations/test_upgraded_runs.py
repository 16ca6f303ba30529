"""Runs that an earlier release has begun go on where they were."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from aiohttp import web

from database import Database
from migrations.upgrade import downgrade, upgrade
from models.identifiers import new_id
from models.runs.runs import QUEUED_CHANNEL
from tests.automations.engine import Endpoint, NewTarget, Work, accept, ended, statuses, waiting, webhook
from tests.migrations.former_runs import BEGAN, OUTPUTS, REVISION, insert_runs, steps

# By state what is still called, and after how many attempts the first step was done.
LEFT = {
    "queued": (["/7", "/8", "/a"], 1),
    "running": (["/8"], 1),
    "backing off": (["/7", "/8", "/a"], 3),
}


async def test_they_do_what_is_left(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    called: dict[str, list[str]] = {}

    async def answer(request: web.Request) -> web.Response:
        called.setdefault(request.headers["webhook-id"][:36], []).append(request.path)
        name = request.path[1:]
        return web.json_response(int(name) if name.isdigit() else name)

    receiver.handler = answer
    target = await new_target(steps(receiver.url))
    await asyncio.to_thread(downgrade, database.url, REVISION)
    async with database.transaction() as connection:
        ids = await insert_runs(connection, target, datetime.now(UTC))
    await asyncio.to_thread(upgrade, database.url)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        for name, (paths, attempts) in LEFT.items():
            view = await waiting(database, target.account_id, ids[name])
            assert [*statuses(view).values()] == ["completed", "completed", "waiting", "pending"]
            assert (sorted(called[str(ids[name])]), view.steps[0].attempts) == (paths, attempts)
            assert [output["body"] for output in view.steps[1].output] == [7, 8]
        view = await ended(database, notifier, target.account_id, ids["napping"])
    assert (view.status, view.output) == ("completed", OUTPUTS["end"])
    assert view.steps[2].started_at == BEGAN and str(ids["napping"]) not in called


async def test_their_calls_keep_the_ids_that_they_had(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    each = {**webhook(receiver.url, "each"), "for_each": "trigger"}
    target = await new_target([each])
    [former] = await accept(database, target, payload=[0])
    async with database.connection() as connection:
        await connection.execute("update former_call_ids set runs_before = %s", (new_id(),))
    [later] = await accept(database, target, payload=[0])
    async with at_work() as notifier:
        for run_id in (former, later):
            await ended(database, notifier, target.account_id, run_id)
    ids = {request["headers"]["webhook-id"] for request in receiver.requests}
    assert ids == {f"{former}-each-0", f"{later}:each:0"}
