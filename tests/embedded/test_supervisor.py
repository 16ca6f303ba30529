"""The supervisor of `vedette up` starts a child again, whatever its restart meets."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import psycopg
import pytest

from embedded.process import Child
from embedded.process_supervisor import ProcessSupervisor
from embedded.report import Report
from tests.stacks import eventually

Keep = Callable[[Callable[[], Awaitable[None]], Callable[[], Child]], None]
SHORT, LONG = "pass", "import time; time.sleep(60)"


@pytest.fixture
async def supervisor(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ProcessSupervisor]:
    """A supervisor of a child that has worked once; it starts others again at once."""
    monkeypatch.setattr("embedded.process_supervisor._FIRST_PAUSE_SECONDS", 0.01)
    supervisor = ProcessSupervisor(Report(), on_failure=lambda _: None, on_start=lambda: None)
    supervisor.came_up("server")
    yield supervisor
    await supervisor.release()


def child_of(folder: Path, code: str) -> Child:
    return Child("server", [sys.executable, "-c", code], log=folder / "server.log")


@pytest.mark.parametrize("error", [psycopg.OperationalError("it has ended again"), OSError(11, "no process")])
async def test_a_server_whose_restart_fails_is_tried_again(
    supervisor: ProcessSupervisor, tmp_path: Path, error: Exception
) -> None:
    children, failed = [child_of(tmp_path, SHORT)], False

    async def start() -> None:
        nonlocal failed
        children.append(child_of(tmp_path, LONG))
        if not failed:
            failed = True
            raise error
        await children[-1].start()

    await children[0].start()
    supervisor.keep(start, lambda: children[-1])
    await eventually(lambda: children[-1].pid is not None, what="it runs")
    await supervisor.release()
    await children[-1].stop(1)


async def test_a_server_that_a_signal_without_a_name_ends_is_started_again(
    supervisor: ProcessSupervisor, tmp_path: Path
) -> None:
    child = child_of(tmp_path, LONG)
    await child.start()
    supervisor.keep(child.start, lambda: child)
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGRTMIN + 6)
    await eventually(lambda: child.pid not in (None, first), what="it runs again")
    await supervisor.release()
    await child.stop(1)
