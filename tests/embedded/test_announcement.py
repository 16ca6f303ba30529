"""Starts over servers of one's own, one after the other, and what each says at its end.

That is enough to go on, and no secret where it would stay in a log.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
from pathlib import Path

import pytest

from embedded.temporal import Temporal
from settings import ExitCode
from tests.datasets import write_small_datasets
from tests.stacks import StackProcess, failed, vedette

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def data(scratch: Path) -> Path:
    write_small_datasets(scratch / "announced")
    return scratch / "announced"


@pytest.fixture(scope="module")
def servers(temporal_server: Temporal, database_url: str) -> dict[str, str]:
    """Servers that are there already: a database without an account."""
    return {"DATABASE_URL": database_url, "TEMPORAL_ADDRESS": temporal_server.address}


@pytest.fixture(scope="module")
async def first(data: Path, servers: dict[str, str]) -> tuple[str, set[str]]:
    """Return what the first start says on a terminal, and the names of its children."""
    master, terminal = pty.openpty()
    stack, said = StackProcess(data, terminal, **servers), b""
    async with asyncio.timeout(60):
        while b"Ctrl-C stops it" not in said:
            said += await asyncio.to_thread(os.read, master, 4096)
    children = set(stack.record.children)
    assert await stack.stop() == 0
    os.close(master)
    os.close(terminal)
    return said.decode(), children


def test_on_a_terminal_the_first_start_shows_the_key(data: Path, first: tuple[str, set[str]]) -> None:
    key = json.loads((data / "first-account.json").read_text())["api_key"]
    assert f'"Authorization: Bearer {key}"' in first[0].replace("'", '"')


def test_with_servers_of_ones_own_it_starts_none(data: Path, first: tuple[str, set[str]]) -> None:
    assert first[1] == {"api", "worker"}
    assert not (data / "postgres").exists()


@pytest.mark.usefixtures("first")
def test_while_the_secret_key_is_lost_it_does_not_start(data: Path, servers: dict[str, str]) -> None:
    lost = (data / "secret.key").rename(data / "lost.key")
    said = failed(vedette(data, "up", **servers), ExitCode.SECRET_KEY, lines=2)
    assert "secret.key is missing" in said
    assert not (data / "secret.key").exists()
    lost.rename(data / "secret.key")  # with which the next one starts


@pytest.mark.usefixtures("first")
async def test_a_spoilt_file_of_the_first_account_costs_a_warning_and_not_the_stack(
    data: Path, servers: dict[str, str]
) -> None:
    (data / "first-account.json").write_text("")
    stack = await StackProcess(data, **servers).ready()
    assert "account    warning: " in stack.said and "vedette keys create" in stack.said
    assert f"-H @{data / 'first-account.header'}" in stack.said
    assert await stack.stop() == 0


@pytest.mark.usefixtures("first")
async def test_without_the_file_the_curl_leaves_the_key_to_its_reader(
    data: Path, servers: dict[str, str]
) -> None:
    (data / "first-account.json").unlink()
    stack = await StackProcess(data, **servers).ready()
    assert "-H 'Authorization: Bearer <key>'" in stack.said
    assert await stack.stop() == 0
