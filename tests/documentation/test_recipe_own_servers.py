"""docs/recipes/own-postgres-and-temporal.md, block by block, over servers that are there already."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from embedded.postgres import Postgres
from embedded.report import Report
from embedded.temporal import Temporal
from embedded.temporal_binary import obtain
from tests.datasets import write_small_datasets
from tests.documentation import pages
from tests.pinned_packages import run
from tests.programs import find_program
from tests.stacks import StackProcess, environment, vedette

pytestmark = pytest.mark.long

_BLOCKS = {
    block.role or block.language: block.text
    for block in pages.read("docs/recipes/own-postgres-and-temporal.md")
}
_COUNT = {"id": "n", "type": "transform", "config": {"expression": "length(trigger)"}}


class _Owner:
    """Somebody with both servers, who does what the page says.

    Attributes:
        names: the page's settings, with the addresses of these servers.
    """

    def __init__(self, scratch: Path, postgres: Postgres, temporal: Temporal, program: Path) -> None:
        self._folder, self._admin = scratch / "own-servers", postgres.url
        self._folder.mkdir()
        self._program, self._temporal = program, temporal.address
        socket = parse_qs(urlsplit(postgres.url).query)["host"][0]
        self.names = dict(line.split("=", 1) for line in _BLOCKS["ini"].splitlines())
        url = self.names["DATABASE_URL"].replace("127.0.0.1:5432", "")
        self.names |= {"DATABASE_URL": f"{url}?host={socket}", "TEMPORAL_ADDRESS": temporal.address}

    async def do(self, block: str, data: Path, **changes: str) -> str:
        """Run a block of the page, with the settings from when they are there, and return what it said."""
        path = f"{Path(sys.executable).parent}:{self._program.parent}:{os.environ['PATH']}"
        given = {"ADMIN_URL": self._admin, "PATH": path, "TEMPORAL_ADDRESS": self._temporal} | changes
        names = environment(data, **given)
        return await asyncio.to_thread(run, "bash", "-eu", "-c", _BLOCKS[block], cwd=self._folder, **names)

    def folder_of(self, name: str) -> Path:
        """Return the place of a data folder."""
        return self._folder / name


async def test_the_service_runs_on_servers_of_its_owner_and_moves_there(
    scratch: Path, postgres: Postgres, temporal_server: Temporal
) -> None:
    find_program("psql")
    program = await obtain(Path(tempfile.gettempdir()), Report())
    owner = _Owner(scratch, postgres, temporal_server, program)

    built_in, own = owner.folder_of("built-in"), owner.folder_of("own")
    write_small_datasets(built_in)
    stack = await StackProcess(built_in).ready()
    (built_in / "count.json").write_text(json.dumps({"name": "Count", "steps": [_COUNT]}))
    assert vedette(built_in, "workflows", "apply", str(built_in / "count.json")).returncode == 0
    await owner.do("backup", built_in)
    await stack.stop()

    await owner.do("sh", own)
    await owner.do("temporal", own)
    await owner.do("restore", own, **owner.names)
    write_small_datasets(own)
    stack = StackProcess(own, **owner.names)
    try:
        await stack.ready()
        assert {"postgres", "temporal"}.isdisjoint(stack.record.children)
        done = vedette(own, "workflows", "run", "Count", "--input", "[1, 2]", "--wait", "--json",
                       VEDETTE_URL=stack.url, VEDETTE_API_KEY=_key(own, owner))  # fmt: skip
        assert json.loads(done.stdout)["output"] == 2
        await owner.do("doctor", own, **owner.names)
    finally:
        await stack.stop()


def _key(data: Path, owner: _Owner) -> str:
    """Return a new key: that of the first account is in no backup."""
    listed = vedette(data, "accounts", "list", "--json", **owner.names)
    [account] = json.loads(listed.stdout)["accounts"]
    made = vedette(data, "keys", "create", "--account", account["email"], "--json", **owner.names)
    return json.loads(made.stdout)["key"]
