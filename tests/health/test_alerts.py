"""Alerts and the dashboard name metrics that there are, and each alert fires on a service that is sick."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from psycopg.sql import SQL, Identifier

import metrics
from database import Database
from embedded.postgres import Postgres
from sealing import Keyring
from settings import Settings
from temporal.client import connect
from tests.api_server import Api, Person, running
from tests.automations.engine import working
from tests.health.prometheus import BOARD, RULES, Prometheus, metrics_named, watching
from tests.runs.workflows import create, start
from tests.stacks import ROOT, free_port

GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"] for group in GROUPS for rule in group["rules"]}
PAGE = (ROOT / "docs" / "monitoring.md").read_text()
NOWHERE = f"127.0.0.1:{free_port()}"
# What is sick by itself only after long, or with a machine that is full.
SICK = (
    "insert into workers (id, started_at, seen_at)"
    " values (gen_random_uuid(), now(), now() - interval '1 minute')",
    "insert into workers (id, started_at, seen_at, halted, loop_lag)"
    " values (gen_random_uuid(), now(), now() + interval '1 hour', true, 9)",
    "update run_work set available_at = now() - interval '1 hour' where status = 'queued'",
    "update run_work set status = 'running', carrier = gen_random_uuid(), claim_id = gen_random_uuid()"
    " where run_id = (select run_id from run_work order by run_id desc limit 1)",
    "insert into versions_aside (automation_id, version, setbacks, aside_until)"
    " select id, version, '{}', now() + interval '1 hour' from automations limit 1",
    "update delivery_work set available_at = now() - interval '1 hour'",
)


def need(program: str) -> str:
    """The program, which is missing on machines without Prometheus."""
    found = shutil.which(program)
    if found is None:
        assert not os.environ.get("CI"), f"{program} is not installed: .ci/run does that"
        pytest.skip(f"{program} is not installed (on Debian: prometheus)")
    return found


async def test_rules_and_dashboard_name_metrics_that_there_are(api: Api) -> None:
    text = (await api.http.get("/metrics")).text
    families = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    series = families | {f"{name}{part}" for name in families for part in ("_bucket", "_count", "_sum")}
    # It is there once there was a backup.
    series.add("vedette_backup_age_seconds")
    named = {path: metrics_named(path.read_text()) for path in (RULES, BOARD)}
    assert {path: names - series for path, names in named.items()} == {RULES: set(), BOARD: set()}
    # The board shows each family, also what no alert asks for.
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named[BOARD]}
    ours = {name for name in families if name.startswith("vedette_")}
    assert {re.sub(r"_request_seconds$", "_requests_total", name) for name in ours - shown} <= shown


def test_the_page_says_what_to_do_at_each_alert() -> None:
    assert set(re.findall(r"^\| `(Vedette\w+)` \| .+ \| .+ \|$", PAGE, re.MULTILINE)) == ALERTS


def test_the_board_is_whole() -> None:
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["targets"] for panel in panels if panel["type"] != "row")


def test_prometheus_takes_the_rules() -> None:
    subprocess.run([need("promtool"), "check", "rules", str(RULES)], check=True, capture_output=True)


async def make_fail(api: Api, person: Person, watch: Prometheus) -> None:
    """Let runs and a source fail, under a worker that does not reach Temporal."""
    call = {"url": f"http://{NOWHERE}/"}
    workflow = await create(person, [{"id": "call", "type": "webhook", "config": call}])
    for _ in range(12):
        await start(person, workflow)
    silent = asyncio.create_task(fail_for_ever())
    try:
        await watch.until_fired(
            "VedetteRunsFailing", "VedetteWorkflowFailing", "VedetteTemporalAway", "VedetteSourceSilent",
            "VedetteBackupOld", "VedetteDiskFills", seconds=40,
        )  # fmt: skip
    finally:
        silent.cancel()


async def fail_for_ever() -> None:
    """Let a source fail again and again: a series begins with what it has when it is seen first."""
    while True:
        metrics.SOURCE.observe(2.0, "vendor", "timeout")
        await asyncio.sleep(0.3)


async def make_wait(person: Person, database: Database, watch: Prometheus) -> None:
    """Leave runs and deliveries waiting for a worker, and use up the connections."""
    hook = {"url": f"http://{NOWHERE}/", "events": ["key.created"]}
    assert (await person.session.post("/api/webhooks", json=hook)).status_code == 201
    assert (await person.session.post("/api/keys", json={"name": "another"})).status_code == 201
    workflow = await create(person)
    for _ in range(2):
        await start(person, workflow)
    await watch.until_fired("VedetteNoWorker")
    async with AsyncExitStack() as held:
        async with database.connection() as connection:
            for statement in SICK:
                await connection.execute(statement.encode())
            cursor = await connection.execute("select current_setting('max_connections')::int as most")
            row = await cursor.fetchone()
        assert row is not None
        for _ in range(round(0.85 * row["most"])):
            opened = await psycopg.AsyncConnection.connect(database.url)
            held.push_async_callback(opened.close)
        await watch.until_fired(*(ALERTS - {"VedetteAway"}))


@pytest.mark.long
async def test_each_alert_fires_on_a_service_that_is_sick(
    settings: Settings,
    postgres: Postgres,
    database: Database,
    keyring: Keyring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = need("prometheus")
    monkeypatch.setattr("services.figure_writer._SECONDS", 0.5)
    monkeypatch.setattr("api.http.metrics.disk_usage", lambda _: SimpleNamespace(free=5, total=100))
    networks = (ip_network("127.0.0.1/32"),)
    chosen = {"temporal_address": NOWHERE, "execution": "shift", "allow_private_networks": networks}
    sick = settings.model_copy(update=chosen)
    async with running(sick) as api, watching(program, tmp_path, api.url) as watch:
        person = await api.person()
        async with working(sick, await connect(sick, keyring, lazy=True), database, keyring):
            await make_fail(api, person, watch)
        await make_wait(person, database, watch)
        name = urlsplit(database.url).path.removeprefix("/")
        allow = SQL("alter database {} allow_connections ").format(Identifier(name))
        end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as outside:
            await outside.execute(allow + SQL("false"))
            try:
                await outside.execute(end, (name,))
                await watch.until_fired("VedetteAway")
            finally:
                await outside.execute(allow + SQL("true"))
    assert watch.fired == ALERTS
