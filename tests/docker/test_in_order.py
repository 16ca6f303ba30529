"""The services of the compose file come up in its order, as it has them, and do their work.

They run as processes over a Postgres with passwords. Temporal's server and its schema job are not here: a
development server stands in for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from embedded.cluster import account, binaries, environment, reachable
from embedded.process import Child, ChildSetup, as_user
from embedded.report import Report
from embedded.temporal import Temporal
from embedded.temporal_binary import obtain
from tests.datasets import write_small_datasets
from tests.docker.conftest import Image
from tests.docker.containers import Containers
from tests.docker.files import words
from tests.stacks import ROOT, eventually, free_port

pytestmark = pytest.mark.long

_DATABASE = "postgres:5432"
_STANDING_IN = ("temporal-schema", "temporal", "data")


@pytest.fixture(scope="module")
async def temporal(scratch: Path) -> AsyncGenerator[Temporal]:
    """A Temporal server of its own: the task queue is that of the other tests' workers."""
    folder = scratch / "docker"
    folder.mkdir()
    server = Temporal(folder, folder / "temporal.log", Report())
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="module")
async def containers(scratch: Path, image: Image, temporal: Temporal) -> AsyncGenerator[Containers]:
    """All services, up."""
    folder = scratch / "docker"
    port, database = free_port(), free_port()
    program = await obtain(folder, Report())
    made = Containers(
        folder,
        image,
        hosts={
            "temporal:7233": temporal.address,
            _DATABASE: f"127.0.0.1:{database}",
            ":8000": f":{port}",
            "0.0.0.0": "127.0.0.1",
        },
        path=f"{binaries()}:{program.parent}",
        extra={
            "postgres": {"PGPORT": str(database)},
            "api": {"VEDETTE_PORT": str(port)},
        },
    )
    for audience in ("postgres", "temporal", "vedette"):
        made.credentials(audience).mkdir(parents=True)
    (folder / "data").mkdir(mode=0o700)
    write_small_datasets(folder / "data")
    assert (await made.run("credentials")).returncode == 0
    _name_host(made)
    server = await _postgres(made, database)
    try:
        await made.up("credentials", "postgres", *_STANDING_IN)
        yield made
    finally:
        for name in [*made.running]:
            await made.stop(name)
        await server.stop(8)


def _name_host(containers: Containers) -> None:
    """Put the place of the database into its URL, where Docker's names would lead to it."""
    file = containers.credentials("vedette") / "database_url"
    text = file.read_text()
    file.unlink()
    file.write_text(text.replace(_DATABASE, containers.hosts[_DATABASE]))


async def _postgres(containers: Containers, port: int) -> Child:
    """The Postgres of the compose file, made and started as its image does it."""
    folder = containers.folder / "postgres"
    user, given = account(folder), containers.environment("postgres")
    programs = reachable(binaries(), user)
    folder.mkdir(mode=0o700)
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    made = subprocess.run(
        [programs / "initdb", "-D", folder, "--username=postgres", "--auth=scram-sha-256",
         f"--pwfile={given['POSTGRES_PASSWORD_FILE']}", *words(given["POSTGRES_INITDB_ARGS"])],
        env=environment(), cwd="/", capture_output=True, text=True, **as_user(user),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    command = [*containers.command("postgres"), "-D", str(folder), "-p", str(port), "-k", str(folder)]
    command[0] = str(programs / "postgres")
    setup = ChildSetup(environment=environment(), user=user, folder=folder)
    server = Child("postgres", command, setup, log=containers.log("postgres"), stop_signal=signal.SIGINT)
    await server.start()
    reached = {**_as_superuser(containers), "POSTGRES_USER": "postgres"}

    def accepts() -> bool:
        line = [programs / "pg_isready", "--host=127.0.0.1", f"--port={port}"]
        return subprocess.run(line, capture_output=True).returncode == 0

    await eventually(accepts, 30, "Postgres accepts")
    roles = subprocess.run(
        ["sh", containers.image.app / "docker" / "roles.sh"],
        env={**given, **reached},
        capture_output=True,
        text=True,
    )
    assert roles.returncode == 0, roles.stderr
    return server


def _url(containers: Containers) -> str:
    return f"http://localhost{containers.hosts[':8000']}"


@pytest.fixture
async def client(containers: Containers) -> AsyncGenerator[httpx.AsyncClient]:
    """A client with the key of the first account, at the address that the API is published at."""
    header = (containers.folder / "data" / "first-account.header").read_text().strip()
    name, _, value = header.partition(": ")
    async with httpx.AsyncClient(
        base_url=_url(containers), headers={name: value}, timeout=60, trust_env=False
    ) as opened:
        yield opened


async def _typed(containers: Containers, words: str, folder: Path) -> str:
    """Type the block of docs/docker.md that has these words, in a folder; what it writes.

    What it runs in a container is run here: with the environment of that service.
    """
    page = (ROOT / "docs" / "docker.md").read_text()
    block = next(one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if words in one)
    lines = [line for line in block.splitlines() if not line.startswith("docker compose up")]
    text = re.sub(r"docker compose exec -T \w+ ", "", "\n".join(lines))
    mounted = ["vedette-credentials:/run/credentials"]
    text = containers.here(text.replace("/data/", f"{containers.folder}/data/"), mounted)
    given = {**containers.environment("api"), **_as_superuser(containers)}
    done = await asyncio.to_thread(
        subprocess.run, ["sh", "-euc", text], cwd=folder, env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _as_superuser(containers: Containers) -> dict[str, str]:
    """What leads PostgreSQL's programs to the server, as their local connection does in its container."""
    password = (containers.credentials("postgres") / "superuser_password").read_text().strip()
    host, _, port = containers.hosts[_DATABASE].partition(":")
    return {"PGHOST": host, "PGPORT": port, "PGPASSWORD": password}


@pytest.mark.parametrize("name", ["postgres", "api", "worker"])
async def test_each_healthcheck_succeeds_when_all_is_up(containers: Containers, name: str) -> None:
    done = await containers.check(name)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_every_part_but_the_data_says_that_it_is_ready(client: httpx.AsyncClient) -> None:
    async def ready() -> bool:
        checks: dict[str, str] = (await client.get("/readyz")).json()["checks"]
        return {state for part, state in checks.items() if part != "data"} == {"ok"}

    await eventually(ready, 60, "all parts are ready")


async def test_a_newcomer_gets_the_first_answer_as_the_page_says(
    containers: Containers, tmp_path: Path
) -> None:
    answer = json.loads(await _typed(containers, "/api/agent/ip", tmp_path))
    assert answer["location"]["country"] == "United States"


async def test_a_backup_as_the_page_has_it_can_be_restored(containers: Containers, tmp_path: Path) -> None:
    await _typed(containers, "pg_dump", tmp_path)
    assert (tmp_path / "secret_key").read_text().strip()
    given = {**containers.environment("api"), **_as_superuser(containers)}
    made = "create database restored owner vedette"
    page = (ROOT / "docs" / "docker.md").read_text()
    restore = re.findall(r"(pg_restore .*?)--dbname=vedette < vedette.dump", page)[0]
    commands = f"psql --username=postgres -c '{made}' && {restore} --dbname=restored vedette.dump"
    done = subprocess.run(["sh", "-ec", commands], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    url = Path(given["DATABASE_URL_FILE"]).read_text().strip().removesuffix("/vedette") + "/restored"
    restored = {**given, "DATABASE_URL_FILE": "", "DATABASE_URL": url}
    migrated = subprocess.run(containers.command("migrate"), env=restored, capture_output=True, text=True)
    assert (migrated.returncode, migrated.stderr) == (0, "")


async def test_a_run_of_a_workflow_is_completed_by_the_worker(
    containers: Containers, client: httpx.AsyncClient
) -> None:
    step = {"id": "place", "type": "ip_lookup", "config": {"field": "trigger.ip"}}
    definition = {"name": "In containers", "trigger": {"type": "webhook"}, "steps": [step]}
    created = (await client.post("/api/workflows", json=definition)).json()
    assert created["webhook_url"].startswith(f"{_url(containers)}/api/workflows/ingest/")
    answer = await client.post(
        created["webhook_url"], params={"wait": 20}, json={"ip": "1.1.1.1"}, timeout=30
    )
    assert answer.json()["status"] == "completed", answer.text


async def test_the_first_account_stays_at_a_second_up(
    containers: Containers, client: httpx.AsyncClient
) -> None:
    files = sorted(path for path in (containers.folder / "credentials").rglob("*") if path.is_file())
    files.append(containers.folder / "data" / "first-account.json")
    before = [path.read_text() for path in files]
    for name in ("credentials", "temporal-namespace", "migrate"):
        assert (await containers.run(name)).returncode == 0
    assert [path.read_text() for path in files] == before
    assert (await client.get("/api/credits")).status_code == 200


async def test_the_credentials_are_of_one_installation_and_long(containers: Containers) -> None:
    postgres, temporal, vedette = (
        containers.credentials(name) for name in ("postgres", "temporal", "vedette")
    )
    secrets = {path.name: path.read_text().strip() for path in [*postgres.iterdir(), vedette / "secret_key"]}
    assert len(set(secrets.values())) == 4
    assert min(map(len, secrets.values())) >= 43  # of 32 random bytes
    assert (temporal / "password").read_text().strip() == secrets["temporal_password"]


@pytest.mark.parametrize(
    ("role", "database"),
    [("temporal", "vedette"), ("vedette", "temporal"), ("vedette", "temporal_visibility")],
)
async def test_neither_role_gets_into_a_database_of_the_other(
    containers: Containers, role: str, database: str
) -> None:
    password = (containers.credentials("postgres") / f"{role}_password").read_text().strip()
    host, _, port = containers.hosts[_DATABASE].partition(":")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        await psycopg.AsyncConnection.connect(
            host=host, port=port, user=role, password=password, dbname=database
        )


async def test_without_a_password_nobody_gets_in(containers: Containers) -> None:
    host, _, port = containers.hosts[_DATABASE].partition(":")
    with pytest.raises(psycopg.OperationalError, match="no password"):
        await psycopg.AsyncConnection.connect(host=host, port=port, user="vedette", dbname="vedette")


async def test_credentials_that_cannot_be_read_do_not_hold_the_others_up(containers: Containers) -> None:
    file = containers.folder / "data" / "first-account.json"
    before = file.read_bytes()
    file.write_text("nonsense")
    try:
        done = await containers.run("migrate")
    finally:
        file.write_bytes(before)
    assert done.returncode == 0
    assert "`vedette keys create` makes another key" in done.stderr


async def test_an_operators_command_runs_as_the_api_does(containers: Containers) -> None:
    email = f"{uuid4().hex}@example.com"
    command = [*containers.command("api")[:1], "accounts", "create", email, "--json"]
    done = await asyncio.to_thread(
        subprocess.run, command, env=containers.environment("api"), capture_output=True, text=True
    )
    assert json.loads(done.stdout)["email"] == email


async def test_a_worker_that_is_stopped_ends_well_and_its_healthcheck_fails(containers: Containers) -> None:
    assert await containers.stop("worker") == 0
    done = await containers.check("worker")
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "The worker has not signed in at the database for 15 seconds.",
    )
    containers.start("worker")
    await eventually(lambda: containers.is_healthy("worker"), 60, "the worker is healthy again")


async def test_an_api_that_is_stopped_ends_well_and_its_healthcheck_fails(containers: Containers) -> None:
    assert await containers.stop("api") == 0
    assert (await containers.check("api")).returncode == 1
    containers.start("api")
    await eventually(lambda: containers.is_healthy("api"), 60, "the API is healthy again")
