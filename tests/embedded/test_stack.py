"""The whole stack: its first start, its ends, and what it does about children that end."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import psutil
import pytest

from embedded.process import command_line
from embedded.temporal import Temporal
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess, eventually

CHILDREN = ("postgres", "temporal", "api", "worker")


@pytest.fixture(scope="module")
def data(scratch: Path, temporal_server: Temporal) -> Path:
    """The data folder of the stacks here; the session's server is there first, so that the program is."""
    folder = scratch / "victim"
    write_small_datasets(folder)
    return folder


@pytest.fixture(scope="module")
async def victim(data: Path) -> AsyncGenerator[StackProcess]:
    """A stack whose children are killed."""
    running = StackProcess(data, VEDETTE_API_PROCESSES="2", VEDETTE_PORT=str(free_port()))
    try:
        yield await running.ready()
    finally:
        await running.stop()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def checks(stack: StackProcess) -> dict[str, str]:
    """What `/readyz` says of each part; nothing while it does not answer."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        try:
            return dict((await client.get(f"{stack.url}/readyz")).json()["checks"])
        except (httpx.HTTPError, ValueError, KeyError):
            return {}


async def is_ready(stack: StackProcess) -> bool:
    """Whether every part works; the lookup data has tests of its own."""
    found = await checks(stack)
    return bool(found) and all(state == "ok" for part, state in found.items() if part != "data")


def alive(pids: dict[str, tuple[int, str]]) -> list[str]:
    return [name for name, (pid, line) in pids.items() if command_line(pid) == line]


async def test_after_the_first_start_the_whole_service_answers(stack: StackProcess) -> None:
    assert await is_ready(stack)
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False) as client:
        answer = await client.post(
            "/api/agent/ip", json={"ip": "8.8.8.8"}, headers={"X-API-Key": stack.api_key}
        )
    assert answer.status_code == 200
    assert answer.json()["location"]["city"] == "Mountain View"


async def test_the_first_account_is_in_a_file_for_its_owner_alone(stack: StackProcess) -> None:
    file = stack.data / "first-account.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    account = json.loads(file.read_text())
    assert set(account) == {"url", "email", "password", "api_key"}
    assert account["url"] == stack.url
    assert account["api_key"] not in stack.said


def test_the_curl_that_it_prints_works(stack: StackProcess) -> None:
    lines = stack.said.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("try "))
    command = "\n".join(lines[first : first + 2]).removeprefix("try")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["ip_address"] == "8.8.8.8"


async def test_it_says_where_to_go_on(stack: StackProcess) -> None:
    assert f"ready at {stack.url}" in stack.said
    assert f"curl -s {stack.url}/api/agent/ip" in stack.said
    assert stack.record.temporal_ui is None and "web pages" not in stack.said


async def test_it_shows_temporals_pages_when_asked_to(scratch: Path, temporal_server: Temporal) -> None:
    shown = StackProcess(scratch / "pages", VEDETTE_TEMPORAL_UI="1")
    try:
        await shown.ready()
        pages = str(shown.record.temporal_ui)
        assert f"web pages at {pages}" in shown.said
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(pages)).status_code == 200
            assert (await client.get(pages, headers={"Host": "attacker.example"})).status_code == 403
    finally:
        await shown.stop()


async def test_its_children_are_told_apart_by_their_command_lines(stack: StackProcess) -> None:
    lines = {name: command_line(stack.child(name)) for name in CHILDREN}
    assert lines["api"].endswith(" api")
    assert lines["worker"].endswith(" worker")
    assert "/temporal server start-dev " in lines["temporal"]
    assert "/postgres -D " in lines["postgres"]


async def test_all_api_processes_answer_on_one_address(victim: StackProcess) -> None:
    assert victim.child("api") and victim.child("api-2")
    assert await is_ready(victim)


@pytest.mark.parametrize("name", [*CHILDREN, "api-2"])
async def test_a_child_that_is_killed_comes_back(victim: StackProcess, name: str) -> None:
    before = victim.child(name)
    os.kill(before, signal.SIGKILL)
    await eventually(lambda: victim.child(name) not in (0, before), 30, f"{name} is back")
    await eventually(lambda: is_ready(victim), 60, "all is ready again")
    assert f"{name:<10} ended (signal SIGKILL)" in victim.said


async def test_requests_wait_while_every_api_process_is_started_again(victim: StackProcess) -> None:
    for name in ("api", "api-2"):
        os.kill(victim.child(name), signal.SIGKILL)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        assert (await client.get(f"{victim.url}/healthz")).status_code == 200


async def test_with_its_supervisor_killed_nothing_is_left_and_the_next_start_recovers(
    victim: StackProcess, data: Path
) -> None:
    key, children = victim.api_key, victim.record.children
    await eventually(lambda: len(alive(victim.record.children)) == 5, 60, "all five run")
    children = victim.record.children
    victim.process.kill()
    victim.process.wait()
    killed = time.monotonic()
    # At once, on the same port, while the children of the first are still stopping.
    following = StackProcess(data, VEDETTE_PORT=victim.url.rpartition(":")[2])
    try:
        await eventually(lambda: not alive(children), 10 - (time.monotonic() - killed), "no orphan")
        await following.ready()
        assert await is_ready(following)
        assert following.api_key == key
        async with httpx.AsyncClient(trust_env=False, headers={"X-API-Key": key}) as client:
            assert (await client.get(f"{following.url}/api/auth/me")).status_code == 200
        assert key not in following.said
    finally:
        assert await following.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_asked_to_stop_it_stops_all_in_order_and_ends_with_0(
    data: Path, number: signal.Signals
) -> None:
    stack = await StackProcess(data).ready()
    children = stack.record.children
    stack.process.send_signal(number)
    assert await stack.ended(30) == 0
    assert alive(children) == []
    assert not (data / "stack.json").exists()


async def test_asked_twice_it_stops_at_once_and_the_next_start_recovers(data: Path) -> None:
    stack = await StackProcess(data).ready()
    children = stack.record.children
    stack.process.send_signal(signal.SIGINT)
    await eventually(lambda: "stopping" in stack.said, 30)
    stack.process.send_signal(signal.SIGINT)
    assert await stack.ended(10) == 0
    assert alive(children) == []
    assert await (await StackProcess(data).ready()).stop() == 0


async def test_interrupted_while_it_starts_it_leaves_nothing(
    scratch: Path, temporal_server: Temporal
) -> None:
    data = scratch / "interrupted"
    write_small_datasets(data)
    stack = StackProcess(data)
    await eventually(lambda: "starting" in stack.said, 60)
    assert await stack.stop() == 0
    await eventually(
        lambda: not any(str(data) in command_line(pid) for pid in psutil.pids()), 30, "no orphan"
    )


@pytest.fixture(scope="module")
def outside(scratch: Path, temporal_server: Temporal, database_url: str) -> tuple[Path, dict[str, str]]:
    """A data folder, and the settings that name servers outside of the stack."""
    write_small_datasets(scratch / "outside")
    names = {"DATABASE_URL": database_url, "TEMPORAL_ADDRESS": temporal_server.address}
    return scratch / "outside", names


async def test_with_servers_of_ones_own_it_starts_none(outside: tuple[Path, dict[str, str]]) -> None:
    data, names = outside
    stack = StackProcess(data, **names)
    try:
        await stack.ready()
        assert set(stack.record.children) == {"api", "worker"}
        assert not (data / "postgres").exists()
    finally:
        assert await stack.stop() == 0


async def test_a_child_that_never_comes_up_ends_the_start_with_its_reason(
    outside: tuple[Path, dict[str, str]], scratch: Path
) -> None:
    """The API is given a module that breaks it; the third attempt is the last."""
    (scratch / "broken").mkdir()
    (scratch / "broken" / "uvicorn.py").write_text("raise RuntimeError('this one is broken')\n")
    data, names = outside
    stack = StackProcess(data, PYTHONPATH=str(scratch / "broken"), **names)
    assert await stack.ended(60) == 1
    assert "api does not start" in stack.said
    assert "RuntimeError: this one is broken" in stack.said


async def test_it_answers_on_the_port_it_is_given(outside: tuple[Path, dict[str, str]]) -> None:
    data, names = outside
    port = free_port()
    stack = StackProcess(data, VEDETTE_PORT=str(port), **names)
    try:
        await stack.ready()
        assert stack.url == f"http://127.0.0.1:{port}"
        assert await is_ready(stack)
    finally:
        await stack.stop()
