"""Worker processes that are killed as `kill -9` does it, and what becomes of the runs that they had."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database
from embedded.temporal import Temporal
from sealing import Keyring
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    transform,
    until,
    webhook,
    working,
)
from tests.datasets import write_small_datasets
from tests.stacks import CLI, StackProcess, environment, eventually

STEPS = 10


@contextmanager
def process(settings: Settings, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """A process over the servers and the data folder of the settings, until the block ends."""
    assert settings.database_url is not None and settings.temporal_address is not None
    names = environment(
        settings.data,
        DATABASE_URL=settings.database_url.get_secret_value(),
        TEMPORAL_ADDRESS=settings.temporal_address,
        VEDETTE_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32",
    )
    running = subprocess.Popen([sys.executable, *arguments], env=names, cwd=CLI.parent)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


# Point 5


async def test_an_eager_task_dies_with_its_worker(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target([webhook(receiver.url), transform("end", "'done'")])
    [run_id] = await accept(database, target)
    with process(open_settings, "-m", "tests.automations.dying_worker") as dying:
        await eventually(lambda: dying.poll() is not None, 20, "the worker has died")
        assert dying.returncode == -signal.SIGKILL
    assert receiver.requests == []
    async with asyncio.timeout(15), working(open_settings, client, database, keyring) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    assert len(receiver.requests) == 1


# Point 6


async def test_a_killed_activity_leaves_what_it_has_done(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    each = {**webhook(receiver.url + "/{{ item }}", "each"), "for_each": "trigger"}
    target = await new_target([each, transform("end", "length(each)")])
    [run_id] = await accept(database, target, 1, ["held", *(str(n) for n in range(9))])

    async def nine_stored() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select count(*) as n from run_step_items where run_id = %s", (run_id,)
            )
            row = await cursor.fetchone()
        return row is not None and row["n"] == 9

    with process(open_settings, str(CLI), "worker") as killed:
        await until(nine_stored)
        killed.kill()
    receiver.open.set()
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output) == ("completed", 10)
    calls = Counter(request["path"] for request in receiver.requests)
    assert calls.pop("/held") == 2 and set(calls.values()) == {1} and len(calls) == 9
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 10


# A worker that is killed at every boundary of ten steps at once


@pytest.fixture
async def stack(scratch: Path, temporal_server: Temporal) -> AsyncGenerator[StackProcess]:
    data = scratch / "killed-at-boundaries"
    write_small_datasets(data)
    running = StackProcess(data, VEDETTE_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32")
    try:
        yield await running.ready()
    finally:
        await running.stop()


async def test_a_run_goes_on_at_whichever_step_its_worker_is_killed(
    stack: StackProcess, receiver: Endpoint
) -> None:
    """Ten runs of ten calls: when the worker is killed, the k-th run is within its k-th call."""

    def number(request: web.Request) -> tuple[int, int]:
        _, run, step = request.path.split("/")
        return int(run), int(step)

    async def hold(request: web.Request) -> web.Response:
        run, step = number(request)
        if run == step:
            await receiver.open.wait()
        return web.json_response({"step": step})

    receiver.handler = hold
    names = [f"s{n}" for n in range(STEPS)]
    steps = [webhook(f"{receiver.url}/{{{{ trigger.run }}}}/{n}", name) for n, name in enumerate(names)]
    steps.append(transform("end", f"[{', '.join(f'{name}.body.step' for name in names)}]"))
    headers = {"X-API-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, trust_env=False, timeout=30) as api:
        made = (await api.post("/api/workflows", json={"name": "Ten", "steps": steps})).json()
        run = f"/api/workflows/{made['id']}/run"
        # At once, so that some of them share a batch.
        accepted = await asyncio.gather(*(api.post(run, json={"input": {"run": n}}) for n in range(STEPS)))
        places = [answer.headers["location"] for answer in accepted]

        def all_held() -> bool:
            held = {request["path"] for request in receiver.requests}
            return {f"/{n}/{n}" for n in range(STEPS)} <= held

        await eventually(all_held, 60, "every run is held at its step")
        first = stack.child("worker")
        os.kill(first, signal.SIGKILL)
        receiver.open.set()

        async def all_ended() -> bool:
            return all([(await api.get(place)).json()["completed_at"] for place in places])

        await eventually(all_ended, 60, "every run has ended")
        views = [(await api.get(place)).json() for place in places]
    assert stack.child("worker") not in (0, first)
    assert [(view["status"], view["output"]) for view in views] == [("completed", list(range(STEPS)))] * STEPS
    calls = Counter((request["path"], request["headers"]["webhook-id"]) for request in receiver.requests)
    assert len(calls) == len({path for path, _ in calls}) == STEPS * STEPS
    # All other calls were over, and the next ones begun: what was over was stored before.
    assert {path for (path, _), times in calls.items() if times == 2} == {f"/{n}/{n}" for n in range(STEPS)}
    assert set(calls.values()) == {1, 2}
