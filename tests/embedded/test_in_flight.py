"""Runs that are at work when a part of the stack is killed: all of them finish."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncGenerator, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from embedded.temporal import Temporal
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess, eventually

RUNS = 20


class Receiver(ThreadingHTTPServer):
    """Answers webhook steps, but only while `open` is set."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.open = threading.Event()
        self.waiting = threading.Event()
        self.call_ids: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.call_ids.append(self.headers["webhook-id"])
        self.server.waiting.set()
        self.server.open.wait()
        try:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
        except OSError:
            self.close_connection = True  # who asked has been killed

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def receiver() -> Generator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.open.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def data(scratch: Path, temporal_server: Temporal) -> Path:
    write_small_datasets(scratch / "in-flight")
    return scratch / "in-flight"


def started(data: Path) -> StackProcess:
    return StackProcess(data, VEDETTE_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32")


@pytest.fixture(scope="module")
async def subject(data: Path) -> AsyncGenerator[StackProcess]:
    running = started(data)
    try:
        yield await running.ready()
    finally:
        await running.stop()


def client(stack: StackProcess) -> httpx.AsyncClient:
    headers = {"X-API-Key": stack.api_key}
    return httpx.AsyncClient(base_url=stack.url, headers=headers, trust_env=False, timeout=30)


async def begin(stack: StackProcess, receiver: Receiver) -> list[str]:
    """Start runs, and wait until the receiver holds the first of their steps."""
    receiver.open.clear()
    receiver.waiting.clear()
    receiver.call_ids.clear()
    url = f"http://127.0.0.1:{receiver.server_address[1]}/"
    step = {
        "id": "send",
        "type": "webhook",
        "config": {"url": url, "timeout": 60, "body": {"n": "{{ trigger.n }}"}},
    }
    async with client(stack) as api:
        answer = await api.post("/api/workflows", json={"name": "In flight", "steps": [step]})
        assert answer.status_code == 201, answer.text
        workflow = answer.json()["id"]
        ids: list[str] = []
        for number in range(RUNS):
            accepted = await api.post(f"/api/workflows/{workflow}/run", json={"input": {"n": number}})
            assert accepted.status_code == 202, accepted.text
            ids.append(accepted.json()["run_id"])
    try:
        await eventually(receiver.waiting.is_set, 20, "a step is at work")
    except AssertionError:
        print(stack.said, stack.tail("worker"), stack.tail("temporal"), sep="\n")
        raise
    return ids


async def all_completed(stack: StackProcess, ids: list[str]) -> bool:
    async with client(stack) as api:
        for run_id in ids:
            try:
                run = (await api.get(f"/api/workflows/runs/{run_id}")).json()
            except (httpx.HTTPError, ValueError):
                return False
            assert run.get("status") not in ("failed", "cancelled"), run
            if run.get("status") != "completed":
                return False
    return True


@pytest.mark.parametrize("name", ["worker", "temporal", "postgres", "api"])
async def test_runs_finish_after_a_child_is_killed(
    subject: StackProcess, receiver: Receiver, name: str
) -> None:
    ids = await begin(subject, receiver)
    os.kill(subject.child(name), signal.SIGKILL)
    receiver.open.set()
    await eventually(lambda: all_completed(subject, ids), 60, f"all runs complete without the first {name}")


async def test_runs_finish_after_the_supervisor_is_killed(
    subject: StackProcess, receiver: Receiver, data: Path
) -> None:
    ids = await begin(subject, receiver)
    subject.process.kill()
    subject.process.wait()
    receiver.open.set()
    following = await started(data).ready()
    try:
        await eventually(lambda: all_completed(following, ids), 60, "all runs complete in the next stack")
    finally:
        assert await following.stop() == 0


async def test_runs_finish_after_a_stop_that_was_asked_for(receiver: Receiver, data: Path) -> None:
    first = await started(data).ready()
    ids = await begin(first, receiver)
    first.process.send_signal(signal.SIGTERM)
    receiver.open.set()
    assert await first.ended(30) == 0
    following = await started(data).ready()
    try:
        await eventually(lambda: all_completed(following, ids), 60, "all runs complete in the next stack")
    finally:
        assert await following.stop() == 0
    assert len(receiver.call_ids) == len(set(receiver.call_ids)) == RUNS
