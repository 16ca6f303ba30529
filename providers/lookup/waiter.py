"""The caller that can wait for a source, which leaves room for callers that cannot."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Waiter:
    """A caller that comes back when a source is over its limit: a job or a monitor of an account.

    A source refuses it earlier than others: a fifth of each window is reserved for callers that do not wait.
    The accounts that wait for a source take turns at the rest. A refusal has the status `rate_limited`, and
    its `retry_after` is the time until a request is free for this account.

    Attributes:
        account_id: the account that waits.
    """

    account_id: UUID
