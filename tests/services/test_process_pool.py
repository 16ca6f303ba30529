"""Work in processes beside this one: what it may ask, whose turn it is, and what dies with them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from engine.evaluation import be_ready
from services.process_pool import PoolBusy, ProcessPool, WorkLost
from tests.services.work import (
    doubled,
    doubled_alone,
    environment_names,
    fail,
    imported,
    printed,
    process_id,
    take_memory,
    wait_for,
)  # fmt: skip
from tests.stacks import eventually


@pytest.fixture
async def pool() -> AsyncGenerator[ProcessPool]:
    pool = ProcessPool()
    yield pool
    await pool.close()


async def test_work_is_done_in_another_process_that_is_kept(pool: ProcessPool) -> None:
    first = await pool.run("a", None, process_id)
    assert first != os.getpid()
    assert await pool.run("b", None, process_id) == first
    assert pool.pids == [first]


async def test_a_warm_pool_has_all_its_processes_before_the_first_work(pool: ProcessPool) -> None:
    await pool.warm(be_ready)
    warm = set(pool.pids)
    assert len(warm) == 2 and pool.busy == 0
    assert await pool.run("somebody", None, process_id) in warm


async def test_a_process_that_evaluates_has_imported_nothing_that_reaches_outside(pool: ProcessPool) -> None:
    await pool.warm(be_ready)
    modules = await pool.run("somebody", None, imported)
    assert "language.expressions" in modules
    assert modules.isdisjoint({"aiohttp", "models", "psycopg", "sqlmodel", "temporalio"})


async def test_work_can_ask_whoever_ordered_it(pool: ProcessPool) -> None:
    async def answer(number: int) -> int:
        return number + 1

    assert await pool.run("a", answer, doubled, 20) == 42


async def test_what_work_prints_is_no_result(pool: ProcessPool) -> None:
    assert await pool.run("a", None, printed) == "result"


async def test_an_owner_has_one_place_at_a_time(pool: ProcessPool, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second", "others")]
    first, second, others = (
        asyncio.ensure_future(pool.run(owner, None, wait_for, file))
        for owner, file in zip(("one", "one", "another"), files, strict=True)
    )
    await eventually(
        lambda: files[0].with_suffix(".begun").exists() and files[2].with_suffix(".begun").exists()
    )
    assert not files[1].with_suffix(".begun").exists()
    for file in files:
        file.touch()
    assert await asyncio.gather(first, second, others) == ["first", "second", "others"]


async def test_work_that_cannot_be_begun_is_refused_after_a_while(tmp_path: Path) -> None:
    pool = ProcessPool(patience=0.3)
    try:
        first = asyncio.ensure_future(pool.run("a", None, wait_for, tmp_path / "first"))
        await eventually((tmp_path / "first.begun").exists)
        with pytest.raises(PoolBusy):
            await pool.run("a", None, process_id)
        (tmp_path / "first").touch()
        assert await first == "first"
    finally:
        await pool.close()


async def test_no_secret_of_this_process_is_known_there(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VEDETTE_SECRET_KEY", "canary")
    assert "VEDETTE_SECRET_KEY" not in await pool.run("a", None, environment_names)


async def test_a_process_that_is_killed_loses_its_work_and_the_next_is_done(
    pool: ProcessPool, tmp_path: Path
) -> None:
    work = asyncio.ensure_future(pool.run("a", None, wait_for, tmp_path / "never"))
    await eventually((tmp_path / "never.begun").exists)
    [pid] = pool.pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkLost):
        await work
    assert await pool.run("a", None, process_id) not in (pid, os.getpid())


async def test_a_process_that_died_while_it_had_nothing_to_do_is_replaced(pool: ProcessPool) -> None:
    pid = await pool.run("a", None, process_id)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: pool.pids == [])
    assert await pool.run("a", None, process_id) != pid


async def test_work_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pool = ProcessPool(seconds=1)
    try:
        with pytest.raises(WorkLost):
            await pool.run("a", None, wait_for, tmp_path / "never")
        assert pool.pids == []
    finally:
        await pool.close()


@pytest.mark.parametrize("work", [fail, take_memory])
async def test_work_that_fails_or_wants_too_much_memory_is_lost_alone(
    pool: ProcessPool, work: object
) -> None:
    with pytest.raises(WorkLost):
        await pool.run("a", None, work)  # pyright: ignore[reportArgumentType]
    assert await pool.run("a", None, doubled_alone, 2) == 4


async def test_work_that_nobody_waits_for_any_more_is_ended(pool: ProcessPool, tmp_path: Path) -> None:
    work = asyncio.ensure_future(pool.run("a", None, wait_for, tmp_path / "never"))
    await eventually((tmp_path / "never.begun").exists)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert pool.pids == []


async def test_processes_end_with_the_pool(pool: ProcessPool) -> None:
    pid = await pool.run("a", None, process_id)
    await pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
