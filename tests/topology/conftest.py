"""One topology for all tests of this folder, which the blocks of docs/deploy.md set up, and its load."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.topology.topology import BLOCKS, FAILOVER, Load, Topology, loaded, set_up


@pytest.fixture(scope="session")
def topology_folder() -> Generator[Path]:
    """A short path, for sockets, that every user can pass."""
    folder = Path(tempfile.mkdtemp(prefix="vt-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def topology(topology_folder: Path) -> AsyncGenerator[Topology]:
    """All parts, up."""
    extra = {"VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8"}
    async with set_up(topology_folder, extra, BLOCKS[:FAILOVER]) as made:
        yield made


@pytest.fixture(scope="session")
async def load(topology: Topology) -> AsyncGenerator[Load]:
    """A steady load for as long as there are tests."""
    async with loaded(topology) as made:
        await made.in_service()
        yield made
