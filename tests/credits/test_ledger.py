"""Credits whatever goes wrong: the ledger always sums to the balance, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from uuid import UUID, uuid4

import psycopg
import pytest

from database import Connection, Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.credits import credits, ledger
from models.credits.credits import Booking, Change
from models.errors import Conflict, InsufficientCredits, NotFound


@pytest.fixture
async def account_id(database: Database) -> UUID:
    return await new_account(database, 100)


async def new_account(database: Database, balance: int) -> UUID:
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        return (await accounts.create_account(connection, NewAccount(email, "hash", credits=balance))).id


@pytest.fixture
async def connection(database: Database) -> AsyncGenerator[Connection]:
    async with database.connection() as connection:
        yield connection


async def figures(database: Database, account_id: UUID) -> tuple[int, int, int]:
    async with database.connection() as connection:
        view = await credits.get_balance(connection, account_id)
    return view.balance, view.held, view.used


PROOF = """
select b.account_id, b.balance, b.held, b.used, b.entries,
    coalesce((select sum(amount) from credit_entries e where e.account_id = b.account_id), 0) as summed,
    (select count(*) from credit_entries e where e.account_id = b.account_id) as counted,
    coalesce((select max(number) from credit_entries e where e.account_id = b.account_id), 0) as last,
    coalesce((select sum(amount) from credit_holds h
        where h.account_id = b.account_id and closed_at is null), 0) as open_holds,
    coalesce((select -sum(amount) from credit_entries e
        where e.account_id = b.account_id and kind in ('charge', 'refund')), 0)
      + coalesce((select -sum(h.amount + s.amount) from credit_entries h
        join credit_entries s on s.reference = h.reference and s.kind in ('settle', 'release')
        where h.account_id = b.account_id and h.kind = 'hold'), 0) as spent,
    (select count(*) from (select balance_after, amount,
        lag(balance_after, 1, 0) over (order by number) as before
        from credit_entries e where e.account_id = b.account_id) chain
      where before + amount <> balance_after) as breaks
from credit_balances b
"""


async def prove(database: Database) -> None:
    """Every account's books are right, by SQL that shares nothing with the code."""
    async with database.connection() as connection:
        rows = await (await connection.execute(PROOF)).fetchall()
    for row in rows:
        assert row["balance"] == row["summed"] >= 0
        assert row["entries"] == row["counted"] == row["last"]
        assert row["held"] == row["open_holds"] >= 0
        assert row["used"] == row["spent"] >= 0
        assert row["breaks"] == 0


async def test_a_charge_takes_its_amount_and_says_what_is_left(
    connection: Connection, account_id: UUID, database: Database
) -> None:
    change = await credits.charge(connection, Booking(account_id, 30, f"c/{account_id}", "test"))
    assert change == Change(amount=-30, balance=70, replayed=False)
    assert await figures(database, account_id) == (70, 0, 30)


async def test_the_same_reference_again_is_not_charged_again(
    connection: Connection, account_id: UUID
) -> None:
    for replayed in (False, True, True):
        change = await credits.charge(connection, Booking(account_id, 30, f"c/{account_id}", "test"))
        assert change == Change(amount=-30, balance=70, replayed=replayed)


async def test_a_charge_that_the_balance_does_not_cover_takes_nothing(
    connection: Connection, account_id: UUID, database: Database
) -> None:
    with pytest.raises(InsufficientCredits) as refusal:
        await credits.charge(connection, Booking(account_id, 101, f"c/{account_id}", "test"))
    assert refusal.value.details == {"required": 101, "balance": 100}
    assert await figures(database, account_id) == (100, 0, 0)


async def test_an_account_that_does_not_exist_is_named(connection: Connection) -> None:
    for call in (credits.charge, credits.grant, credits.hold):
        with pytest.raises(NotFound):
            await call(connection, Booking(uuid4(), 1, f"x/{uuid4()}", "test"))


async def test_free_work_is_not_booked(connection: Connection, account_id: UUID) -> None:
    assert await credits.charge(connection, Booking(account_id, 0, f"c/{account_id}", "test")) == Change(
        0, 100, False
    )
    page, _ = await ledger.list_entries(connection, account_id)
    assert [entry.kind for entry in page] == ["grant"]


async def test_a_hold_subtracts_at_once_and_its_settlement_gives_back_the_rest(
    connection: Connection, account_id: UUID, database: Database
) -> None:
    reference = f"h/{account_id}"
    assert (await credits.hold(connection, Booking(account_id, 60, reference, "test"))).balance == 40
    assert await figures(database, account_id) == (40, 60, 0)
    assert await credits.settle(connection, Booking(account_id, 45, reference, "test")) == Change(
        15, 55, False
    )
    assert await figures(database, account_id) == (55, 0, 45)
    assert await credits.settle(connection, Booking(account_id, 45, reference, "test")) == Change(
        15, 55, True
    )


async def test_a_hold_ends_once_by_settlement_or_by_release(connection: Connection, account_id: UUID) -> None:
    settled, released, none = (f"{kind}/{account_id}" for kind in "srn")
    for reference in (settled, released):
        await credits.hold(connection, Booking(account_id, 10, reference, "test"))
    await credits.settle(connection, Booking(account_id, 10, settled, "test"))
    assert (await credits.release(connection, account_id, released, "test")).balance == 90
    with pytest.raises(Conflict):
        await credits.release(connection, account_id, settled, "test")
    with pytest.raises(Conflict):
        await credits.settle(connection, Booking(account_id, 1, released, "test"))
    with pytest.raises(Conflict):
        await credits.settle(connection, Booking(account_id, 1, none, "test"))


async def test_a_settlement_cannot_use_more_than_was_held(
    connection: Connection, account_id: UUID, database: Database
) -> None:
    await credits.hold(connection, Booking(account_id, 10, f"h/{account_id}", "test"))
    with pytest.raises(Conflict):
        await credits.settle(connection, Booking(account_id, 11, f"h/{account_id}", "test"))
    assert await figures(database, account_id) == (90, 10, 0)


async def test_a_charge_is_refunded_once_and_never_by_more_than_it_was(
    connection: Connection, account_id: UUID, database: Database
) -> None:
    reference = f"c/{account_id}"
    await credits.charge(connection, Booking(account_id, 30, reference, "test"))
    with pytest.raises(Conflict):
        await credits.refund(connection, Booking(account_id, 31, reference, "test"))
    with pytest.raises(Conflict):
        await credits.refund(connection, Booking(account_id, 1, "another", "test"))
    for replayed in (False, True):
        assert await credits.refund(connection, Booking(account_id, 20, reference, "test")) == Change(
            20, 90, replayed
        )
    assert await figures(database, account_id) == (90, 0, 10)


async def test_another_account_cannot_touch_a_reference(
    connection: Connection, account_id: UUID, database: Database
) -> None:
    other = await new_account(database, 100)
    await credits.charge(connection, Booking(account_id, 30, f"c/{account_id}", "test"))
    await credits.hold(connection, Booking(account_id, 30, f"h/{account_id}", "test"))
    with pytest.raises(Conflict):
        await credits.refund(connection, Booking(other, 30, f"c/{account_id}", "test"))
    with pytest.raises(Conflict):
        await credits.settle(connection, Booking(other, 30, f"h/{account_id}", "test"))
    with pytest.raises(Conflict):
        await credits.charge(connection, Booking(other, 30, f"c/{account_id}", "test"))
    assert await figures(database, other) == (100, 0, 0)


async def test_a_change_that_rolls_back_never_happened(database: Database, account_id: UUID) -> None:
    with pytest.raises(RuntimeError):
        async with database.transaction() as connection:
            await credits.charge(connection, Booking(account_id, 30, f"c/{account_id}", "test"))
            raise RuntimeError
    assert await figures(database, account_id) == (100, 0, 0)


@pytest.mark.parametrize("statement", ["update credit_entries set amount = 0", "delete from credit_entries"])
async def test_the_ledger_is_written_once(connection: Connection, account_id: UUID, statement: str) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation):
        await connection.execute(statement)  # pyright: ignore[reportArgumentType]


async def test_one_reference_from_many_sides_at_once_is_charged_once(
    database: Database, account_id: UUID
) -> None:
    async def pay() -> Change:
        async with database.connection() as connection:
            return await credits.charge(connection, Booking(account_id, 30, f"c/{account_id}", "test"))

    changes = await asyncio.gather(*(pay() for _ in range(16)))
    assert [change.replayed for change in changes].count(False) == 1
    assert {(change.amount, change.balance) for change in changes} == {(-30, 70)}


async def test_many_racing_for_the_last_credits_get_exactly_those(
    database: Database, account_id: UUID
) -> None:
    async def pay(number: int) -> bool:
        async with database.connection() as connection:
            try:
                await credits.charge(connection, Booking(account_id, 3, f"c/{account_id}/{number}", "test"))
            except InsufficientCredits:
                return False
            return True

    paid = await asyncio.gather(*(pay(number) for number in range(64)))
    assert sum(paid) == 33
    assert await figures(database, account_id) == (1, 0, 99)


class Chaos:
    """Clients that book the same few references over and over, while backends die."""

    def __init__(self, database: Database, owners: list[UUID], seed: int) -> None:
        self.database = database
        self.owners = owners
        self.random = random.Random(seed)
        self.seed = seed
        self.acknowledged: dict[tuple[str, str], int] = {}
        self.deaths = 0

    def operation(self) -> tuple[str, str, Callable[[Connection], Awaitable[Change]]]:
        owner = self.random.choice(self.owners)
        number = self.random.randrange(25)
        reference = f"{self.seed}/{owner}/{number}"
        amount = number % 7 + 1  # the same reference always asks for the same
        kind = self.random.choice(["charge", "charge", "hold", "settle", "release", "refund", "grant"])
        calls: dict[str, Callable[[Connection], Awaitable[Change]]] = {
            "charge": lambda c: credits.charge(c, Booking(owner, amount, reference, "x")),
            "hold": lambda c: credits.hold(c, Booking(owner, amount, reference, "x")),
            "settle": lambda c: credits.settle(c, Booking(owner, amount // 2, reference, "x")),
            "release": lambda c: credits.release(c, owner, reference, "x"),
            "refund": lambda c: credits.refund(c, Booking(owner, amount // 2, reference, "x")),
            "grant": lambda c: credits.grant(c, Booking(owner, amount, reference, "x")),
        }
        return kind, reference, calls[kind]

    async def client(self, turns: int) -> None:
        for _ in range(turns):
            done: list[tuple[str, str, int]] = []
            together = self.random.random() < 0.4
            try:
                if together:
                    async with self.database.transaction() as connection:
                        for _ in range(self.random.randrange(1, 4)):
                            await self.one(connection, done)
                        if self.random.random() < 0.2:
                            raise RuntimeError("the process died before its commit")
                else:
                    async with self.database.connection() as connection:
                        await self.one(connection, done)
            except (Conflict, InsufficientCredits, RuntimeError):
                continue
            except psycopg.OperationalError:
                self.deaths += 1  # committed or not: nobody knows, so it will be tried again
                continue
            self.acknowledged.update({(kind, reference): amount for kind, reference, amount in done})

    async def one(self, connection: Connection, done: list[tuple[str, str, int]]) -> None:
        kind, reference, call = self.operation()
        change = await call(connection)
        done.append((kind, reference, change.amount))

    async def killer(self, admin: Connection) -> None:
        while True:
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'chaos'"
                " and datname = current_database() order by random() limit 1"
            )
            await asyncio.sleep(self.random.random() / 20)


@pytest.mark.parametrize("seed", range(4))
async def test_the_books_are_right_whatever_dies_and_whatever_is_repeated(
    database: Database, seed: int
) -> None:
    owners = [await new_account(database, balance) for balance in (0, 20, 200)]
    victim = Database(database.url, name="chaos", size=8)
    await victim.open()
    chaos = Chaos(victim, owners, seed)
    async with database.connection() as admin:
        killer = asyncio.create_task(chaos.killer(admin))
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*(chaos.client(60) for _ in range(12)))
        finally:
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)
    await victim.close()
    assert chaos.deaths
    await prove(database)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select kind, reference, amount from credit_entries where reference like %s", (f"{seed}/%",)
        )
        booked = {(row["kind"], row["reference"]): row["amount"] for row in await cursor.fetchall()}
    assert chaos.acknowledged.items() <= booked.items()
