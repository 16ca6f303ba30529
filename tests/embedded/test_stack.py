"""The whole stack: its first start, and starts that come to nothing."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from pathlib import Path

import httpx
import psutil
import pytest

from embedded.process import command_line
from embedded.temporal import Temporal
from providers.dataset_inventory import fields_of
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess, eventually

pytestmark = pytest.mark.long

CHILDREN = ("postgres", "temporal", "api", "worker")


async def test_after_the_first_start_the_whole_service_answers(stack: StackProcess) -> None:
    assert await stack.is_ready()
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False) as client:
        answer = await client.post(
            "/api/agent/ip", json={"ip": "8.8.8.8"}, headers={"X-API-Key": stack.api_key}
        )
    assert answer.status_code == 200
    assert answer.json()["location"]["country"] == "United States"


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


async def test_its_children_are_told_apart_by_their_command_lines(stack: StackProcess) -> None:
    lines = {name: command_line(stack.child(name)) for name in CHILDREN}
    assert lines["api"].endswith(" api")
    assert lines["worker"].endswith(" worker")
    assert "/temporal server start-dev " in lines["temporal"]
    assert "/postgres -D " in lines["postgres"]


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


async def test_lookup_data_that_is_missing_is_named_and_stops_no_start(
    scratch: Path, temporal_server: Temporal
) -> None:
    names = {"TEMPORAL_ADDRESS": temporal_server.address, "XDG_CACHE_HOME": str(scratch / "no-cache")}
    stack = await StackProcess(scratch / "no-data", **names).ready()
    await eventually(lambda: "not all could be fetched" in stack.said, what="the end of the fetch")
    # Started as root, what is downloaded is kept for all data folders: some of the lists may be there.
    missing = re.findall(r"data +(\w+): unavailable", stack.said)
    assert missing
    await eventually(lambda: "; but not all lookup data is there" in stack.said, 60, "it is ready")
    for name in missing:
        assert f"  {name}: {', '.join(fields_of(name))}" in stack.said
    assert await stack.stop() == 0


async def test_a_child_that_never_comes_up_ends_the_start_with_its_reason(
    scratch: Path, temporal_server: Temporal, database_url: str
) -> None:
    """The API is given a module that breaks it; the third attempt is the last."""
    (scratch / "broken").mkdir()
    (scratch / "broken" / "uvicorn.py").write_text("raise RuntimeError('this one is broken')\n")
    data = scratch / "never-up"
    write_small_datasets(data)
    names = {"DATABASE_URL": database_url, "TEMPORAL_ADDRESS": temporal_server.address}
    stack = StackProcess(data, PYTHONPATH=str(scratch / "broken"), **names)
    assert await stack.ended(60) == 1
    assert "api does not start" in stack.said
    assert "RuntimeError: this one is broken" in stack.said
