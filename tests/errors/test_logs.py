"""What a process writes to its log: enough to find a request, and no secret."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from database import Database
from settings import Settings
from tests import commands
from tests.stacks import eventually

HERE = Path(__file__).parent


@dataclass
class LoggedApi:
    http: httpx.AsyncClient
    path: Path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def of(self, response: httpx.Response) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line.get("request_id") == response.headers["x-request-id"]]


@pytest.fixture(scope="module")
async def logged(
    settings: Settings, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[LoggedApi]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path_factory.mktemp("log") / "api.log"
    environment = {
        **os.environ, "DATABASE_URL": database.url,
        "VEDETTE_DATA": str(settings.data), "VEDETTE_LIMIT_LOGIN": "off",
    }  # fmt: skip
    path.touch()
    process = commands.start("tests.errors.logged_api", [str(port)], environment, (os.devnull, str(path)))
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30
        ) as http:

            async def answers() -> bool:
                assert process.exitcode is None, path.read_text()
                try:
                    return (await http.get("/healthz")).status_code == 200
                except httpx.ConnectError:
                    return False

            await eventually(answers, 60)
            yield LoggedApi(http, path)
    finally:
        process.kill()
        process.join()


@pytest.mark.long
async def test_a_bug_tells_the_log_everything_and_the_client_nothing(logged: LoggedApi) -> None:
    response = await logged.http.post("/api/bug")
    assert response.status_code == 500
    assert "LookupError" not in response.text
    assert "reason" not in response.text
    first = logged.of(response)[0]
    assert first["event"] == "unexpected_error"
    assert "LookupError: the reason of the bug" in first["exception"]


async def test_every_problem_is_logged_under_its_request_id(logged: LoggedApi) -> None:
    response = await logged.http.get("/api/nothing", headers={"x-request-id": "find-me-again"})
    assert response.json()["request_id"] == "find-me-again"
    (line,) = logged.of(response)
    assert (line["event"], line["code"], line["status"]) == ("problem", "not_found", 404)


async def test_no_secret_reaches_the_log(logged: LoggedApi) -> None:
    password, wrong, ingest = "canary-password-1", "canary-password-2", "canary-ingest-token"
    user = {"email": "canary@example.com", "password": password}
    started = await logged.http.post("/api/auth/register", json=user)
    token = started.json()["token"]
    session = {"authorization": f"Bearer {token}"}
    created = await logged.http.post("/api/keys", headers=session, json={"name": "canary"})
    key = created.json()["key"]
    made = (await logged.http.post("/api/workflows", headers=session, json={"name": "canary"})).json()
    rotated = await logged.http.post(f"/api/workflows/{made['id']}/rotate-token", headers=session)
    tokens = [url["webhook_url"].rpartition("/")[2] for url in (made, rotated.json())]
    assert (await logged.http.post(f"/api/workflows/ingest/{tokens[1]}", json={})).status_code == 202
    responses = [
        await logged.http.post("/api/auth/login", json={**user, "password": wrong}),
        await logged.http.post("/api/auth/login", json={**user, "passwort": wrong}),
        await logged.http.post("/api/auth/login", content=f'{{"password": "{wrong}"'),
        await logged.http.post(
            "/api/auth/password", headers=session, json={"current_password": wrong, "new_password": "short"}
        ),
        await logged.http.post(f"/api/workflows/ingest/{ingest}", json={}),
        await logged.http.delete(f"/api/workflows/ingest/{ingest}"),
        await logged.http.post(f"/api/workflows/ingest/{tokens[0]}", json={}),
        await logged.http.post(f"/api/workflows/ingest/{tokens[1]}?wait=x", json={}),
        await logged.http.post(f"/api/workflows/ingest/{tokens[1]}", content=b"{"),
        await logged.http.get("/api/credits", headers={"x-api-key": key[:-1] + "~"}),
        await logged.http.post(
            "/api/bug", headers={**session, "idempotency-key": "canary-replay"}, json=user
        ),
        await logged.http.get("/api/wrong-answer"),
        await logged.http.get(f"/api/nothing?key={key}", headers={"x-api-key": key}),
    ]
    assert all(response.status_code >= 400 for response in responses)
    written = logged.path.read_text()
    assert all(logged.of(response) for response in responses)
    secrets = ("canary-in-an-answer", password, wrong, ingest, token, key, key[:-1], token.split(".")[2])
    for secret in (*secrets, *tokens):
        assert secret not in written


def test_of_what_the_sdk_logs_only_faults_have_a_traceback() -> None:
    script = """
import asyncio, logging, logs, psycopg
logs.configure("worker")
activity, signal = logging.getLogger("temporalio.activity"), "temporalio.worker._workflow_instance"
for error in (asyncio.CancelledError(), psycopg.OperationalError("away"), ValueError("a bug")):
    try:
        raise error
    except BaseException:
        activity.warning("Completing activity as failed", exc_info=True)
        logging.getLogger(signal).error("Failed deserializing, dropping the signal", exc_info=True)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=HERE.parents[1], stderr=subprocess.PIPE, check=True, text=True
    ).stderr
    lines = [json.loads(line) for line in told.splitlines()]
    assert [(line["event"], "exception" in line) for line in lines] == [
        ("Completing activity as failed: away", False),
        ("Failed deserializing, dropping the signal: away", False),
        ("Completing activity as failed", True),
        ("Failed deserializing, dropping the signal: a bug", False),
    ]


@pytest.mark.parametrize("then", [b"nonsense\r\n\r\n", b""], ids=["an invalid one", "the end"])
async def test_requests_in_a_row_before_the_end_of_a_connection_log_no_error(
    logged: LoggedApi, then: bytes
) -> None:
    """While the first is answered, the connection closes: for the rest it is as if their client had gone."""
    before = len(logged.lines())
    row = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3 + then
    for _ in range(30):
        reader, writer = await asyncio.open_connection(logged.http.base_url.host, logged.http.base_url.port)
        writer.write(row)
        writer.write_eof()
        await reader.read()
        writer.close()
    seen = await logged.http.get("/api/nothing")
    await eventually(lambda: bool(logged.of(seen)), what="the log has what came later")
    assert not [line for line in logged.lines()[before:] if line["level"] == "error"]
