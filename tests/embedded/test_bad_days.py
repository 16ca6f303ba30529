"""What can be wrong with a start: one clear line each, its own exit code, no traceback, nothing damaged."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from embedded.temporal import Temporal
from services.operator import connections
from services.operator.configuration import warnings
from settings import ExitCode, StartError
from tests.datasets import write_small_datasets
from tests.stacks import ROOT, StackProcess, environment, eventually, failed, vedette

pytestmark = pytest.mark.long


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder for starts that get no further than their servers."""
    write_small_datasets(tmp_path)
    return tmp_path


@pytest.fixture
def external(temporal_server: Temporal, database_url: str) -> dict[str, str]:
    """Servers that are there, so that a start fails for one reason alone."""
    return {"DATABASE_URL": database_url, "TEMPORAL_ADDRESS": temporal_server.address}


def test_the_port_is_taken(scratch: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        said = failed(vedette(scratch / "taken", "up", VEDETTE_PORT=port), ExitCode.PORT_TAKEN)
    assert port in said and "VEDETTE_PORT" in said
    assert "calls under way" not in said


def test_another_stack_uses_the_data_folder(stack: StackProcess) -> None:
    said = failed(vedette(stack.data, "up"), ExitCode.DATA_FOLDER)
    assert str(stack.process.pid) in said and "VEDETTE_DATA" in said
    assert stack.process.poll() is None


def test_the_data_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    assert "cannot be used" in failed(vedette(tmp_path / "file", "up"), ExitCode.DATA_FOLDER)
    assert (tmp_path / "file").read_text() == "kept"


def test_the_data_folder_is_someone_elses(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("17\n")
    assert "holds other things" in failed(vedette(tmp_path, "up"), ExitCode.DATA_FOLDER)
    assert os.listdir(tmp_path) == ["PG_VERSION"]


def test_the_database_in_it_was_made_by_another_postgres(scratch: Path) -> None:
    data = scratch / "old"
    write_small_datasets(data)
    (data / "postgres").mkdir(parents=True)
    (data / "postgres" / "PG_VERSION").write_text("17\n")
    assert "made by Postgres 17" in failed(vedette(data, "up"), ExitCode.DATA_FOLDER, lines=2)
    assert os.listdir(data / "postgres") == ["PG_VERSION"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://vedette:hush@127.0.0.1:9/vedette", "Connection refused"),
        ("postgresql://vedette:hush@[127.0.0.1/vedette", "cannot be used"),
        ("mysql://vedette:hush@127.0.0.1/vedette", "cannot be used"),
        ("hush", "cannot be used"),
    ],
)
def test_the_database_url_is_wrong(data: Path, url: str, reason: str) -> None:
    said = failed(vedette(data, "up", DATABASE_URL=url, TEMPORAL_ADDRESS="x:1"), ExitCode.DATABASE)
    assert reason in said and "DATABASE_URL" in said
    assert "hush@" not in said


def test_the_temporal_address_is_wrong(data: Path, database_url: str) -> None:
    done = vedette(data, "up", DATABASE_URL=database_url, TEMPORAL_ADDRESS="127.0.0.1:9")
    assert "127.0.0.1:9" in failed(done, ExitCode.TEMPORAL)


def test_the_temporal_namespace_is_not_there(data: Path, external: dict[str, str]) -> None:
    done = vedette(data, "up", **external, TEMPORAL_NAMESPACE="nowhere")
    assert "nowhere" in failed(done, ExitCode.TEMPORAL)


def test_there_is_no_temporal_in_any_way(scratch: Path, tmp_path: Path) -> None:
    names = {
        "PATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    write_small_datasets(scratch / "no-temporal")
    said = failed(vedette(scratch / "no-temporal", "up", **names), ExitCode.TEMPORAL, lines=3)
    assert "four ways" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [("VEDETTE_PORT", "http"), ("VEDETTE_LIMIT_IP", "many"), ("VEDETTE_SECRET_KEY_FILE", "/nowhere")],
)
def test_a_setting_does_not_fit(tmp_path: Path, name: str, value: str) -> None:
    assert name in failed(vedette(tmp_path, "up", **{name: value}), ExitCode.SETTING)


def test_a_secret_key_is_too_short(data: Path, external: dict[str, str]) -> None:
    done = vedette(data, "up", **external, VEDETTE_SECRET_KEY="short")
    assert "32 characters" in failed(done, ExitCode.SECRET_KEY)


def test_an_unknown_setting_is_warned_of_with_the_nearest_name(tmp_path: Path) -> None:
    nearest = {
        "VEDETTE_PROT": "VEDETTE_PORT",
        "VEDETTE_SECRET_KEY_FIL": "VEDETTE_SECRET_KEY_FILE",
        "VEDETTE_PROVIDER_GREYNIOSE_KEY": "VEDETTE_PROVIDER_GREYNOISE_KEY",
        "VEDETTE_PROVIDER_GREYNIOSE_KEY_FILE": "VEDETTE_PROVIDER_GREYNOISE_KEY_FILE",
        "VEDETTE_PROVIDER_ZZZZZZ_KEY": None,
        "VEDETTE_QQQ": None,
    }
    (tmp_path / "value").write_text("1")
    done = vedette(tmp_path, "config", **dict.fromkeys(nearest, str(tmp_path / "value")))
    assert done.returncode == 0
    assert sorted(done.stderr.splitlines()) == sorted(
        f"There is no setting {name}; it is ignored.{f' Did you mean {near}?' if near else ''}"
        for name, near in nearest.items()
    )


async def test_a_postgres_that_is_too_old_is_told_of(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LEAST_POSTGRES", 99)
    with pytest.raises(StartError, match="is Postgres 18") as told:
        await connections.check_database(database_url)
    assert told.value.exit_code == ExitCode.DATABASE and "99 or newer is needed" in str(told.value)


@pytest.mark.parametrize("command", ["up", "api", "worker", "doctor"])
def test_every_start_warns_of_unknown_settings(tmp_path: Path, command: str) -> None:
    names = {"DATABASE_URL": "postgresql://127.0.0.1:9/x", "TEMPORAL_ADDRESS": "127.0.0.1:9"}
    done = vedette(tmp_path / "data", command, VEDETTE_PROT="1", **names)
    assert "There is no setting VEDETTE_PROT" in done.stderr


def test_every_documented_setting_of_a_source_is_known(tmp_path: Path) -> None:
    pages = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    documented = set(re.findall(r"VEDETTE_PROVIDER_[A-Z0-9]+_(?:KEY|BASE_URL|ENABLED)", " ".join(pages)))
    assert documented and warnings(dict.fromkeys(documented, "1")) == []


def _mounted(folder: Path, megabytes: int) -> bool:
    """Return whether a small file system could be mounted there."""
    folder.mkdir()
    mount = shutil.which("mount")
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "tmpfs", str(folder)]
    return mount is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
async def small_disk(scratch: Path) -> AsyncGenerator[Path]:
    folder = scratch / f"small-disk-{uuid4().hex[:8]}"
    if not _mounted(folder, 420):
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_the_disk_is_full_at_the_start(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"\0" * (300 * 1024**2))
    assert "MiB free, 200 needed" in failed(vedette(small_disk / "data", "up"), ExitCode.DATA_FOLDER)


async def test_the_disk_fills_while_it_runs_and_nothing_acknowledged_is_lost(
    small_disk: Path, temporal_server: Temporal
) -> None:
    data, filler = small_disk / "data", small_disk / "filler"
    write_small_datasets(data)
    stack = await StackProcess(data).ready()
    url = stack.record.database_url
    acknowledged = 0
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("select pg_switch_wal()")  # the next file has room for all of these rows
            connection.execute("create table kept (n int, filling text)")
        fill(filler, leaving=4 * 1024**2)
        with pytest.raises(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            while acknowledged < 10_000:  # until there is no room for rows
                connection.execute("insert into kept values (%s, repeat('x', 1000))", (acknowledged,))
                acknowledged += 1
        await eventually(lambda: readiness_is(stack, 503, "cannot write: its disk is full"), 30)
        with pytest.raises(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            for _ in range(1000):  # until there is no room for the write-ahead log, which stops the server
                connection.execute("select pg_logical_emit_message(true, 'test', repeat('x', 100000))")
        refused = vedette(data, "accounts", "create", "during@example.com")
        assert "Traceback" not in refused.stderr, refused.stderr
        assert stack.process.poll() is None
        filler.unlink()

        def created() -> bool:
            return vedette(data, "accounts", "create", "after@example.com").returncode == 0

        await eventually(created, 90, "accounts can be created again")
        await eventually(lambda: readiness_is(stack, 200, "ok"), 30)
        with psycopg.connect(url) as connection:
            row = connection.execute("select count(*) from kept").fetchone()
        assert row is not None and row[0] >= acknowledged > 0
    finally:
        # Without room for its log, Postgres ends itself with a panic.
        assert await stack.stop(may_crash=True) == 0


async def readiness_is(stack: StackProcess, status: int, database: str) -> bool:
    """Return whether `/readyz` says this of the database."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        answer = await client.get(f"{stack.url}/readyz")
    return (answer.status_code, answer.json()["checks"]["database"]) == (status, database)


def fill(file: Path, leaving: int) -> None:
    """Write until nothing more goes onto the disk, then give a little back."""
    with file.open("wb", buffering=0) as filler:
        with contextlib.suppress(OSError):
            while True:
                filler.write(b"\0" * 65536)
        filler.truncate(filler.tell() - leaving)


def test_outside_a_stack_a_command_that_needs_one_says_so(tmp_path: Path) -> None:
    said = failed(vedette(tmp_path, "migrate"), ExitCode.DATABASE)
    assert "vedette up" in said and "DATABASE_URL" in said
    assert "DATABASE_URL" not in environment(tmp_path)
