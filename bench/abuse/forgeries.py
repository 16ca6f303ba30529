"""Forgeries by a stranger at Temporal's port: starts of every kind under every kind of id, and signals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from bench.abuse.cases import Tally, case
from bench.abuse.target import Account, Target
from temporal.client import TASK_QUEUE
from temporal.starts import delivery_workflow_id, job_workflow_id, monitor_workflow_id, run_workflow_id
from tests.stacks import eventually
from workflows.messages import (
    AUTOMATION_RUN,
    BULK_JOB,
    DELIVERY_BATCH,
    LEFT,
    LOOK,
    MONITOR_RUN,
    SCHEDULED_TRIGGER,
    TAKEN_UP,
    BulkJobInput,
    MonitorRunInput,
    OwnRun,
)

_HUGE = "x" * 1_500_000
_ROWS = 900
# A workflow with unreadable input is retried repeatedly, then ended.
_PATIENCE_SECONDS = 8
# These may complete, because nothing that they request is due.
_MAY_COMPLETE = ("its id, a random claim", "a trigger under its id", "a top-up")


class Forgery(NamedTuple):
    """A forged start."""

    kind: str
    workflow_id: str
    given: Any


async def _connect(target: Target) -> Client:
    return await Client.connect(target.stack.record.temporal_address, data_converter=pydantic_data_converter)


def _forgeries(run_id: UUID, account_id: str) -> dict[str, Forgery]:
    """Return starts that name a run, by the forged part."""
    own, stray = run_workflow_id(run_id), run_workflow_id(uuid4())
    return {
        "another id": Forgery(AUTOMATION_RUN, f"forged/{uuid4()}", OwnRun(run_id, uuid4())),
        "another run's id": Forgery(AUTOMATION_RUN, stray, OwnRun(run_id, uuid4())),
        "its id, a random claim": Forgery(AUTOMATION_RUN, own, OwnRun(run_id, uuid4())),
        "its id, another run": Forgery(AUTOMATION_RUN, own, OwnRun(uuid4(), uuid4())),
        "its id, huge": Forgery(AUTOMATION_RUN, own, {"run_id": str(run_id), "claim_id": _HUGE}),
        "its id, nothing": Forgery(AUTOMATION_RUN, own, None),
        "a batch under its id": Forgery(DELIVERY_BATCH, own, run_id),
        "a job under its id": Forgery(BULK_JOB, own, BulkJobInput(run_id, 3)),
        "a monitor under its id": Forgery(MONITOR_RUN, own, MonitorRunInput(run_id, 3)),
        "a trigger under its id": Forgery(SCHEDULED_TRIGGER, own, run_id),
        "a chore under its id": Forgery("Maintenance", own, "decide_next"),
        "a top-up": Forgery("TopUp", run_workflow_id(uuid4()), f"topup/{account_id}/1000"),
        "a kind that is gone": Forgery("AutomationBatch", f"forged/{uuid4()}", str(run_id)),
    }


async def _forge(client: Client, forgery: Forgery) -> WorkflowExecutionStatus | None:
    """Start a workflow, wait and end it; return its status before that, or None if Temporal refused it."""
    try:
        handle = await client.start_workflow(
            forgery.kind,
            forgery.given,
            id=forgery.workflow_id,
            task_queue=TASK_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )
    except WorkflowAlreadyStartedError:
        return None
    with suppress(TimeoutError, Exception):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await handle.result()
    status = (await handle.describe()).status
    if status is WorkflowExecutionStatus.RUNNING:
        # Ending it under the id of a run would count as the end of that run; here it is only in the way.
        with suppress(RPCError):
            await handle.signal(LEFT)
    return status


async def _run_of(account: Account, steps: list[dict[str, Any]], **fields: Any) -> UUID:
    workflow = await account.workflow(steps, **fields)
    answer = await account.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": None})
    assert answer.status_code == 202, answer.text
    return UUID(answer.json()["run_id"])


async def _read(account: Account, run_id: UUID) -> dict[str, Any]:
    return (await account.key.get(f"/api/workflows/runs/{run_id}")).json()


async def _until(account: Account, run_id: UUID, status: str, seconds: float = 60) -> dict[str, Any]:
    async def is_so() -> bool:
        return (await _read(account, run_id))["status"] == status

    await eventually(is_so, seconds, f"the run is {status}")
    return await _read(account, run_id)


def _steps(url: str, *, seconds: float) -> list[dict[str, Any]]:
    return [
        {"id": "before", "type": "webhook", "config": {"url": f"{url}/before"}},
        {"id": "nap", "type": "delay", "config": {"seconds": seconds}},
        {"id": "after", "type": "webhook", "config": {"url": f"{url}/after"}},
    ]


def _check_calls(target: Target, tally: Tally, url: str, times: int = 1) -> None:
    """Check that each address below the URL was called this often."""
    below = url.rpartition("/")[2]
    calls = Counter(one["path"] for one in target.receiver.requests if below in one["path"])
    wrong = {path: count for path, count in calls.items() if count != times}
    tally.check(bool(calls) and not wrong, f"each call is made {times} times", wrong)


@case("forged starts", "workflows of every kind started at Temporal's port, under every kind of id")
async def forged_starts(target: Target, tally: Tally) -> None:
    """Check that a run parked by a shift continues unaffected; nothing is called twice or paid twice."""
    account, client = await target.account(), await _connect(target)
    account_id = (await account.key.get("/api/auth/me")).json()["user"]["id"]
    balance = (await account.key.get("/api/credits")).json()["balance"]
    url = f"{target.receiver.url}/{uuid4()}"

    async def attack(name: str) -> None:
        steps = _steps(f"{url}/{name.replace(' ', '-')}", seconds=3)
        run_id = await _run_of(account, steps, execution="shift")
        await _until(account, run_id, "waiting")
        status = await _forge(client, _forgeries(run_id, account_id)[name])
        read = await _until(account, run_id, "completed")
        seen = {step["id"]: step["status"] for step in read["steps"]}
        tally.check(seen == dict.fromkeys(("before", "nap", "after"), "completed"), f"{name}: the run", seen)
        held = status is not WorkflowExecutionStatus.COMPLETED or name in _MAY_COMPLETE
        tally.check(held, f"{name} comes to nothing", status)

    await asyncio.gather(*map(attack, _forgeries(uuid4(), account_id)))
    _check_calls(target, tally, url)
    now = (await account.key.get("/api/credits")).json()["balance"]
    tally.check(now == balance, "no credits are added", now - balance)


@case("squatters", "workflows that nobody serves, under the ids of runs that are to have their own")
async def squatters(target: Target, tally: Tally) -> None:
    """Check that a run that cannot have a workflow of its own is carried by a shift."""
    account, client = await target.account(), await _connect(target)
    url = f"{target.receiver.url}/{uuid4()}"
    limits = {"concurrency": {"limit": 1}, "execution": "workflow"}
    workflow = await account.workflow(_steps(url, seconds=4), **limits)
    runs: list[UUID] = []
    for _ in range(2):
        answer = await account.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": None})
        runs.append(UUID(answer.json()["run_id"]))
    await _until(account, runs[0], "waiting")
    squatter = await client.start_workflow(
        "Squatter", id=run_workflow_id(runs[1]), task_queue=f"nobody-{uuid4()}"
    )
    for run_id in runs:
        await _until(account, run_id, "completed", 90)
    _check_calls(target, tally, url, times=2)
    await squatter.terminate("abuse: tried")


@case("forged signals", "each signal, with foreign claims, a megabyte, and by the hundred")
async def forged_signals(target: Target, tally: Tally) -> None:
    """Check that a workflow that calls, sleeps or waits follows its rows, once."""
    account, client = await target.account(), await _connect(target)
    url = f"{target.receiver.url}/{uuid4()}"
    many = target.times(300, 20)

    def signals(run_id: UUID) -> Mapping[str, tuple[str, list[Any], int]]:
        return {
            "a claim that is none": (TAKEN_UP, [OwnRun(run_id, uuid4())], 1),
            "another run's claim": (TAKEN_UP, [OwnRun(uuid4(), uuid4())], 1),
            "many claims": (TAKEN_UP, [OwnRun(run_id, uuid4())], many),
            "a huge claim": (TAKEN_UP, [{"run_id": str(run_id), "claim_id": _HUGE}], 1),
            "to look, often": (LOOK, [], many),
            "to leave": (LEFT, [], 1),
            "unheard of": ("unheard_of", [_HUGE], 1),
        }

    async def attack(name: str) -> None:
        run_id = await _run_of(
            account, _steps(f"{url}/{name.replace(' ', '-')}", seconds=5), execution="workflow"
        )
        await _until(account, run_id, "waiting")
        signal, given, times = signals(run_id)[name]
        handle = client.get_workflow_handle(run_workflow_id(run_id))
        for _ in range(times):
            await handle.signal(signal, args=given)
        read = await _until(account, run_id, "completed")
        late = [step for step in read["steps"] if step["id"] == "nap"]
        tally.check(len(read["steps"]) == 3 and len(late) == 1, f"{name}: each step once", read["steps"])

    await asyncio.gather(*map(attack, signals(uuid4())))
    _check_calls(target, tally, url)


@case("forged batches", "batches, jobs and monitors of others, under the ids of runs and under their own")
async def forged_batches(target: Target, tally: Tally) -> None:
    """Check that naming another account's job under another id neither ends nor repeats it."""
    account, client = await target.new_account(), await _connect(target)
    targets = [f"9.9.{number // 250}.{number % 250 + 1}" for number in range(_ROWS)]
    answer = await account.key.post("/api/bulk-jobs", json={"type": "ip", "targets": targets})
    tally.check(answer.status_code == 202, "a job is accepted", answer.text[:200])
    job_id = UUID(answer.json()["id"])
    stray = uuid4()
    forged = [
        Forgery(BULK_JOB, run_workflow_id(uuid4()), BulkJobInput(job_id, 0)),
        Forgery(BULK_JOB, run_workflow_id(uuid4()), BulkJobInput(job_id, 10**9)),
        Forgery(BULK_JOB, job_workflow_id(stray), BulkJobInput(job_id, 0)),
        Forgery(MONITOR_RUN, run_workflow_id(uuid4()), MonitorRunInput(job_id, 0)),
        Forgery(MONITOR_RUN, monitor_workflow_id(stray), MonitorRunInput(stray, 5)),
        Forgery(DELIVERY_BATCH, run_workflow_id(uuid4()), stray),
        Forgery(DELIVERY_BATCH, delivery_workflow_id(stray), stray),
    ]
    for one, status in zip(forged, await asyncio.gather(*(_forge(client, f) for f in forged)), strict=True):
        seen = status.name if status else "not taken"
        tally.check(seen == "FAILED", f"{one.kind} under {one.workflow_id.partition('/')[0]}/ fails", seen)

    async def has_ended() -> bool:
        return (await account.key.get(f"/api/bulk-jobs/{job_id}")).json()["completed_at"] is not None

    await eventually(has_ended, 60, "the job has ended")
    job = (await account.key.get(f"/api/bulk-jobs/{job_id}")).json()
    tally.check(job["processed_rows"] == _ROWS, "every row of the job is done", job["processed_rows"])
