"""`vedette doctor`: checks each part, and suggests a remedy for each broken one."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import stat
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import psycopg
from psycopg.rows import DictRow, dict_row

from embedded import cluster, folder, temporal_binary
from embedded.folder import RunningStack
from models.accounts import accounts
from models.installation import root_key
from models.installation.connections import count_connections
from models.runs import builds, history, workers
from providers.dataset_inventory import take_stock
from providers.datasets.installed import Installed
from providers.lookup.source_status import name_unknown
from providers.registry import KINDS
from sealing import Keyring, root_keys, source_of_keys
from services.operator.connections import check_database, check_temporal, mask_password
from settings import Settings, StartError

State = Literal["ok", "warning", "broken"]
_OLD_DATA_DAYS = 60
_READY_DAYS = timedelta(days=14)
_CLOCK_SECONDS = 60


@dataclass(frozen=True)
class Finding:
    """The state of one part.

    Attributes:
        part: its name.
        state: `warning` for a part that works only partly.
        text: the finding.
        remedy: the remedy; empty if none is needed.
    """

    part: str
    state: State
    text: str
    remedy: str = ""


async def examine(settings: Settings) -> list[Finding]:
    """Check every part. Nothing is changed or started."""
    database_url = settings.database_url.get_secret_value() if settings.database_url else None
    stack = folder.running(settings.data)
    findings = [_python(), _data_folder(settings.data), _stack(stack)]
    findings.append(await _run_check("database", lambda: _database(database_url, settings.data)))
    usable = database_url if database_url and findings[-1].state == "ok" else None
    if usable:
        findings.append(await _run_check("schema", lambda: _schema(usable)))
        if findings[-1].state == "ok":
            findings.append(await _run_check("history", lambda: _history(usable)))
            findings.append(await _run_check("connections", lambda: _connections(usable)))
        findings.append(await _run_check("clock", lambda: _clock(usable)))
        findings.append(await _run_check("workers", lambda: _workers(usable)))
    findings.append(await _run_check("secret key", lambda: _secret_key(settings, usable)))
    findings.append(await _run_check("temporal", lambda: _temporal(settings)))
    findings.append(_lookup_data(settings))
    if settings.commercial:
        findings.append(_commercial_use(settings))
    return findings if stack is None or stack.ready else [_mark_starting(one) for one in findings]


async def _run_check(part: str, look: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        return await look()
    except StartError as error:
        first, _, rest = str(error).partition("\n")
        return Finding(part, "broken", first, rest)
    except psycopg.Error as error:
        return Finding(part, "broken", str(error).splitlines()[0], "Look at the database's log.")


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _data_folder(data: Path) -> Finding:
    if not data.exists():
        return Finding("data folder", "warning", f"{data} is not there yet", "`vedette up` makes it.")
    if not data.is_dir() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        remedy = "Make it a folder that this user can write to, or choose another one with VEDETTE_DATA."
        return Finding("data folder", "broken", f"{data} cannot be used by this user", remedy)
    free = shutil.disk_usage(data).free
    text = f"{data}, {free // 1024**2:,} MiB free"
    if free < folder.LEAST_FREE_BYTES:
        return Finding("data folder", "broken", text, "Free some space on that disk.")
    return Finding("data folder", "ok", text)


def _stack(running: RunningStack | None) -> Finding:
    if running is None:
        return Finding("stack", "warning", "none runs over this data folder", "Start it with `vedette up`.")
    text = f"runs as process {running.pid} at {running.url}"
    if running.ready:
        return Finding("stack", "ok", text)
    remedy = "It serves lookups and accepts events. What it waits for is said where it was started."
    return Finding("stack", "warning", f"{text}, and is still starting", remedy)


def _mark_starting(finding: Finding) -> Finding:
    """Return the finding for a stack that is still starting, whose last parts are not broken but missing."""
    if finding.part not in ("workers", "temporal") or finding.state != "broken":
        return finding
    return replace(finding, state="warning", text="not up yet", remedy="Workflows begin when it is.")


async def _database(url: str | None, data: Path) -> Finding:
    if url is None:
        programs = cluster.reachable(cluster.binaries(), cluster.account(data.absolute() / "postgres"))
        return Finding("database", "ok", f"not running; Postgres {cluster.MAJOR} is in {programs}")
    await check_database(url)
    return Finding("database", "ok", f"answers at {mask_password(url)}")


async def _connect(url: str) -> psycopg.AsyncConnection[DictRow]:
    return await psycopg.AsyncConnection[DictRow].connect(url, row_factory=dict_row, connect_timeout=5)


async def _schema(url: str) -> Finding:
    from migrations.revisions import schema_problem
    from models.installation.schema import find_schema

    async with await _connect(url) as connection:
        found = await find_schema(connection)
    if problem := await asyncio.to_thread(schema_problem, found):
        text, _, remedy = problem.partition(". ")
        return Finding("schema", "broken", text, remedy)
    return Finding("schema", "ok", f"at {found.revision}" if found else "none")


async def _history(url: str) -> Finding:
    async with await _connect(url) as connection:
        ready = await history.stands_ready(connection, _READY_DAYS)
    if not ready:
        text = f"no partitions stand ready for {_READY_DAYS.days} days from now: runs will be refused"
        remedy = "Run `vedette migrate`, and see that the Schedule maintenance/tend_history is not paused."
        return Finding("history", "broken", text, remedy)
    return Finding("history", "ok", "partitions stand ready")


async def _connections(url: str) -> Finding:
    async with await _connect(url) as connection:
        usage = await count_connections(connection)
    text = (
        f"{usage.ours} of at most {usage.expected} ({usage.apis} apis, {usage.workers} workers),"
        f" {usage.others} of others; the server grants {usage.room}"
    )
    if not usage.fits:
        remedy = "Raise max_connections of the server, or start fewer processes."
        return Finding("connections", "warning", text, remedy)
    return Finding("connections", "ok", text)


async def _clock(url: str) -> Finding:
    from models.installation.schema import find_time

    async with await _connect(url) as connection:
        now = await find_time(connection)
    off = (datetime.now(UTC) - now).total_seconds()
    text = f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the database's"
    if abs(off) > _CLOCK_SECONDS:
        return Finding("clock", "broken", text, "Set both machines' clocks: over a day, runs are refused.")
    return Finding("clock", "ok", text)


async def _workers(url: str) -> Finding:
    async with await _connect(url) as connection:
        alive = await workers.count_alive(connection)
        found = await builds.list_builds(connection)
    if not alive:
        remedy = "Start one with `vedette worker`, or look at logs/worker.log in the data folder."
        return Finding("workers", "broken", "none has signed in for 15 seconds", remedy)
    if not builds.takes_work(found):
        text = f"{alive} alive, but none is of a build that takes work"
        return Finding("workers", "broken", text, "vedette releases list\nvedette releases admit <build>")
    return Finding("workers", "ok", f"{alive} at work")


async def _secret_key(settings: Settings, url: str | None) -> Finding:
    path = settings.data / "secret.key"
    if settings.secret_key is None and not path.exists():
        return await _no_secret_key(path, url)
    if settings.secret_key is None and stat.S_IMODE(path.stat().st_mode) & 0o077:
        return Finding("secret key", "broken", f"others can read {path}", f"chmod 600 {path}")
    keyring, source = Keyring(root_keys(settings, sealed_data_exists=True)), source_of_keys(settings)
    if url is not None:
        async with await _connect(url) as connection:
            if not await root_key.is_right(connection, keyring):
                remedy = "Put the former key back, alone or behind the new one (new,former)."
                return Finding("secret key", "broken", f"{source} opens nothing in the database", remedy)
    return Finding("secret key", "ok", f"in {source}; keep a copy of it")


async def _no_secret_key(path: Path, url: str | None) -> Finding:
    if url is not None:
        async with await _connect(url) as connection:
            if await accounts.any_exists(connection):
                remedy = "Put the file back, or set VEDETTE_SECRET_KEY to its content."
                return Finding("secret key", "broken", f"{path} is gone, and the database needs it", remedy)
    return Finding("secret key", "ok", "is made on the first start")


async def _temporal(settings: Settings) -> Finding:
    if settings.temporal_address is not None:
        await check_temporal(settings)
        return await _attributes(settings) or Finding(
            "temporal", "ok", f"answers at {settings.temporal_address}"
        )
    program = temporal_binary.present(temporal_binary.cache_folder(settings.data))
    if program is not None:
        return Finding("temporal", "ok", f"not running; the server is {program}")
    remedy = "`vedette up` downloads it, or builds it where Go is there; or set TEMPORAL_ADDRESS."
    return Finding("temporal", "warning", "no server program yet", remedy)


async def _attributes(settings: Settings) -> Finding | None:
    """Return the finding on missing search attributes in Temporal; None if all exist."""
    from temporalio.client import Client
    from temporalio.service import RPCError

    from temporal import attributes
    from temporal.client import connection

    options = connection(settings)
    where, namespace = f"answers at {settings.temporal_address}", options["namespace"]
    try:
        missing = await attributes.find_missing(await Client.connect(**options), namespace)
    except RPCError:
        text = f"{where}, and does not tell which search attributes it has"
        return Finding("temporal", "ok", text, attributes.commands(namespace))
    if not missing:
        return None
    text = f"{where}, and lacks search attributes: workflows are not found by {', '.join(missing)}"
    return Finding("temporal", "warning", text, attributes.commands(namespace))


def _commercial_use(settings: Settings) -> Finding:
    unknown = name_unknown(KINDS, settings)
    if not unknown:
        return Finding("commercial", "ok", "every source that is on allows it")
    text = f"the terms of {len(unknown)} sources that are on do not say: {', '.join(unknown)}"
    remedy = (
        "Read their `terms` (`vedette providers`), or switch them off with VEDETTE_PROVIDER_<NAME>_ENABLED=0."
    )
    return Finding("commercial", "warning", text, remedy)


def _by_way_of(known: Installed) -> str:
    return f", by way of {known.mirror}" if known.mirror else ""


def _lookup_data(settings: Settings) -> Finding:
    stock = take_stock(settings)
    ages = {one.name: (datetime.now(UTC) - one.known.dated).days for one in stock if one.known}
    here = [
        f"{one.name} {one.known.version} ({ages[one.name]} days old{_by_way_of(one.known)})"
        for one in stock
        if one.known
    ]
    missing = [one for one in stock if one.known is None]
    text = ", ".join(here) or "none"
    if missing:
        text += f"; missing: {', '.join(one.name for one in missing)}"
    remedies = [f"without {one.name}: {', '.join(one.fields) or 'no field'}" for one in missing]
    remedies += [
        f"{one.name} could not be renewed, {one.known.version} stays in use: {one.failure}"
        for one in stock
        if one.known and one.failure
    ]
    if remedies or max(ages.values(), default=0) > _OLD_DATA_DAYS:
        return Finding("lookup data", "warning", text, "\n".join([*remedies, "Run `vedette data fetch`."]))
    return Finding("lookup data", "ok", text)
