"""`vedette api` and `vedette worker` as processes of somebody else's supervisor."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from embedded.process import bound_to_parent
from settings import ExitCode
from tests.stacks import CLI, environment, eventually, failed, free_port, vedette


def test_one_api_refuses_to_be_several_and_says_who_starts_these(tmp_path: Path, database_url: str) -> None:
    done = vedette(
        tmp_path, "api", DATABASE_URL=database_url, TEMPORAL_ADDRESS="127.0.0.1:1", VEDETTE_API_PROCESSES="2"
    )
    said = failed(done, ExitCode.SETTING)
    assert "VEDETTE_API_PROCESSES is 2" in said and "`vedette up`" in said


@pytest.mark.long
async def test_an_api_that_stops_serves_until_a_proxy_knows_of_it(tmp_path: Path, database_url: str) -> None:
    port = free_port()
    api = subprocess.Popen(
        [sys.executable, CLI, "api"],
        env=environment(tmp_path, DATABASE_URL=database_url, VEDETTE_PORT=str(port)),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=bound_to_parent(signal.SIGKILL),
    )  # fmt: skip
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

        async def status(path: str) -> int:
            try:
                return (await client.get(path, headers={"Connection": "close"})).status_code
            except httpx.TransportError:
                return 0

        async def ready() -> bool:
            return await status("/readyz") == 200

        async def stops() -> bool:
            return await status("/readyz") == 503

        await eventually(ready, 60, "the API is ready")
        api.send_signal(signal.SIGTERM)
        await eventually(stops, 5, "it says that it stops")
        assert await status("/healthz") == 200
    assert await asyncio.to_thread(api.wait, 30) == 0
