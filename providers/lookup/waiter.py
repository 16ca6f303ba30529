"""Who can wait for a source, so that those who cannot find a place free."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Waiter:
    """A caller that comes back when a source is over its limit: a job or a monitor of an account.

    A source refuses it earlier than others: a fifth of each window stays for those who look something up and
    do not wait. The accounts that wait for a source share the rest in turns. A refusal has the status
    `rate_limited`, and its `retry_after` says when a place is free for this account.

    Attributes:
        account_id: whose work it is.
    """

    account_id: UUID
