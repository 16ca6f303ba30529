"""A start whose Temporal is still being built: requests are answered, and what they ask for is done later.

What builds it is a `go` on PATH that waits until it is let go on, and then gives the program there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from temporalio.client import Client

from embedded import temporal_binary
from embedded.process import command_line
from embedded.temporal import Temporal
from settings import ExitCode
from temporal import due_schedules
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess, alive, eventually, vedette

pytestmark = pytest.mark.long

TRANSFORM = {"id": "n", "type": "transform", "config": {"expression": "trigger.n"}}
MONITOR = {"name": "Resolvers", "monitor_type": "ip", "frequency": "daily", "targets": ["8.8.8.8"]}
DAILY = {"type": "schedule", "schedule": {"frequency": "daily"}}


class Builder:
    """A machine where only Go can provide Temporal, and as long as it is told to."""

    def __init__(self, folder: Path, program: Path) -> None:
        self._pipe, self._commands = folder / "go-on", folder / "bin"
        folder.mkdir(mode=0o711)
        self._commands.mkdir(mode=0o711)
        os.mkfifo(self._pipe)
        self._write("temporal", "echo 'temporal version 1.0.0 (Server 1.20.0, UI 2)'")  # too old
        self._write(
            "go",
            'while [ "$1" != -o ]; do shift; done\n'
            f"read outcome < {self._pipe}\n"
            f'[ "$outcome" = built ] && /bin/cp -p {program} "$2"',
        )
        self.names = {
            "PATH": f"{self._commands}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "HTTPS_PROXY": "http://127.0.0.1:9",  # nothing is downloaded
        }

    def _write(self, name: str, script: str) -> None:
        command = self._commands / name
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)

    def at_work(self) -> list[int]:
        """The processes of a build."""
        return [pid for pid in psutil.pids() if str(self._commands) in command_line(pid)]

    async def end(self, outcome: str) -> None:
        """Have the build end now."""
        await asyncio.to_thread(self._pipe.write_text, f"{outcome}\n")


@pytest.fixture(scope="module")
def program(temporal_server: Temporal, scratch: Path) -> Path:
    """The program that the session's server came from."""
    found = temporal_binary.present(temporal_binary.cache_folder(scratch))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def place(scratch: Path) -> Path:
    """The data folder of all stacks here, one after the other."""
    write_small_datasets(scratch / "quick")
    return scratch / "quick"


async def serving(stack: StackProcess) -> StackProcess:
    """Wait until it says that it serves."""

    def announced() -> bool:
        assert stack.process.poll() is None, stack.said
        return "\ntry " in stack.said

    await eventually(announced, 120, "requests are answered")
    return stack


def client(stack: StackProcess) -> httpx.AsyncClient:
    headers = {"X-API-Key": stack.api_key}
    return httpx.AsyncClient(base_url=stack.url, headers=headers, trust_env=False, timeout=30)


async def post(api: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that is accepted."""
    answer = await api.post(path, json=body)
    assert answer.status_code in (201, 202), answer.text
    return answer.json()


@pytest.fixture(scope="class")
def patient(scratch: Path, program: Path) -> Builder:
    return Builder(scratch / "building", program)


@pytest.fixture(scope="class")
async def early(place: Path, patient: Builder) -> AsyncGenerator[StackProcess]:
    running = StackProcess(place, **patient.names)
    try:
        yield await serving(running)
    finally:
        await running.stop()


@pytest.fixture(scope="class")
def accepted() -> dict[str, str]:
    """Return where what was accepted meanwhile is to be had, by what it is."""
    return {}


class TestWhileItIsBuilt:
    """The tests before `test_in_the_end_all_is_ready` find it being built."""

    async def test_the_curl_that_it_prints_works(self, early: StackProcess) -> None:
        lines = early.said.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("try "))
        command = "\n".join(lines[first : first + 2]).removeprefix("try")
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["location"]["country"] == "United States"

    async def test_it_says_what_it_does_and_what_workflows_wait_for(self, early: StackProcess) -> None:
        assert f"serving lookups and accepting events at {early.url} (" in early.said
        assert "workflows wait for Temporal and the worker" in early.said
        await eventually(lambda: "building the server with Go" in early.said, what="the build is told of")
        assert "ready at" not in early.said

    def test_the_build_lets_requests_go_first(self, early: StackProcess, patient: Builder) -> None:
        (build,) = patient.at_work()
        assert os.getpriority(os.PRIO_PROCESS, build) > os.getpriority(os.PRIO_PROCESS, early.child("api"))

    async def test_it_is_degraded_and_no_more(self, early: StackProcess) -> None:
        async with client(early) as api:
            answer = await api.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        missing = {part: state for part, state in answer.json()["checks"].items() if state != "ok"}
        missing.pop("data", None)
        assert missing == {"workers": "none alive", "temporal": "unreachable"}

    def test_doctor_tells_what_is_awaited_from_what_is_broken(self, early: StackProcess) -> None:
        done = vedette(early.data, "doctor", "--json")
        states = {found["part"]: found["state"] for found in json.loads(done.stdout)}
        assert [states[part] for part in ("stack", "workers", "temporal")] == ["warning"] * 3
        assert done.returncode == 0

    async def test_what_is_asked_for_is_accepted(self, early: StackProcess, accepted: dict[str, str]) -> None:
        async with client(early) as api:
            workflow = await post(api, "/api/workflows", {"name": "Early", "steps": [TRANSFORM]})
            event = await post(api, workflow["webhook_url"], {"n": 42})
            accepted["run"] = f"/api/workflows/runs/{event['run_id']}"
            monitor = await post(api, "/api/monitors", MONITOR)
            run = await post(api, f"/api/monitors/{monitor['id']}/run", {})
            accepted["monitor run"] = f"/api/monitors/{monitor['id']}/runs/{run['run_id']}"
            job = await post(api, "/api/bulk-jobs", {"type": "ip", "targets": ["8.8.8.8"]})
            accepted["job"] = f"/api/bulk-jobs/{job['id']}"
            by_clock = {"name": "By the clock", "trigger": DAILY, "steps": [TRANSFORM]}
            accepted["scheduled"] = (await post(api, "/api/workflows", by_clock))["id"]

    async def test_an_api_process_that_dies_comes_back(self, early: StackProcess) -> None:
        before = await early.kill_child("api")
        await eventually(lambda: early.child("api") not in (0, before), 30, "the API is back")
        async with client(early) as api:
            assert (await api.get("/healthz")).status_code == 200

    async def test_in_the_end_all_is_ready(self, early: StackProcess, patient: Builder) -> None:
        await patient.end("built")
        assert await (await early.ready()).is_ready()
        assert f"ready at {early.url}" in early.said
        assert early.said.count("\naccount ") == early.said.count("\ntry ") == 1
        assert vedette(early.data, "doctor").returncode == 0 and early.record.ready

    @pytest.mark.parametrize("what", ["run", "monitor run", "job"])
    async def test_what_was_accepted_is_done(
        self, early: StackProcess, accepted: dict[str, str], what: str
    ) -> None:
        async with client(early) as api:

            async def completed() -> bool:
                found = (await api.get(accepted[what])).json()
                assert found["status"] != "failed", found
                return found["status"] == "completed"

            await eventually(completed, 30, f"the {what} is completed")

    async def test_a_schedule_that_was_accepted_is_one_in_temporal(
        self, early: StackProcess, accepted: dict[str, str]
    ) -> None:
        await eventually(lambda: is_scheduled(early, accepted["scheduled"]), 30)


async def is_scheduled(stack: StackProcess, workflow_id: str) -> bool:
    temporal = await Client.connect(stack.record.temporal_address)
    return workflow_id in map(str, await due_schedules.WORKFLOWS.list_all(temporal))


class TestWhatEndsTheStartMeanwhile:
    """Each over the same folder, whose stack has stopped before."""

    @pytest.fixture
    def builder(self, scratch: Path, program: Path, request: pytest.FixtureRequest) -> Builder:
        return Builder(scratch / request.node.name, program)

    @pytest.fixture
    async def stack(self, place: Path, builder: Builder) -> AsyncGenerator[StackProcess]:
        running = StackProcess(place, **builder.names)
        try:
            await serving(running)
            await eventually(lambda: len(builder.at_work()) == 1, what="Go is at work")
            yield running
        finally:
            await running.stop()

    async def test_interrupted_it_stops_all(self, stack: StackProcess, builder: Builder) -> None:
        children = stack.record.children
        assert set(children) == {"postgres", "api"}
        assert await stack.stop() == 0
        assert alive(children) == builder.at_work() == []
        assert not (stack.data / "stack.json").exists()

    async def test_with_its_supervisor_killed_nothing_is_left(
        self, stack: StackProcess, builder: Builder
    ) -> None:
        children = stack.record.children
        stack.kill()
        await eventually(lambda: alive(children) == builder.at_work() == [], 10, "no orphan")

    async def test_a_build_that_fails_ends_it_with_7(self, stack: StackProcess, builder: Builder) -> None:
        children = stack.record.children
        await builder.end("failed")
        assert await stack.ended() == ExitCode.TEMPORAL
        assert "There is no Temporal server" in stack.said and "the build failed" in stack.said
        assert alive(children) == []
