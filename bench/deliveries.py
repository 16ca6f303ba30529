"""Events on their way to endpoints: how many a second, how soon, and how soon beside endpoints that hang.

    python -m bench.deliveries [--count 10000] [--seconds 5] [--part rate latency neighbours]

`rate`: so many events of eight accounts, all emitted at once, until the last is delivered; the CPU of the
emitting is Postgres', too. `latency`: from the commit of an event to the beginning of its first attempt, one
event at a time, idle and beside 32 clients who wait for runs of W1. `neighbours`: the same while other
accounts have 2,000 events each for an endpoint that accepts and never answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from bench import load
from bench.ingest_neighbours import workflow
from bench.machine import machine
from bench.measuring import PARTS
from bench.shapes import SHAPES
from bench.stack import Stack, unlimited
from database import Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.events.event_data import KeyCreated
from models.identifiers import new_id
from models.installation import root_key
from models.webhooks import endpoints
from models.webhooks.endpoints import EndpointSettings
from outbound.signing import new_secret
from sealing import Keyring

_KINDS = ("rate", "latency", "neighbours")
_ACCOUNTS, _AT_ONCE = 8, 500
_HANGING, _BACKLOG = (1, 2, 3, 10), 2000
_CLIENTS = 32
_WARM_UP = 500
_DONE_SECONDS = 120
# The interval for checking single events.
_LOOK_SECONDS = 0.01
# After this time, events for hanging endpoints hold all places that they can get.
_SETTLE_SECONDS = 3
_DATA = KeyCreated(key_id=new_id(), name="bench", key_preview="…", scopes=[], expires_at=None)


@dataclass
class Emitter:
    """Accounts of a stack with an endpoint each, and events for them, straight into its database."""

    stack: Stack
    database: Database
    keyring: Keyring

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, stack: Stack) -> AsyncGenerator[Self]:
        """Connect for the block."""
        url = stack.settings.database_url
        assert url is not None
        database = Database(url.get_secret_value(), name="bench")
        await database.open()
        try:
            async with database.connection() as connection:
                keyring = await root_key.open_keyring(connection, stack.settings)
            yield cls(stack, database, keyring)
        finally:
            await database.close()

    async def account(self, url: str) -> UUID:
        """Create an account that sends everything to the URL; return its id."""
        async with self.database.transaction() as connection:
            account = await accounts.create_account(
                connection, NewAccount(f"{new_id().hex}@example.com", "-")
            )
            actor = Actor(account.id, "system", name="bench")
            chosen = EndpointSettings(url, ["*"], None, {}, None)
            await endpoints.create(connection, self.keyring, actor, chosen, new_secret())
        return account.id

    async def emit(self, account_id: UUID, count: int = 1) -> None:
        """Emit events of an account, in one statement."""
        async with self.database.connection() as connection:
            await connection.execute(
                "select emit_events(array_agg(time_ordered_id()), array_agg(%s::uuid),"
                " array_agg(text 'key.created'), array_agg(%s::json)) from generate_series(1, %s)",
                (account_id, _DATA.model_dump_json(), count),
            )

    async def left(self, account_ids: list[UUID]) -> int:
        """Return the number of unfinished deliveries of these accounts."""
        async with self.database.connection() as connection:
            cursor = await connection.execute(
                "select count(*) as n from delivery_work where account_id = any(%s)", (account_ids,)
            )
            row: Any = await cursor.fetchone()
        return row["n"]

    async def ended(self, account_ids: list[UUID]) -> None:
        """Wait until all deliveries of these accounts have ended."""
        deadline = time.monotonic() + _DONE_SECONDS
        while left := await self.left(account_ids):
            assert time.monotonic() < deadline, f"{left} deliveries do not end"
            await asyncio.sleep(_LOOK_SECONDS)

    async def latencies(self, account_id: UUID, since: datetime) -> list[float]:
        """Return the seconds from each later event to the start of its first attempt, in order."""
        async with self.database.connection() as connection:
            cursor = await connection.execute(
                "select extract(epoch from a.started_at - d.created_at)::float as seconds"
                " from deliveries d join delivery_attempts a on a.delivery_id = d.id and a.number = 1"
                " where d.account_id = %s and d.created_at >= %s and d.status = 'delivered' order by 1",
                (account_id, since),
            )
            return [row["seconds"] for row in await cursor.fetchall()]

    async def one_by_one(self, account_id: UUID, seconds: float) -> load.Result:
        """Emit event after event for this many seconds, each once the one before is delivered."""
        async with self.database.connection() as connection:
            row: Any = await (await connection.execute("select clock_timestamp() as since")).fetchone()
        started = time.perf_counter()
        while time.perf_counter() < started + seconds:
            await self.emit(account_id)
            await self.ended([account_id])
        took = time.perf_counter() - started
        return load.Result(took, await self.latencies(account_id, row["since"]))


def line(name: str, found: load.Result) -> str:
    """Return a line of sending latencies."""
    figures = "".join(f"{found.percentile(share):9.1f}" for share in (0.5, 0.95, 0.99, 1))
    return f"{name:24}{len(found.latencies):8}{figures}"


async def rate(emitter: Emitter, count: int) -> None:
    """Print the deliveries per second, and the resources of each part for them."""
    ids = [await emitter.account(emitter.stack.echo) for _ in range(_ACCOUNTS)]
    await emitter.emit(ids[0], _WARM_UP)
    await emitter.ended(ids)
    used, started = emitter.stack.cpu_seconds(), time.perf_counter()
    for number in range(count // _AT_ONCE):
        await emitter.emit(ids[number % _ACCOUNTS], _AT_ONCE)
    await emitter.ended(ids)
    took, sent = time.perf_counter() - started, count // _AT_ONCE * _AT_ONCE
    cpu = {part: (now - used[part]) / sent * 1000 for part, now in emitter.stack.cpu_seconds().items()}
    print("\n  each s   CPU seconds for 1,000 deliveries\n" + " " * 8 + "".join(f"{p:>9}" for p in PARTS))
    print(f"{sent / took:8.0f}" + "".join(f"{cpu[part]:9.2f}" for part in PARTS), flush=True)


async def latency(emitter: Emitter, seconds: float) -> None:
    """Print the sending latency of an event, idle and beside runs."""
    account_id = await emitter.account(emitter.stack.echo)
    shape = SHAPES["w1"]
    path = await workflow(emitter.stack, 0, shape.definition("w1", emitter.stack.echo))
    requests = (load.request_bytes("POST", f"{path}?wait=30", {}, body) for body in shape.bodies())
    await emitter.one_by_one(account_id, 1)
    print(line("idle", await emitter.one_by_one(account_id, seconds)), flush=True)
    port = emitter.stack.port
    runs = asyncio.create_task(load.run(load.Address(port), requests, clients=_CLIENTS, seconds=seconds + 2))
    await asyncio.sleep(1)
    found = await emitter.one_by_one(account_id, seconds)
    answered = await runs
    assert set(answered.statuses) == {200}, answered.statuses
    print(f"{line('beside W1', found)}   beside {answered.rate:.0f} runs/s", flush=True)


async def neighbours(emitter: Emitter, seconds: float) -> None:
    """Print the sending latency of an event beside accounts whose endpoints hang."""
    over = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    account_id = await emitter.account(emitter.stack.echo)
    await emitter.one_by_one(account_id, 1)
    alone = await emitter.one_by_one(account_id, seconds)
    print(line("alone", alone), flush=True)
    hanging = 0
    for count in _HANGING:
        for _ in range(count - hanging):
            await emitter.emit(await emitter.account(url), _BACKLOG)
        hanging = count
        await asyncio.sleep(_SETTLE_SECONDS)
        found = await emitter.one_by_one(account_id, seconds)
        ratio = found.percentile(0.99) / alone.percentile(0.99)
        print(f"{line(f'beside {count} that hang', found)}   p99 {ratio:.1f} × alone", flush=True)
    over.set()
    server.close()


async def measure(stack: Stack, kinds: list[str], count: int, seconds: float) -> None:
    """Print the requested figures."""
    await stack.change_worker({})
    async with Emitter.connected(stack) as emitter:
        if "rate" in kinds:
            await rate(emitter, count)
        if kinds != ["rate"]:
            print(f"\n{'event → first attempt':24}  events  p50, ms      p95      p99    worst")
        if "latency" in kinds:
            await latency(emitter, seconds)
        if "neighbours" in kinds:
            await neighbours(emitter, seconds)


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with unlimited() as (runners, stack):
        runners.plain.run(measure(stack, arguments.part, arguments.count, arguments.seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--part", nargs="+", choices=_KINDS, default=list(_KINDS))
    main(parser.parse_args())
