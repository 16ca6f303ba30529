"""What a start says at its end: enough to go on, and no secret where it would stay in a log."""

from __future__ import annotations

import asyncio
import os
import pty
from pathlib import Path

import pytest

from embedded.temporal import Temporal
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess


@pytest.fixture(scope="module")
def data(scratch: Path) -> Path:
    write_small_datasets(scratch / "announced")
    return scratch / "announced"


@pytest.fixture(scope="module")
def servers(temporal_server: Temporal, database_url: str) -> dict[str, str]:
    """Servers that are there already: a database without an account."""
    return {"DATABASE_URL": database_url, "TEMPORAL_ADDRESS": temporal_server.address}


async def test_on_a_terminal_the_first_start_shows_the_key(data: Path, servers: dict[str, str]) -> None:
    master, terminal = pty.openpty()
    stack, said = StackProcess(data, terminal, **servers), b""
    async with asyncio.timeout(60):
        while b"Ctrl-C stops it" not in said:
            said += await asyncio.to_thread(os.read, master, 4096)
    assert f'"Authorization: Bearer {stack.api_key}"' in said.decode().replace("'", '"')
    assert await stack.stop() == 0
    os.close(master)
    os.close(terminal)


async def test_a_spoilt_file_of_the_first_account_costs_a_warning_and_not_the_stack(
    data: Path, servers: dict[str, str]
) -> None:
    (data / "first-account.json").write_text("")
    stack = await StackProcess(data, **servers).ready()
    assert "account    warning: " in stack.said and "vedette keys create" in stack.said
    assert f"-H @{data / 'first-account.header'}" in stack.said
    assert await stack.stop() == 0


async def test_without_the_file_the_curl_leaves_the_key_to_its_reader(
    data: Path, servers: dict[str, str]
) -> None:
    (data / "first-account.json").unlink()
    stack = await StackProcess(data, **servers).ready()
    assert "-H 'Authorization: Bearer <key>'" in stack.said
    assert await stack.stop() == 0
