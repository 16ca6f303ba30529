"""The statements that change balances together with the ledger; `models.credits.credits` runs them."""

from __future__ import annotations

# One statement per kind of change. `moved` locks and changes the balance, but only if the reference is new
# for its kind; `entry` records what `moved` did. If two statements come with the same new reference at the
# same time, the second breaks the unique constraint and is undone as a whole (see `_book`).
_MOVE = """
with {before}moved as (
    update credit_balances b
    set balance = b.balance + {amount}, held = b.held + {held}, used = b.used + {used},
        entries = b.entries + 1, updated_at = now()
    {source}
    where b.account_id = %(account)s and b.balance + {amount} >= 0
      and not exists (select from credit_entries where kind = %(kind)s and reference = %(reference)s)
    returning {amount} as amount, b.balance, b.entries, b.held, b.low_balance_threshold as low
), entry as (
    insert into credit_entries
        (id, account_id, number, kind, amount, balance_after, reference, description, key_id, created_at)
    select %(id)s, %(account)s, entries, %(kind)s, amount, balance, %(reference)s, %(description)s,
        %(key)s, now()
    from moved
    returning amount, balance_after as balance
), told as materialized (
    select case when count(*) > 0 then emit_events(
        array_agg(time_ordered_id()), array_agg(%(account)s::uuid), array_agg(t.type), array_agg(t.data)) end
    from moved m, lateral (values
        ('credits.low', m.balance < m.low and m.balance - m.amount >= m.low,
         json_build_object('balance', m.balance, 'low_balance_threshold', m.low)),
        ('credits.exhausted', m.balance = 0 and m.amount < 0,
         json_build_object('balance', m.balance, 'held', m.held)),
        ('credits.topped_up', %(kind)s in ('grant', 'topup'),
         json_build_object('amount', m.amount, 'balance', m.balance, 'kind', %(kind)s::text))
    ) as t (type, is_so, data) where t.is_so
){after}
select entry.amount, entry.balance, false as replayed from entry cross join told
"""

BOOKED = """
select account_id, amount, balance_after as balance from credit_entries
where kind = %(kind)s and reference = %(reference)s
"""

_KEY_USE = """, key_use as (
    update keys set credits_used = credits_used - (select amount from entry)
    where id = %(key)s and exists (select from entry)
)"""
_SETTLED_KEY_USE = """, key_use as (
    update keys set credits_used = credits_used + %(used)s where id = %(key)s and exists (select from entry)
)"""
_RUN_USE = """, run_use as (
    update runs set credits_used = credits_used - (select amount from entry)
    where id = %(run)s and exists (select from entry)
)"""
_NEW_HOLD = """, hold as (
    insert into credit_holds (reference, account_id, amount, created_at)
    select %(reference)s, %(account)s, -amount, now() from entry
)"""
_CLOSED_HOLD = """closed as (
    update credit_holds set closed_at = now()
    where reference = %(reference)s and account_id = %(account)s and closed_at is null
      and amount >= %(used)s
    returning amount
), """

GRANT = _MOVE.format(before="", amount="%(amount)s", held="0", used="0", source="", after="")
CHARGE = _MOVE.format(
    before="", amount="-%(amount)s", held="0", used="%(amount)s", source="", after=_KEY_USE + _RUN_USE
)
HOLD = _MOVE.format(before="", amount="-%(amount)s", held="%(amount)s", used="0", source="", after=_NEW_HOLD)
SETTLE = _MOVE.format(
    before=_CLOSED_HOLD, amount="(c.amount - %(used)s)", held="-c.amount", used="%(used)s",
    source="from closed c", after=_SETTLED_KEY_USE,
)  # fmt: skip
REFUND = _MOVE.format(
    before="", amount="%(amount)s", held="0", used="-%(amount)s", after=_KEY_USE,
    source="from (select from credit_entries where kind = 'charge' and reference = %(reference)s"
    " and account_id = %(account)s and amount <= -%(amount)s) c",
)  # fmt: skip
