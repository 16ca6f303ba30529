"""Started as root, nothing but the supervisor stays root, wherever code and data lie."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest

from embedded.temporal import Temporal
from settings import ExitCode
from tests.datasets import write_small_datasets
from tests.stacks import ROOT, StackProcess, eventually, vedette

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run something as another user"),
]

CHILDREN = ("postgres", "temporal", "api", "worker")
TOKEN = "only-root-may-read-this"


@pytest.fixture(scope="module")
def data(scratch: Path, temporal_server: Temporal) -> Path:
    """A data folder that root has made for itself alone, with data in it that is root's."""
    folder = scratch / "rooted" / "data"
    folder.parent.mkdir(mode=0o711)
    folder.mkdir(mode=0o700)
    write_small_datasets(folder)
    return folder


@pytest.fixture(scope="module")
def low_port() -> int:
    """A free port that only root may listen on."""
    for port in range(1023, 600, -1):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
    pytest.fail("all low ports are taken")


@pytest.fixture(scope="module")
async def started(data: Path, low_port: int) -> AsyncGenerator[StackProcess]:
    token = data.parent / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    stack = StackProcess(data, VEDETTE_PORT=str(low_port), VEDETTE_METRICS_TOKEN_FILE=str(token))
    try:
        yield await stack.ready()
    finally:
        await stack.stop()


def status(pid: int, name: str) -> list[str]:
    """A line of `/proc/<pid>/status`."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{name}:(.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].split()


async def knows_an_address(stack: StackProcess) -> bool:
    headers = {"X-API-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False, headers=headers) as client:
        answer = await client.post("/api/agent/ip", json={"ip": "8.8.8.8"})
    return answer.status_code == 200 and answer.json()["location"]["country"] == "United States"


async def checks_workflows(stack: StackProcess) -> bool:
    """Which it does in processes beside the API."""
    step = {"id": "a", "type": "transform", "config": {"expression": "trigger.a"}}
    headers = {"X-API-Key": stack.api_key}
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False, headers=headers, timeout=30) as client:
        answer = await client.post("/api/workflows/validate", json={"name": "x", "steps": [step]})
    return answer.status_code == 200 and answer.json()["valid"]


@pytest.mark.parametrize("name", CHILDREN)
async def test_no_child_is_root_nor_can_become_it(started: StackProcess, name: str) -> None:
    pid = started.child(name)
    assert "0" not in status(pid, "Uid") + status(pid, "Gid") + status(pid, "Groups")
    assert {int(status(pid, name)[0], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {0}


async def test_it_works_on_a_port_of_roots(started: StackProcess, low_port: int) -> None:
    assert started.url.endswith(f":{low_port}")
    await eventually(lambda: knows_an_address(started), what="the lookup data of root is read")


async def test_what_settings_name_may_be_roots_alone(started: StackProcess) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
        assert (await client.get(f"{started.url}/metrics")).status_code == 200


async def test_each_part_of_the_data_folder_is_for_those_who_need_it(started: StackProcess) -> None:
    user = int(status(started.child("api"), "Uid")[0])
    owners = {path.name: path.stat().st_uid for path in started.data.iterdir()}
    theirs = {name for name, owner in owners.items() if owner == user}
    assert theirs == {"postgres", "temporal", "datasets", "secret.key"}
    assert {path.stat().st_uid for path in (started.data / "datasets").rglob("*")} == {user}
    for name in ("secret.key", "first-account.json", "first-account.header", "stack.json"):
        assert stat.S_IMODE((started.data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(started.data.stat().st_mode) == 0o711


async def test_the_commands_of_root_go_on_working(started: StackProcess) -> None:
    done = vedette(started.data, "doctor")
    assert done.returncode == 0, done.stdout
    fetched = vedette(started.data, "data", "fetch", "--if-missing")
    assert fetched.returncode == 0, fetched.stdout + fetched.stderr
    assert 0 not in {path.stat().st_uid for path in (started.data / "datasets").rglob("*")}


async def test_a_data_folder_of_a_release_that_ran_as_root_goes_on_working(started: StackProcess) -> None:
    data, key = started.data, started.api_key
    assert await started.stop() == 0
    for path in (data, *(data / name for name in ("secret.key", "temporal", "datasets"))):
        for one in (path, *(path.rglob("*") if path != data else ())):
            os.chown(one, 0, 0)
    data.chmod(0o711)
    again = await StackProcess(data).ready()
    try:
        assert again.api_key == key
        assert await knows_an_address(again)
    finally:
        assert await again.stop() == 0


@pytest.fixture
def private(scratch: Path) -> Generator[Path]:
    """A folder that nobody else can pass, as /root is."""
    folder = scratch / "private"
    folder.mkdir(mode=0o700)
    yield folder
    for link in (folder / "data" / "postgres", folder / "data" / "temporal"):
        if link.is_symlink():
            shutil.rmtree(link.resolve())
    shutil.rmtree(folder)


def copy_code(folder: Path) -> Path:
    """Another checkout; the path of its command."""
    unneeded = shutil.ignore_patterns(".*", "tests", "bench", "data")
    shutil.copytree(ROOT, folder, ignore=unneeded)
    return folder / "cli" / "__main__.py"


async def test_code_and_data_may_lie_where_the_user_cannot_pass(
    private: Path, temporal_server: Temporal
) -> None:
    data, cli = private / "data", copy_code(private / "code")
    write_small_datasets(data)
    stack = await StackProcess(data, cli=cli).ready()
    try:
        assert "0" not in {status(stack.child(name), "Uid")[0] for name in CHILDREN}
        assert await knows_an_address(stack)
        assert await checks_workflows(stack)
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    finally:
        assert await stack.stop() == 0
    assert await (await StackProcess(data, cli=cli).ready()).stop() == 0


@pytest.mark.parametrize("inner", ["", "of/somebody"])
async def test_downloads_are_kept_where_xdg_cache_home_says(
    private: Path, started: StackProcess, inner: str
) -> None:
    data, cache = started.data, private / "cache" / inner
    fetched = vedette(data, "data", "fetch", XDG_CACHE_HOME=str(cache))
    assert fetched.returncode in (0, ExitCode.DATA), fetched.stdout + fetched.stderr
    downloads, npm = cache / "vedette" / "downloads", cache / "vedette" / "npm"
    assert (downloads / ".lock").exists(), "the child works there"
    owner = (data / "datasets").stat().st_uid
    assert {path.stat().st_uid for path in (downloads, npm, *downloads.iterdir())} == {owner} != {0}
    assert (cache / "vedette").stat().st_uid == 0, "nobody else can replace what root goes through"


async def test_a_stack_keeps_its_downloads_there_too(private: Path, temporal_server: Temporal) -> None:
    cache = private / "cache"
    stack = StackProcess(private / "data", XDG_CACHE_HOME=str(cache))
    try:
        await eventually((cache / "vedette" / "downloads" / ".lock").exists, 60, "data is fetched there")
    finally:
        await stack.stop()


async def test_code_that_only_root_may_read_is_named_with_what_to_do(private: Path) -> None:
    cli = copy_code(private / "code")
    for path in private.rglob("*"):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
    stack = StackProcess(private / "data", cli=cli)
    assert await stack.ended(60) == ExitCode.UNEXPECTED
    assert f"cannot use {private / 'code'}" in stack.said and "chmod -R o+rX" in stack.said
    assert "Traceback" not in stack.said
