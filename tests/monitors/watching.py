"""What the tests of monitors do: sources that say what they want, monitors, runs, and what these found."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import count
from typing import Any
from uuid import UUID

from aiohttp import web

from database import Database
from language.definition import Definition
from models.audit import Actor
from models.automations import automations
from models.credits import credits
from models.monitors import monitors, runs
from models.monitors.monitors import CHANGED_CHANNEL, MonitorSettings
from models.monitors.run_views import MonitorRunView
from notifications import Notifier
from sealing import Keyring
from tests.automations.engine import until
from tests.checked_definitions import checked

Answer = Callable[[str], web.Response]


def scanned_as(classification: str) -> Answer:
    """GreyNoise knows every address as this."""
    return lambda address: web.json_response(
        {"ip": address, "noise": True, "riot": False, "classification": classification, "name": "unknown"}
    )


def reported(categories: str = "Data Center", score: int = 3) -> Answer:
    """AbuseIPDB knows every address to be used for this, and how surely for abuse."""
    return lambda address: web.json_response(
        {
            "data": {
                "ipAddress": address,
                "abuseConfidenceScore": score,
                "usageType": categories,
                "isTor": False,
            }
        }
    )


def answering(status: int) -> Answer:
    """A source answers with this status, whatever it is asked."""
    return lambda _: web.Response(status=status)


def limited_but_for(*heard: str, seconds: int) -> Answer:
    """Answer for these addresses alone, and have all others wait for so long."""

    def answer(address: str) -> web.Response:
        if address in heard:
            return scanned_as("benign")(address)
        return web.Response(status=429, headers={"retry-after": str(seconds)})

    return answer


@dataclass
class Scanner:
    """The two sources: what they say, and how often they were asked for each address.

    Of addresses that are `held` they say nothing until `go` is set.
    """

    greynoise: Answer = field(default_factory=lambda: scanned_as("benign"))
    abuseipdb: Answer = field(default_factory=reported)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    held: set[str] = field(default_factory=set[str])
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer as the one that is asked."""
        name = request.path.split("/")[1]
        address = request.query.get("ipAddress") or request.path.rsplit("/", 1)[1]
        self.asked[name, address] += 1
        if address in self.held:
            await self.go.wait()
        return getattr(self, name)(address)


_firsts = count(int(IPv4Address("45.0.0.1")), 4096)


def addresses(number: int) -> list[str]:
    """So many public addresses, which nobody has asked for before."""
    first = next(_firsts)
    return [str(IPv4Address(first + one)) for one in range(number)]


@dataclass
class Watcher:
    """What tests do with the monitors of an account."""

    database: Database
    account_id: UUID

    @property
    def actor(self) -> Actor:
        return Actor(self.account_id, "system", name="test")

    async def monitor(self, targets: Sequence[str] | None = None, **plan: Any) -> UUID:
        """A new monitor of addresses, by default of one; its id."""
        chosen = addresses(1) if targets is None else list(targets)
        async with self.database.transaction() as connection:
            return await monitors.create(
                connection, self.actor, "ip", MonitorSettings(**{"name": "m", **plan}), chosen
            )

    async def start(self, monitor_id: UUID, notifier: Notifier | None = None) -> UUID:
        """Accept a run; its id."""
        async with self.database.transaction() as connection:
            started = await runs.start(connection, self.account_id, monitor_id)
        if notifier is not None:
            notifier.notify(CHANGED_CHANNEL)
        return started.run_id

    async def run(self, monitor_id: UUID, run_id: UUID) -> MonitorRunView:
        """A run as it is now."""
        async with self.database.connection() as connection:
            return await runs.get(connection, self.account_id, monitor_id, run_id)

    async def ended(self, monitor_id: UUID, run_id: UUID, seconds: float = 30) -> MonitorRunView:
        """A run, once it has ended."""

        async def look() -> MonitorRunView | None:
            run = await self.run(monitor_id, run_id)
            return run if run.completed_at else None

        return await until(look, seconds)

    async def processed(self, monitor_id: UUID, run_id: UUID, count: int) -> None:
        """Wait until so many targets of a run are done."""

        async def look() -> bool:
            return (await self.run(monitor_id, run_id)).processed_records == count

        await until(look)

    async def found(
        self, monitor_id: UUID, notifier: Notifier
    ) -> tuple[MonitorRunView, list[dict[str, Any]]]:
        """A whole run, and what it found of each target."""
        run_id = await self.start(monitor_id, notifier)
        run = await self.ended(monitor_id, run_id)
        return run, await self.results(run_id)

    async def results(self, run_id: UUID) -> list[dict[str, Any]]:
        """Return what a run found, in the order of its targets, with the answers that stand."""
        return await self.rows(
            "select r.*, s.data from monitor_results r left join lateral ("
            " select data from monitor_snapshots s where s.monitor_id = r.monitor_id and s.target = r.target"
            " and s.run_id <= r.run_id"
            " order by s.run_id desc limit 1) s on true where r.run_id = %s order by r.position",
            run_id,
        )

    async def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Return what a statement gives."""
        async with self.database.connection() as connection:
            cursor = await connection.execute(statement, values)  # pyright: ignore[reportArgumentType]
            return await cursor.fetchall() if cursor.description else []

    async def balance(self) -> tuple[int, int]:
        """Return what the account has, and what is held."""
        async with self.database.connection() as connection:
            shown = await credits.get_balance(connection, self.account_id)
        return shown.balance, shown.held


async def workflow(watcher: Watcher, keyring: Keyring, monitor_id: UUID) -> UUID:
    """An active workflow that says what has changed."""
    definition = Definition.model_validate(
        {
            "name": "w",
            "trigger": {"type": "monitor_event", "monitor_id": str(monitor_id)},
            "steps": [{"id": "told", "type": "transform", "config": {"expression": "trigger"}}],
        }
    )
    actor = Actor(watcher.account_id, "system", name="test")
    async with watcher.database.transaction() as connection:
        return await automations.create(connection, keyring, actor, checked(definition, "active"))
