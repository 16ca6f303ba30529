"""What the tests share: a Postgres and a Temporal server of their own, databases, settings, a whole stack.

Everything is on random ports and in a temporary folder, so that a stack that runs already is not touched.
"""

from __future__ import annotations

import asyncio
import compileall
import shutil
import ssl
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from uuid import uuid4

import certifi
import psycopg
import pytest
import structlog
from psycopg.sql import SQL

import process
import settings as settings_module
from database import Database
from embedded.postgres import Postgres
from embedded.report import Report
from embedded.temporal import Temporal
from embedded.temporal_binary import obtain
from migrations.upgrade import upgrade
from models.accounts import passwords
from outbound.client import Outbound
from sealing import Keyring, root_keys
from settings import Settings
from tests.api_server import QUICK_HASHER, Api, Person, running, shared_pool
from tests.automations import periods
from tests.automations.engine import Endpoint, endpoint
from tests.automations.turns import take_turns
from tests.datasets import write_small_datasets
from tests.stacks import ROOT, StackProcess, crashes

_TEMPLATE = "template_vedette"
_LONGEST = [
    # Of `make test-long`
    ("errors", "test_fuzz.py"), ("benchmarks", "test_benchmarks.py"), ("abuse", "test_abuse.py"),
    ("dashboard", "test_accessibility.py"), ("dashboard", "test_browser.py"),
    ("releases", "test_side_by_side.py"), ("dashboard", "test_trouble.py"), ("embedded", "test_backup.py"),
    ("dashboard", "test_causes.py"), ("documentation", "test_recipe_own_servers.py"),
    ("documentation", "test_blocks.py"), ("embedded", "test_in_flight.py"), ("embedded", "test_as_root.py"),
    ("automations", "test_crash_points.py"), ("embedded", "test_quick_start.py"),
    ("embedded", "test_bad_days.py"), ("docker", "test_in_order.py"), ("openapi", "test_clients.py"),
    ("automations", "test_own_places.py"), ("embedded", "test_announcement.py"),
    ("automations", "test_killed_workers.py"), ("automations", "test_replay.py"),
    ("deliveries", "test_lost_workers.py"), ("deliveries", "test_bad_days.py"), ("cli", "test_cli.py"),
    ("automations", "test_bad_rows.py"), ("automations", "test_bombs.py"),
    ("automations", "test_workflow_page_runs.py"), ("automations", "test_bad_days.py"),
    ("lookups", "test_nothing_heard.py"), ("cli", "test_live.py"),
    # Of `make test`
    ("providers", "test_contract.py"), ("bulk_searches", "test_answers.py"), ("mcp", "test_workflows.py"),
    ("automations", "test_charged_steps.py"), ("automations", "test_cancelling.py"),
    ("idempotency", "test_credentials.py"), ("automations", "test_families.py"),
]  # fmt: skip
"""The files that take longest, in this order."""
_FAST_WITH_POSTGRES = {"claims", "credits", "database"}
"""The folders whose tests are fast though they need Postgres, so that its part is tried at all."""
_NOT_FAST = {
    *_LONGEST, ("claims", "test_interleavings.py"), ("cli", "test_page.py"),
    ("docker", "test_image.py"), ("engine", "test_driver.py"), ("language", "test_expression_properties.py"),
    ("uploads", "test_uploads.py"), ("assistant", "test_answers.py"), ("dashboard", "test_web_files.py"),
    ("database", "test_terminated.py"),
}  # fmt: skip
_NEEDS = {"postgres": "postgres", "temporal_server": "temporal", "stack": "stack"}
"""The markers of tests by the fixtures that start their servers."""


# By itself structlog draws tracebacks with their variables in colour, which takes most of a second each.
structlog.configure([
    *structlog.get_config()["processors"][:-1],
    structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
])  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Have what is needed made before several processes begin.

    That is the Temporal server, where it may be needed, since nobody would see their output, and the
    bytecode of our modules: where PYTHONDONTWRITEBYTECODE is set, each of hundreds of processes would compile
    them. The bytecode of the tests is kept too: else each process rewrites all their assertions in each run.
    """
    sys.dont_write_bytecode = False
    if getattr(session.config.option, "numprocesses", None) and session.config.option.markexpr != "fast":
        asyncio.run(obtain(Path(tempfile.gettempdir()), Report()))
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(ROOT, maxlevels=0, quiet=2)
        for package in ROOT.glob("*/__init__.py"):
            compileall.compile_dir(package.parent, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need, so that the rest can be had by itself; put the longest first.

    The processes take one file after the other: none should be left alone with a long one at the end.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        needed = {marker for fixture, marker in _NEEDS.items() if fixture in fixtures}
        if "embedded" in item.path.parts or ("scratch" in fixtures and not needed):
            needed.add("stack")  # they start servers of their own
        folder, file = item.path.parent.name, item.path.name
        fast = needed <= {"postgres"} if folder in _FAST_WITH_POSTGRES else not needed
        if "stack" in fixtures or item.get_closest_marker("long") or item.get_closest_marker("topology"):
            needed.add("long")
        elif fast and (folder, file) not in _NOT_FAST:
            needed.add("fast")
        for marker in needed:
            item.add_marker(marker)
    order = {file: place for place, file in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get((item.path.parent.name, item.path.name), len(order)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests once by each carrier that the marker `executions` names, or the module's `EXECUTIONS`."""
    marker = metafunc.definition.get_closest_marker("executions")
    chosen = marker.args if marker else getattr(metafunc.module, "EXECUTIONS", ())
    if chosen and "carried_by" in metafunc.fixturenames:
        metafunc.parametrize("carried_by", chosen, indirect=True, scope="module")


@pytest.fixture(scope="module")
def carried_by(request: pytest.FixtureRequest) -> Generator[str]:
    """By which carrier runs go: `shift`, `workflow`, `auto`; or by both, each claim by the other: `turns`.

    A module that is about one carrier names it: `EXECUTION`.
    """
    chosen = getattr(request, "param", getattr(request.module, "EXECUTION", "auto"))
    with pytest.MonkeyPatch.context() as patch:
        if chosen == "turns":
            take_turns(patch)
        yield chosen


@pytest.fixture(scope="session")
def scratch() -> Generator[Path]:
    """A folder that the unprivileged user of a Postgres started as root can reach, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="vedette-tests-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
async def postgres(scratch: Path) -> AsyncGenerator[Postgres]:
    """An embedded Postgres for the session, which need not survive the machine: it never waits for the disk.

    The stacks that tests start, and the servers of `tests/embedded`, are as durable as those of users.
    """
    server = Postgres(scratch, scratch / "logs" / "postgres.log", Report())
    await server.start()
    for name in ("fsync", "full_page_writes"):  # a commit is still written: to kill the server loses none
        await _administer(server, f"alter system set {name} = off")
    await _administer(server, "select pg_reload_conf()")
    yield server
    await server.stop()
    assert crashes(scratch / "logs" / "postgres.log") == []


@pytest.fixture(scope="session")
async def temporal_server(scratch: Path, pytestconfig: pytest.Config) -> AsyncGenerator[Temporal]:
    """An embedded Temporal for the session, on ports of its own."""
    server = Temporal(scratch, scratch / "logs" / "temporal.log", Report())
    # The first run ever may build the server, for minutes: that should be seen.
    capture: Any = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        await server.start()
    yield server
    await server.stop()


def database_named(server: Postgres, name: str) -> str:
    """The URL of another database on the same server."""
    return server.url.replace("/vedette?", f"/{name}?", 1)


async def _administer(server: Postgres, statement: str) -> None:
    connection = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    async with connection:
        await connection.execute(SQL(statement))  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="session")
async def template(postgres: Postgres) -> str:
    """A migrated, empty database that the others are copied from."""
    await _administer(postgres, f"create database {_TEMPLATE}")
    await asyncio.to_thread(upgrade, database_named(postgres, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture(scope="module")
async def database_url(postgres: Postgres, template: str) -> AsyncGenerator[str]:
    """A fresh, migrated database for the tests of one module. Copying files is the quickest way."""
    name = f"test_{uuid4().hex}"
    await _administer(postgres, f"create database {name} template {template} strategy file_copy")
    yield database_named(postgres, name)
    await _administer(postgres, f"drop database {name} with (force)")


@pytest.fixture(scope="module")
async def database(database_url: str) -> AsyncGenerator[Database]:
    """The module's database, open."""
    opened = Database(database_url, name="tests")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings for the module's database and a data folder of its own; no Temporal."""
    folder = tmp_path_factory.mktemp("data")
    return settings_module.load({"VEDETTE_DATA": str(folder), "DATABASE_URL": database_url})


@pytest.fixture(scope="module")
def live_settings(settings: Settings, temporal_server: Temporal) -> Settings:
    """The module's settings with a Temporal server."""
    return settings.model_copy(update={"temporal_address": temporal_server.address})


@pytest.fixture(scope="module")
def keyring(settings: Settings) -> Keyring:
    """The keyring of the module's data folder."""
    return Keyring(root_keys(settings, sealed_data_exists=False))


@pytest.fixture(scope="session")
async def stack(scratch: Path, temporal_server: Temporal) -> AsyncGenerator[StackProcess]:
    """A whole `vedette up` with small lookup data, whose steps and webhooks may reach 127.0.0.1.

    It has its own Temporal server; the session's is only awaited so that a build of it is seen.
    """
    data = scratch / "stack"
    write_small_datasets(data)
    running = StackProcess(data, VEDETTE_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32")
    try:
        yield await running.ready()
    finally:
        await running.stop()


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    """The API over the module's database, behind a real server; its limits are those of the settings."""
    async with running(settings) as api:
        yield api


@pytest.fixture
async def person(api: Api, request: pytest.FixtureRequest) -> Person:
    """Someone with an account, and with as many credits as the module names: `CREDITS`."""
    return await api.person(credits=getattr(request.module, "CREDITS", 0))


@pytest.fixture
async def receiver() -> AsyncGenerator[Endpoint]:
    """A server on loopback that remembers what it is sent, and answers as the test says."""
    async with endpoint() as served:
        yield served


@pytest.fixture(scope="session", autouse=True)
async def closed_pool() -> AsyncGenerator[None]:
    """The processes that the applications share are ended with the session."""
    yield
    await shared_pool.close()


@pytest.fixture(scope="session", autouse=True)
def authorities() -> Generator[None]:
    """Whose certificates are trusted is read once: it takes a tenth of a second, though few tests need it."""
    defaults = Outbound.__init__.__kwdefaults__
    assert defaults is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "certificates", ssl.create_default_context(cafile=certifi.where()))
        yield


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed and compared at once, and not in the time that a guess is to cost."""
    monkeypatch.setattr(passwords, "_hasher", QUICK_HASHER)
    monkeypatch.setattr(passwords, "_nobodys_hash", lambda: QUICK_HASHER.hash("nobody's"))


@pytest.fixture
def long_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are remembered for longer than a test takes: what ends it is what the test does."""
    monkeypatch.setattr("api.auth.credentials._REMEMBERED_SECONDS", 600)


@pytest.fixture
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost is missed soon in this process, as in a `hasty_worker`."""
    periods.shorten(monkeypatch.setattr)


def pytest_collection_finish() -> None:
    """Collect garbage as rarely as the processes that serve: most of what there is are modules and tests."""
    process.freeze_gc()
