"""Runs whose only call an endpoint holds for as long as a test wants."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

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


def client(stack: StackProcess, key: str | None = None) -> httpx.AsyncClient:
    """A client with this key, or that of the first account."""
    headers = {"X-API-Key": key or stack.api_key}
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


async def all_completed(stack: StackProcess, ids: list[str], key: str | None = None) -> bool:
    async with client(stack, key) as api:
        for run_id in ids:
            try:
                run = (await api.get(f"/api/workflows/runs/{run_id}")).json()
            except (httpx.HTTPError, ValueError):
                return False
            assert run.get("status") not in ("failed", "cancelled"), run
            if run.get("status") != "completed":
                return False
    return True
