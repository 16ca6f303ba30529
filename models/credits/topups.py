"""Auto top-up: the settings of accounts, the top-ups that are due, and their completion.

An account's top-ups are numbered. The next number stays the same until that top-up is finished, so that no
two of them run at the same time, even if several processes start them.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.credits import credits
from models.credits.credits import AutoTopUp, Booking
from models.errors import FieldError, Invalid

# Top-ups follow each other until the balance has reached the threshold.
_MOST_IN_A_ROW = 1_000
_THIS_MONTH = "to_char(now(), 'YYYY-MM')"
_SPENT = f"case when topup_month = {_THIS_MONTH} then topup_month_total else 0 end"
_DUE = (
    "topup_enabled and balance < topup_threshold"
    f" and (topup_monthly_cap is null or {_SPENT} + topup_amount <= topup_monthly_cap)"
)


@dataclass(frozen=True)
class TopUp:
    """A top-up that is due: the account's `number`th, of `amount` credits."""

    account_id: UUID
    number: int
    amount: int

    @property
    def reference(self) -> str:
        """The name of this top-up in the ledger, for the biller, and as a workflow."""
        return f"topup/{self.account_id}/{self.number}"


async def configure(connection: Connection, actor: Actor, wanted: AutoTopUp) -> None:
    """Change an account's settings for top-ups; call it in a transaction.

    Raises:
        Invalid: the numbers contradict each other.
    """
    if wanted.enabled:
        _check(wanted)
    before = (await credits.get_balance(connection, actor.account_id)).auto_topup
    await connection.execute(
        "update credit_balances set topup_enabled = %(enabled)s, topup_threshold = %(threshold)s,"
        " topup_amount = %(amount)s, topup_monthly_cap = %(monthly_cap)s, updated_at = now()"
        " where account_id = %(account)s",
        {**wanted.model_dump(), "account": actor.account_id},
    )
    changes = {
        name: {"old": old, "new": new}
        for (name, old), new in zip(before.model_dump().items(), wanted.model_dump().values(), strict=True)
        if old != new
    }
    await audit.record(connection, actor, "credits.auto_topup_changed", Target("credits"), changes)


def _check(wanted: AutoTopUp) -> None:
    errors = [
        FieldError(f"/{name}", "out_of_range", "Must be 1 or more.")
        for name in ("threshold", "amount")
        if getattr(wanted, name) < 1
    ]
    if 0 < wanted.amount * _MOST_IN_A_ROW < wanted.threshold:
        least = -(-wanted.threshold // _MOST_IN_A_ROW)
        message = f"Must be {least:,} or more: {_MOST_IN_A_ROW:,} top-ups must reach the threshold."
        errors.append(FieldError("/amount", "out_of_range", message))
    if wanted.monthly_cap is not None and wanted.monthly_cap < wanted.amount:
        errors.append(FieldError("/monthly_cap", "out_of_range", "Must cover one amount."))
    if errors:
        raise Invalid(errors)


async def list_due(connection: Connection, limit: int = 100) -> list[TopUp]:
    """Return the top-ups of all accounts that are due."""
    async with connection.cursor(row_factory=class_row(TopUp)) as cursor:
        await cursor.execute(
            "select account_id, topup_count + 1 as number, topup_amount as amount"  # pyright: ignore[reportArgumentType]
            # In random order: top-ups that cannot be completed must not block the others.
            f" from credit_balances where {_DUE} order by random() limit %s",
            (limit,),
        )
        return await cursor.fetchall()


async def find_due(connection: Connection, reference: str) -> TopUp | None:
    """Return the top-up with this reference, if it is still the next one and due."""
    _, account_id, number = reference.split("/")
    async with connection.cursor(row_factory=class_row(TopUp)) as cursor:
        await cursor.execute(
            "select account_id, topup_count + 1 as number, topup_amount as amount"  # pyright: ignore[reportArgumentType]
            f" from credit_balances where account_id = %s and topup_count + 1 = %s and {_DUE}",
            (UUID(account_id), int(number)),
        )
        return await cursor.fetchone()


async def complete(connection: Connection, top_up: TopUp) -> bool:
    """Add the credits and advance to the next number; call it in a transaction.

    Returns:
        False if it was completed before; then nothing changes.
    """
    change = await credits.top_up(
        connection, Booking(top_up.account_id, top_up.amount, top_up.reference, "Automatic top-up")
    )
    if not change.replayed:
        await connection.execute(
            "update credit_balances set topup_count = %(number)s,"  # pyright: ignore[reportArgumentType]
            f" topup_month_total = {_SPENT} + %(amount)s, topup_month = {_THIS_MONTH}"
            " where account_id = %(account)s",
            {"number": top_up.number, "amount": top_up.amount, "account": top_up.account_id},
        )
        await _record(connection, top_up, "credits.topped_up", {"amount": top_up.amount})
    return not change.replayed


async def decline(connection: Connection, top_up: TopUp, reason: str) -> None:
    """Turn auto top-up off after the biller refused; call it in a transaction.

    The account can turn it on again.
    """
    cursor = await connection.execute(
        "update credit_balances set topup_enabled = false, topup_count = %s, updated_at = now()"
        " where account_id = %s and topup_count = %s",
        (top_up.number, top_up.account_id, top_up.number - 1),
    )
    if cursor.rowcount:
        await _record(connection, top_up, "credits.topup_declined", {"reason": reason})


async def _record(connection: Connection, top_up: TopUp, action: str, changes: dict[str, object]) -> None:
    actor = Actor(account_id=top_up.account_id, kind="system", name="system")
    target = Target("credits", name=top_up.reference)
    await audit.record(connection, actor, action, target, changes)
