"""A stack that is killed in part or whole, or stopped: it is back, nothing is left, and all runs finish."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from embedded.temporal import Temporal
from tests.datasets import write_small_datasets
from tests.embedded.in_flight import RUNS, Receiver, all_completed, begin, client
from tests.stacks import StackProcess, alive, eventually, free_port

pytestmark = pytest.mark.long


class Succession:
    """The stacks over one data folder, one after the other; where a test has ended one, the next starts."""

    def __init__(self, data: Path) -> None:
        self.port = str(free_port())
        self.stack = self._start(data, VEDETTE_API_PROCESSES="2", VEDETTE_TEMPORAL_UI="1")

    def _start(self, data: Path, **names: str) -> StackProcess:
        return StackProcess(
            data, VEDETTE_PORT=self.port, VEDETTE_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32", **names
        )

    def start_next(self) -> None:
        """Start the next one, on the same port."""
        self.stack = self._start(self.stack.data)

    async def running(self) -> StackProcess:
        """The stack that runs."""
        if self.stack.process.poll() is not None:
            self.start_next()
        return await self.stack.ready()


@pytest.fixture(scope="module")
async def succession(scratch: Path, temporal_server: Temporal) -> AsyncGenerator[Succession]:
    """Its first stack has two API processes and Temporal's pages, and is told its port as all are."""
    data = scratch / "in-flight"
    write_small_datasets(data)
    stacks = Succession(data)
    try:
        yield stacks
    finally:
        await stacks.stack.stop()


@pytest.fixture
async def subject(succession: Succession) -> StackProcess:
    return await succession.running()


async def test_it_answers_on_the_port_it_is_given(subject: StackProcess, succession: Succession) -> None:
    assert subject.url == f"http://127.0.0.1:{succession.port}"
    assert await subject.is_ready()


async def test_it_shows_temporals_pages_when_asked_to(subject: StackProcess) -> None:
    pages = str(subject.record.temporal_ui)
    assert f"web pages at {pages}" in subject.said
    async with httpx.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(pages)).status_code == 200
        assert (await browser.get(pages, headers={"Host": "attacker.example"})).status_code == 403


async def test_what_carries_a_run_links_to_these_pages(subject: StackProcess) -> None:
    async with client(subject) as api:
        approval = {"id": "approval", "type": "wait", "config": {"timeout": 600}}
        body = {"name": "Seen", "steps": [approval], "execution": "workflow"}
        made = (await api.post("/api/workflows", json=body)).json()
        run = (await api.post(f"/api/workflows/{made['id']}/run", json={"input": {}})).json()["run_id"]

        async def is_linked() -> bool:
            told = (await api.get(f"/api/workflows/runs/{run}/carrier")).json()
            page = f"{subject.record.temporal_ui}/namespaces/default/workflows/run%2F{run}"
            return (told["workflow_url"], [one["step"] for one in told["timers"]]) == (page, ["approval"])

        await eventually(is_linked, 20, "its page in Temporal is linked")
        await api.post(f"/api/workflows/runs/{run}/cancel")


# Postgres last: that one API process is ready again does not say that the other is.
@pytest.mark.parametrize("name", ["worker", "temporal", "api", "api-2", "postgres"])
async def test_a_child_that_is_killed_comes_back_and_the_runs_finish(
    subject: StackProcess, receiver: Receiver, name: str
) -> None:
    ids = await begin(subject, receiver)
    before = await subject.kill_child(name)
    receiver.open.set()
    await eventually(lambda: subject.child(name) not in (0, before), 30, f"{name} is back")
    await eventually(lambda: all_completed(subject, ids), 60, f"all runs complete without the first {name}")
    await eventually(subject.is_ready, 60, "all is ready again")
    assert f"{name:<10} ended (signal SIGKILL)" in subject.said


async def test_requests_wait_while_every_api_process_is_started_again(subject: StackProcess) -> None:
    for name in ("api", "api-2"):
        await subject.kill_child(name)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        assert (await browser.get(f"{subject.url}/healthz")).status_code == 200
    await eventually(lambda: len(alive(subject.record.children)) == 5, 60, "all five run")


async def test_with_its_supervisor_killed_nothing_is_left_and_the_runs_finish_in_the_next(
    subject: StackProcess, succession: Succession, receiver: Receiver
) -> None:
    ids = await begin(subject, receiver)
    key, children = subject.api_key, subject.record.children
    subject.process.kill()
    subject.process.wait()
    killed = time.monotonic()
    receiver.open.set()
    succession.start_next()  # at once, while the children of the first are still stopping
    await eventually(lambda: not alive(children), 10 - (time.monotonic() - killed), "no orphan")
    following = await succession.running()
    assert await following.is_ready()
    assert following.api_key == key
    await eventually(lambda: all_completed(following, ids), 60, "all runs complete in the next stack")
    assert key not in following.said


async def test_asked_twice_it_stops_at_once(subject: StackProcess) -> None:
    children = subject.record.children
    subject.process.send_signal(signal.SIGINT)
    await eventually(lambda: subject.said.count("stopping") > 0, 30)
    subject.process.send_signal(signal.SIGINT)
    assert await subject.ended(10) == 0
    assert alive(children) == []


async def test_asked_to_stop_it_stops_all_in_order_and_the_runs_finish_in_the_next(
    subject: StackProcess, succession: Succession, receiver: Receiver
) -> None:
    """Also the one after a stop in a hurry comes up as any other."""
    ids = await begin(subject, receiver)
    children = subject.record.children
    subject.process.send_signal(signal.SIGTERM)
    receiver.open.set()
    assert await subject.ended(30) == 0
    assert alive(children) == [] and not (subject.data / "stack.json").exists()
    following = await succession.running()
    await eventually(lambda: all_completed(following, ids), 60, "all runs complete in the next stack")
    assert len(receiver.call_ids) == len(set(receiver.call_ids)) == RUNS


async def test_interrupted_it_stops_all_in_order(subject: StackProcess) -> None:
    children = subject.record.children
    assert await subject.stop() == 0
    assert alive(children) == [] and not (subject.data / "stack.json").exists()
