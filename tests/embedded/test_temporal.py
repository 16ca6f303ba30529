"""The built-in Temporal: where its program comes from, and what its server is like."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
from collections.abc import AsyncGenerator
from datetime import timedelta
from io import StringIO
from ipaddress import ip_address
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from temporalio.api.operatorservice.v1 import (
    DeleteNamespaceRequest,
    ListSearchAttributesRequest,
    RemoveSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, Schedule, ScheduleActionStartWorkflow, ScheduleSpec
from temporalio.service import RPCError

from embedded import temporal_binary
from embedded.process import command_line
from embedded.report import Report
from embedded.temporal import Temporal, prepare, prepare_given
from settings import ExitCode, Settings, StartError
from temporal.attributes import SEARCH_ATTRIBUTES
from temporal.client import connection
from tests.stacks import eventually


def new_folder(scratch: Path) -> Path:
    """A new data folder, which the server's user can reach."""
    folder = scratch / uuid4().hex[:8]
    folder.mkdir(mode=0o711)
    return folder


@pytest.fixture(scope="module")
def place(scratch: Path) -> Path:
    return new_folder(scratch)


@pytest.fixture(scope="module")
async def server(place: Path, temporal_server: Temporal) -> AsyncGenerator[Temporal]:
    """A server that tests may change and kill; the session's is there first, so that the program is."""
    started = Temporal(place, place / "temporal.log", Report(), namespace="watch")
    await started.start()
    yield started
    await started.stop()


async def test_closed_workflows_are_kept_for_an_hour(temporal_server: Temporal) -> None:
    client = await Client.connect(temporal_server.address)
    answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
    assert answer.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(hours=1)


async def test_our_search_attributes_are_there_and_asking_again_is_no_error(
    temporal_server: Temporal,
) -> None:
    await prepare(connection(Settings(temporal_address=temporal_server.address)))
    client = await Client.connect(temporal_server.address)
    found = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )
    assert SEARCH_ATTRIBUTES.items() <= dict(found.custom_attributes).items()


async def test_a_given_server_gets_what_it_lacks(server: Temporal) -> None:
    client = await Client.connect(server.address, namespace="watch")
    remove = RemoveSearchAttributesRequest(namespace="watch", search_attributes=[*SEARCH_ATTRIBUTES][:1])
    await client.operator_service.remove_search_attributes(remove)
    await prepare_given(Settings(temporal_address=server.address, temporal_namespace="watch"))
    listed = ListSearchAttributesRequest(namespace="watch")
    found = await client.operator_service.list_search_attributes(listed)
    assert set(SEARCH_ATTRIBUTES) <= set(found.custom_attributes)


def listening(server: Temporal) -> list[tuple[str, int]]:
    """The addresses and ports at which a server listens."""
    pid = server.child.pid
    inodes = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    found = [
        fields[1].split(":")
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        if (fields := line.split())[3] == "0A" and f"socket:[{fields[9]}]" in inodes
    ]
    return [(str(ip_address(bytes.fromhex(address)[::-1])), int(port, 16)) for address, port in found]


async def test_it_listens_on_the_loopback_address_alone(temporal_server: Temporal) -> None:
    assert {address for address, _ in listening(temporal_server)} == {"127.0.0.1"}


async def test_it_shows_no_pages_and_has_no_http_api(temporal_server: Temporal) -> None:
    """At each of its ports; one that speaks HTTP/2 only ends the connection."""
    assert temporal_server.ui is None
    seen: set[int] = set()
    async with httpx.AsyncClient(trust_env=False) as client:
        for _, port in listening(temporal_server):
            for path in ("/", "/api/v1/namespaces", "/api/v1/settings", "/debug/pprof/", "/nexus/services"):
                try:
                    seen.add((await client.get(f"http://127.0.0.1:{port}{path}")).status_code)
                except httpx.RemoteProtocolError:
                    continue
    assert seen == {403, 404}


@pytest.fixture(scope="module")
async def shown(scratch: Path, temporal_server: Temporal) -> AsyncGenerator[Temporal]:
    """A server with pages."""
    place = new_folder(scratch)
    started = Temporal(place, place / "temporal.log", Report(), pages=True)
    await started.start()
    yield started
    await started.stop()


class TestItsPages:
    @pytest.fixture
    async def browser(self, shown: Temporal) -> AsyncGenerator[httpx.AsyncClient]:
        async with httpx.AsyncClient(base_url=str(shown.ui), trust_env=False) as client:

            async def connected() -> bool:
                return (await client.get("/api/v1/cluster-info")).is_success

            await eventually(connected, 30, "the pages have reached the server")
            yield client

    async def test_are_there_when_asked_for(self, browser: httpx.AsyncClient) -> None:
        page = await browser.get("/namespaces/default/workflows")
        assert page.status_code == 200 and "<html" in page.text
        listed = await browser.get("/api/v1/namespaces?pageSize=10")
        assert listed.json()["namespaces"]
        assert (await browser.get("/", headers={"Host": browser.base_url.netloc.decode()})).is_success

    async def test_take_what_is_posted(self, browser: httpx.AsyncClient) -> None:
        headers = {"Origin": str(browser.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        start = {"workflowType": {"name": "Any"}, "taskQueue": {"name": "any"}}
        answer = await browser.post("/api/v1/namespaces/default/workflows/any", json=start, headers=headers)
        assert answer.json()["started"]

    @pytest.mark.parametrize(
        "header",
        [
            {"Host": "attacker.example"},
            {"Host": "127.0.0.1"},
            {"Host": "127.0.0.1.attacker.example:80"},
            {"Origin": "http://attacker.example"},
            {"Origin": "null"},
        ],
        ids=str,
    )
    async def test_are_shown_under_no_foreign_name(
        self, browser: httpx.AsyncClient, header: dict[str, str]
    ) -> None:
        assert (await browser.get("/")).is_success  # and the connection is kept
        for path in ("/", "/api/v1/namespaces"):
            assert (await browser.get(path, headers=header)).status_code == 403

    async def test_cannot_be_found_past_the_check(self, shown: Temporal) -> None:
        """They are at an address that nobody can guess; at 127.0.0.1 is what is there without them."""
        apart = {address for address, _ in listening(shown)} - {"127.0.0.1"}
        assert len(apart) == 1 and all(address.startswith("127.") for address in apart)

    async def test_are_at_the_same_address_after_a_kill(
        self, shown: Temporal, browser: httpx.AsyncClient
    ) -> None:
        assert shown.child.pid is not None
        os.kill(shown.child.pid, signal.SIGKILL)
        await shown.child.wait()
        assert (await browser.get("/")).status_code == 502
        await shown.start()
        assert (await browser.get("/")).is_success


async def test_it_makes_the_namespace_it_is_asked_for(server: Temporal) -> None:
    client = await Client.connect(server.address, namespace="watch")
    answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="watch"))
    assert answer.namespace_info.name == "watch"


async def test_its_namespace_cannot_be_deleted(server: Temporal) -> None:
    client = await Client.connect(server.address)
    with pytest.raises(RPCError, match="protected"):
        await client.operator_service.delete_namespace(DeleteNamespaceRequest(namespace="watch"))


@pytest.mark.long
async def test_after_a_kill_it_is_back_at_the_same_address_with_its_data(server: Temporal) -> None:
    client = await Client.connect(server.address, namespace="watch")
    action = ScheduleActionStartWorkflow("Any", id="any", task_queue="any")
    await client.create_schedule("kept", Schedule(action=action, spec=ScheduleSpec()))
    address, pid = server.address, server.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await server.child.wait()
    await server.start()
    assert server.address == address
    assert (await client.get_schedule_handle("kept").describe()).id == "kept"


async def test_a_server_that_an_earlier_start_left_running_is_stopped_first(
    server: Temporal, place: Path
) -> None:
    left = server.child.pid
    assert left is not None
    second = Temporal(place, place / "temporal.log", Report(), namespace="watch")
    await second.start()
    try:
        assert command_line(left) == ""
    finally:
        await second.stop()


async def test_its_address_is_nobody_elses_while_it_waits_to_start(tmp_path: Path) -> None:
    server = Temporal(tmp_path, tmp_path / "temporal.log", Report())
    host, _, port = server.reserve().partition(":")
    with pytest.raises(OSError, match="in use"):
        socket.create_server((host, int(port)))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    assert server.reserve() == f"{host}:{port}"
    await server.stop()


async def test_one_that_ends_before_it_answers_is_started_again(
    scratch: Path, temporal_server: Temporal
) -> None:
    """Another process may take a port between the moment at which it is chosen and that of its use."""
    place = new_folder(scratch)
    log = place / "temporal.log"
    server = Temporal(place, log, Report())
    host, _, port = server.reserve().partition(":")
    server._held.close()
    with socket.create_server((host, int(port))):
        starting = asyncio.create_task(server.start())

        async def has_failed() -> bool:
            return log.exists() and "address already in use" in log.read_text()

        await eventually(has_failed, 30, "the first start has failed")
    try:
        await starting
        await Client.connect(server.address)
    finally:
        await server.stop()


def test_the_module_that_is_built_is_the_version_that_is_named() -> None:
    module = (Path(temporal_binary.__file__).parent / "temporal" / "go.mod").read_text()
    assert re.search(rf"github.com/temporalio/cli v{re.escape(temporal_binary.VERSION)}\b", module)


class TestWhereTheProgramComesFrom:
    @pytest.fixture(autouse=True)
    def nothing_is_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An empty cache, a PATH without `temporal` and `go`, a publisher that does not answer."""
        (tmp_path / "bin").mkdir()
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(temporal_binary, "_DOWNLOADS", "http://127.0.0.1:9")

    def program(self, place: Path, script: str) -> None:
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)

    async def test_nothing_names_the_four_ways(self, tmp_path: Path) -> None:
        with pytest.raises(StartError) as caught:
            await temporal_binary.obtain(tmp_path, Report())
        assert caught.value.exit_code == ExitCode.TEMPORAL
        message = str(caught.value)
        assert len(message.splitlines()) == 3
        for way in ("TEMPORAL_ADDRESS", "PATH", "temporal.download", "Go 1.26.8"):
            assert way in message

    async def test_one_on_path_is_taken(self, tmp_path: Path) -> None:
        self.program(tmp_path / "bin" / "temporal", "echo 'temporal version 1.9.0 (Server 1.31.0, UI 2)'")
        assert await temporal_binary.obtain(tmp_path, Report()) == tmp_path / "bin" / "temporal"

    async def test_one_on_path_that_is_too_old_is_passed_over_for_the_cache(self, tmp_path: Path) -> None:
        self.program(tmp_path / "bin" / "temporal", "echo 'temporal version 1.5.1 (Server 1.29.1, UI 2)'")
        cached = temporal_binary.cache_folder(tmp_path) / "temporal"
        self.program(cached, "echo 'temporal version 1.9.1 (Server 1.32.0, UI 2)'")
        assert await temporal_binary.obtain(tmp_path, Report()) == cached

    async def test_one_on_path_that_hangs_keeps_nobody_else_waiting(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(temporal_binary, "_ANSWER_SECONDS", 1)
        self.program(tmp_path / "bin" / "temporal", "exec /bin/sleep 60")
        cached = temporal_binary.cache_folder(tmp_path) / "temporal"
        self.program(cached, "echo 'temporal version 1.9.1 (Server 1.32.0, UI 2)'")
        obtaining = asyncio.create_task(temporal_binary.obtain(tmp_path, Report()))
        assert not (await asyncio.wait({obtaining}, timeout=0))[0]
        assert await obtaining == cached

    async def test_a_build_that_fails_is_told_with_its_last_line(self, tmp_path: Path) -> None:
        self.program(tmp_path / "bin" / "go", "echo 'go: no required module provides it' >&2; exit 1")
        with pytest.raises(StartError, match="go: no required module provides it"):
            await temporal_binary.obtain(tmp_path, Report())
        assert not (temporal_binary.cache_folder(tmp_path) / "temporal").exists()

    async def test_a_build_is_put_in_the_cache_and_used(self, tmp_path: Path) -> None:
        # This `go` puts a program where `-o` says, as the real one does after four minutes.
        self.program(tmp_path / "made", "echo 'temporal version 1.9.1 (Server 1.32.0, UI 2)'")
        script = f'while [ "$1" != -o ]; do shift; done; /bin/cp {tmp_path / "made"} "$2"'
        self.program(tmp_path / "bin" / "go", script)
        cached = temporal_binary.cache_folder(tmp_path) / "temporal"
        assert await temporal_binary.obtain(tmp_path, Report()) == cached
        assert not list(cached.parent.glob("temporal.*"))

    async def test_without_a_home_to_write_to_it_is_cached_in_the_data_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert tmp_path / "data" in temporal_binary.cache_folder(tmp_path / "data").parents


async def test_what_takes_long_shows_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    from embedded import report

    monkeypatch.setattr(report, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(report, "_EVERY_SECONDS", 0)
    out = StringIO()
    shown = report.Report(out)
    async with shown.during("temporal", "building"):
        await eventually(lambda: out.getvalue().count("temporal   building … ") > 1)


def test_a_program_that_does_not_run_is_none(tmp_path: Path) -> None:
    (tmp_path / "temporal").write_text("not a program")
    assert temporal_binary.server_version(tmp_path / "temporal") is None
    assert shutil.which("temporal", path=str(tmp_path)) is None
