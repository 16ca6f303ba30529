"""Builds take work as the operator decides: all of it, a share, or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client

import worker
from database import Database
from execution.admission import Admission
from execution.claim_gate import ClaimGate, FailureWatch
from execution.polling import Polling
from models.identifiers import new_id
from models.runs import builds, run_work, shifts
from models.runs.builds import BuildState
from models.runs.claim_requests import ClaimRequest
from models.runs.run_work import Claim
from sealing import Keyring
from services.operator import releases
from settings import Settings
from tests.automations.engine import NewTarget, accept, ended, transform, until, working
from tests.stacks import vedette

pytestmark = pytest.mark.usefixtures("nothing_waits")


async def shift_of(database: Database, build: str) -> UUID:
    shift_id = new_id()
    async with database.connection() as connection:
        await builds.register(connection, build, BuildState.ADMITTED)
        await shifts.begin(connection, shift_id, new_id(), build)
    return shift_id


async def set_state(database: Database, build: str, state: BuildState, share: int = 100) -> None:
    async with database.connection() as connection:
        assert await builds.set_state(connection, build, state, share)


async def claims(database: Database, shift_id: UUID) -> bool:
    async with database.connection() as connection:
        found = await run_work.claim(connection, shift_id, ClaimRequest())
    return isinstance(found, Claim)


STATES = {BuildState.ADMITTED: True, BuildState.WAITING: False, BuildState.DRAINED: False}


@pytest.mark.parametrize("state", STATES)
async def test_a_claim_finds_runs_for_an_admitted_build_alone(
    state: BuildState, build: str, database: Database, new_target: NewTarget
) -> None:
    await accept(database, await new_target())
    shift_id = await shift_of(database, build)
    await set_state(database, build, state)
    assert await claims(database, shift_id) is STATES[state]


@pytest.mark.parametrize("state", STATES)
async def test_workers_of_before_builds_were_told_apart_are_of_the_unnamed_one(
    state: BuildState, build: str, database: Database, new_target: NewTarget
) -> None:
    await accept(database, await new_target())
    await set_state(database, builds.UNNAMED, state)
    async with database.connection() as connection:
        # As their releases begin a shift, and claim.
        shift_id = new_id()
        await connection.execute("insert into shifts (id, worker_id) values (%s, %s)", (shift_id, new_id()))
        cursor = await connection.execute(
            "select * from claim_runs_2(%s, false, 256, 4194304, 1024, 1024, 512, '{0,1,2}',"
            " array_fill('00000000-0000-0000-0000-000000000000'::uuid, '{3}'), '{}', '{}', '{}', '{}', '{}',"
            " '{}', '{}', '{}', '{}', '{}')",
            (shift_id,),
        )
        rows = [row for row in await cursor.fetchall() if row["run_id"]]
    assert bool(rows) is STATES[state]


@pytest.mark.parametrize(
    ("state", "share", "told"),
    [(BuildState.ADMITTED, 100, 100), (BuildState.ADMITTED, 7, 7), (BuildState.DRAINED, 100, 0)],
)
async def test_a_beat_tells_what_share_the_build_has(
    state: BuildState, share: int, told: int, build: str, database: Database
) -> None:
    shift_id = await shift_of(database, build)
    await set_state(database, build, state, share)
    async with database.connection() as connection:
        changes = await shifts.beat(connection, shift_id, 10, {})
    assert changes is not None and changes.share == told


async def test_a_known_build_keeps_its_state_when_a_worker_starts_again(
    build: str, database: Database
) -> None:
    await shift_of(database, build)
    await set_state(database, build, BuildState.DRAINED)
    assert not await claims(database, await shift_of(database, build))


async def test_a_build_with_a_share_claims_less_at_a_time(database: Database, keyring: Keyring) -> None:
    admission = Admission()
    gate = ClaimGate(database, keyring, FailureWatch(), admission)
    admission.set_share(10)
    assert await gate.rows_to_claim(256) == 25 and gate.is_open
    admission.set_share(0)
    assert await gate.rows_to_claim(256) == 0 and not gate.is_open


@pytest.mark.long
async def test_a_worker_works_while_its_build_is_admitted_and_no_longer(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    build: str,
    new_target: NewTarget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits until it is admitted, works, is drained, and works again; by either carrier."""
    monkeypatch.setattr(worker, "name_build", lambda _: build)
    settings = open_settings.model_copy(update={"admit_builds": "manual"})
    targets = [
        await new_target([transform("end", "'done'")], execution=carrier) for carrier in ("shift", "workflow")
    ]

    async def state() -> BuildState | None:
        async with database.connection() as connection:
            found = {one.name: one for one in await builds.list_builds(connection)}
        return BuildState(found[build].state) if build in found and found[build].workers else None

    async with working(settings, client, database, keyring) as notifier:
        assert await until(state) is BuildState.WAITING
        for _ in range(2):
            waiting = [(target, (await accept(database, target))[0]) for target in targets]
            await sweeps(database, build, 3)
            assert await carried(database, [run_id for _, run_id in waiting]) == 0
            await set_state(database, build, BuildState.ADMITTED)
            for target, run_id in waiting:
                view = await ended(database, notifier, target.account_id, run_id)
                assert view.status == "completed"
            await set_state(database, build, BuildState.DRAINED)
            await until(lambda: is_silent(database, build))


async def sweeps(database: Database, build: str, times: int) -> None:
    """Wait until the worker of the build has looked for work so many times."""
    signed_in = "select w.seen_at from workers w join shifts s on s.worker_id = w.id where s.build = %s"

    async def seen_at() -> Any:
        async with database.connection() as connection:
            row = await (await connection.execute(signed_in, (build,))).fetchone()
        return row and row["seen_at"]

    for _ in range(times):
        before = await seen_at()

        async def again(before: Any = before) -> bool:
            return await seen_at() not in (None, before)

        await until(again)


async def carried(database: Database, run_ids: list[UUID]) -> int:
    """Return how many of these runs somebody has begun."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) filter (where not begun and status = 'queued')::int as waits from run_work"
            " where run_id = any(%s)",
            (run_ids,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return len(run_ids) - row["waits"]


async def is_silent(database: Database, build: str) -> bool:
    """Return whether no worker of the build wants to be woken."""
    async with database.connection() as connection:
        cursor = await connection.execute("select room from shifts where build = %s", (build,))
        return all(row["room"] == shifts.UNFIT for row in await cursor.fetchall())


async def test_an_operator_admits_and_drains_builds_at_the_command_line(
    settings: Settings, database: Database, build: str
) -> None:
    await shift_of(database, build)

    async def run(*arguments: str) -> tuple[int, str, str]:
        done = await asyncio.to_thread(
            vedette, settings.data, "releases", *arguments, DATABASE_URL=database.url
        )
        return done.returncode, done.stdout, done.stderr

    code, out, error = await run("drain", build)
    assert code == 0 and f"{build}" in out and "drained" in out
    code, out, error = await run("admit", build, "--share", "10")
    assert (code, error) == (0, "") and "10 %" in out
    code, out, error = await run("drain", "nobody")
    assert code != 0 and "No worker of the build 'nobody' has started here" in error
    listed = await releases.list_builds(database.url)
    assert [(one.state, one.share) for one in listed if one.name == build] == [("admitted", 10)]


async def test_a_worker_asks_temporal_for_tasks_while_its_build_is_admitted() -> None:
    admission, polls = Admission(), list[str]()

    @asynccontextmanager
    async def sdk_worker() -> AsyncGenerator[None]:
        polls.append("begins")
        try:
            yield
        finally:
            polls.append("ends")

    polling = Polling(lambda: iter([sdk_worker()]), lambda: admission.is_admitted, reached)
    await polling.start(lambda: None)
    for share, so_far in ((0, ["begins", "ends"]), (50, ["begins", "ends", "begins"])):
        admission.set_share(share)
        await until(lambda expected=so_far: matches(polls, expected))
    await polling.stop(5)
    assert polls == ["begins", "ends"] * 2


async def test_a_worker_of_the_sdk_that_never_ends_does_not_keep_the_process_from_stopping() -> None:
    let_go = asyncio.Event()

    @asynccontextmanager
    async def sdk_worker() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await let_go.wait()

    polling = Polling(lambda: iter([sdk_worker()]), lambda: True, reached)
    await polling.start(lambda: None)
    async with asyncio.timeout(5):
        await polling.stop(0.1)
    let_go.set()
    await polling.stop(5)


async def reached() -> None:
    """Temporal is there."""


async def matches(found: list[str], expected: list[str]) -> bool:
    return found == expected
