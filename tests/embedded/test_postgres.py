"""The built-in Postgres: its folder, its safety, its starts after bad ends."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import LiteralString, cast
from uuid import uuid4

import psycopg
import pytest

from embedded import cluster
from embedded.postgres import Postgres
from embedded.process import as_user, command_line
from embedded.report import Report
from settings import ExitCode, StartError
from tests.stacks import eventually


def new_folder(scratch: Path) -> Path:
    """A new data folder."""
    folder = scratch / uuid4().hex[:8]
    folder.mkdir(mode=0o711)
    return folder


@pytest.fixture
def place(scratch: Path) -> Path:
    return new_folder(scratch)


@pytest.fixture(scope="module")
def home(scratch: Path) -> Path:
    """The data folder of the servers that the tests here start, stop and kill."""
    return new_folder(scratch)


@pytest.fixture
async def server(home: Path) -> AsyncGenerator[Postgres]:
    started = Postgres(home, home / "logs" / "postgres.log", Report())
    await started.start()
    yield started
    await started.stop()


@pytest.fixture(scope="module")
async def unchanged(scratch: Path) -> AsyncGenerator[Postgres]:
    """A server as users have it: that of the session does not wait for the disk."""
    folder = new_folder(scratch)
    started = Postgres(folder, folder / "logs" / "postgres.log", Report())
    await started.start()
    yield started
    await started.stop()


async def ask(server: Postgres, query: str) -> str:
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    async with connection:
        row = await (await connection.execute(cast(LiteralString, query))).fetchone()
    assert row is not None
    return str(row[0])


async def tell(server: Postgres, statement: str) -> None:
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    async with connection:
        await connection.execute(cast(LiteralString, statement))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_version_num", "18"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("data_checksums", "on"),
        ("server_encoding", "UTF8"),
        ("listen_addresses", ""),
        ("timezone", "UTC"),
    ],
)
async def test_it_is_set_up_to_lose_nothing(unchanged: Postgres, setting: str, value: str) -> None:
    found = await ask(unchanged, f"select current_setting('{setting}')")
    assert found.startswith(value) if value else found == ""


async def test_text_sorts_by_code_point_whatever_the_machine_has(unchanged: Postgres) -> None:
    assert await ask(unchanged, "select datlocprovider from pg_database where datname = 'vedette'") == "b"
    assert await ask(unchanged, "select 'Z' < 'a' and upper('é') = 'É'") == "True"


async def test_only_its_owner_can_enter_the_folder_of_the_socket(server: Postgres, home: Path) -> None:
    assert stat.S_IMODE((home / "postgres").stat().st_mode) == 0o700
    assert "host=" in server.url and "@/" in server.url


async def test_a_second_start_finds_what_the_first_one_wrote(server: Postgres) -> None:
    await tell(server, "create table written as select 42 as n")
    await server.stop()
    await server.start()
    assert await ask(server, "select n from written") == "42"


async def test_after_a_kill_it_recovers_what_was_committed(server: Postgres) -> None:
    await tell(server, "create table kept as select generate_series(1, 1000) as n")
    pid = server.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await server.child.wait()
    await server.start()
    assert await ask(server, "select count(*) from kept") == "1000"


async def test_a_lock_whose_process_number_now_is_another_program_is_no_obstacle(
    server: Postgres, home: Path
) -> None:
    await server.stop()
    user = cluster.account(home / "postgres")
    other = subprocess.Popen(["sleep", "60"], cwd="/", **as_user(user))
    try:
        lock = home / "postgres" / "postmaster.pid"
        lock.write_text(f"{other.pid}\n{home / 'postgres'}\n1\n5432\n\n\n")
        if user is not None:
            os.chown(lock, user.pw_uid, user.pw_gid)
        await server.start()
        assert await ask(server, "select 1") == "1"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_server_that_an_earlier_start_left_running_is_stopped_first(
    server: Postgres, home: Path
) -> None:
    await server.stop()
    folder, user = home / "postgres", cluster.account(home / "postgres")
    programs = cluster.reachable(cluster.binaries(), user)
    orphan = subprocess.Popen(
        [str(programs / "postgres"), "-D", str(folder), "-k", str(folder), "-c", "listen_addresses="],
        cwd="/",
        stderr=subprocess.DEVNULL,
        **as_user(user),
    )
    try:
        await eventually((folder / ".s.PGSQL.5432").exists, what="the orphan listens")
        await server.start()
        assert orphan.wait(5) == 0
        assert await ask(server, "select 1") == "1"
    finally:
        orphan.kill()
        orphan.wait()


async def test_a_first_start_that_was_cut_short_leaves_nothing_in_the_way(place: Path) -> None:
    (place / "postgres.new").mkdir()
    (place / "postgres.new" / "PG_VERSION").write_text("18\n")
    server = Postgres(place, place / "postgres.log", Report())
    await server.start()
    await server.stop()
    assert not (place / "postgres.new").exists()


async def refused(place: Path) -> StartError:
    before = sorted((path, path.stat().st_mtime_ns) for path in place.rglob("*"))
    with pytest.raises(StartError) as caught:
        await Postgres(place, place.with_suffix(".log"), Report()).start()
    assert sorted((path, path.stat().st_mtime_ns) for path in place.rglob("*")) == before
    return caught.value


async def test_a_folder_of_another_major_version_is_refused_untouched(place: Path) -> None:
    (place / "postgres").mkdir()
    (place / "postgres" / "PG_VERSION").write_text("17\n")
    error = await refused(place)
    assert error.exit_code == ExitCode.DATA_FOLDER
    assert "made by Postgres 17; this is Postgres 18" in str(error)


async def test_a_folder_that_is_no_database_is_refused_untouched(place: Path) -> None:
    (place / "postgres").mkdir()
    (place / "postgres" / "letters.txt").write_text("Dear …")
    assert "is not a Postgres database" in str(await refused(place))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
async def test_a_folder_of_root_is_refused_with_the_reason(place: Path) -> None:
    (place / "postgres").mkdir(mode=0o700)
    (place / "postgres" / "PG_VERSION").write_text("18\n")
    assert "belongs to another user" in str(await refused(place))


async def test_a_path_too_long_for_a_socket_gets_a_short_private_one(place: Path) -> None:
    deep = place / ("d" * 90)
    deep.mkdir(mode=0o711)
    server = Postgres(deep, place / "postgres.log", Report())
    await server.start()
    try:
        assert await ask(server, "select 1") == "1"
        folder = Path(await ask(server, "select current_setting('unix_socket_directories')"))
        assert deep not in folder.parents
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        await server.stop()
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")
class TestAsRoot:
    async def test_it_runs_as_someone_unprivileged(self, server: Postgres) -> None:
        assert server.child.pid is not None
        assert Path(f"/proc/{server.child.pid}").stat().st_uid != 0

    async def test_where_that_user_cannot_reach_the_data_folder_the_database_is_elsewhere(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        private = place / "private"
        private.mkdir(mode=0o700)
        monkeypatch.setattr(cluster, "ELSEWHERE", place / "elsewhere")
        server = Postgres(private, place / "postgres.log", Report())
        await server.start()
        await server.stop()
        assert (private / "postgres").is_symlink()
        assert (private / "postgres").resolve().parent == place / "elsewhere"
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        await server.start()
        assert await ask(server, "select 1") == "1"
        await server.stop()

    async def test_where_that_user_cannot_reach_the_binaries_it_gets_a_copy(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        private = place / "private"
        private.mkdir(mode=0o700)
        shutil.copytree(cluster.binaries().parent, private / "install", symlinks=True)
        monkeypatch.setattr(cluster, "BINARY_CACHES", (place / "cache",))
        user = cluster.account(place / "postgres")
        for _ in range(2):  # the second time it is there already
            programs = cluster.reachable(private / "install" / "bin", user)
            assert place / "cache" in programs.parents
        assert stat.S_IMODE(private.stat().st_mode) == 0o700


async def test_it_stops_cleanly_when_asked_and_leaves_no_process(server: Postgres, home: Path) -> None:
    pid = server.child.pid
    assert pid is not None
    await server.stop(30)
    log = (home / "logs" / "postgres.log").read_text()
    assert "fast shutdown request" in log and "immediate shutdown request" not in log
    assert command_line(pid) == ""
