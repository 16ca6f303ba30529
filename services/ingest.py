"""The intake of events: the workflows of ingest tokens, and the acceptance of runs.

Concurrent requests share statements by a micro-batcher, which these classes hide.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from database import Database
from micro_batcher import MicroBatcher
from models.automations.ingest_tokens import hash_token
from models.automations.run_targets import RunTarget, ingest_targets
from models.runs.acceptance import RunAcceptance, RunRequest, accept_and_announce
from models.runs.run_bounds import TooManyRuns, UnfinishedRuns

# The targets that a process remembers; one is some hundred bytes.
_REMEMBERED = 4096


class IngestTargets:
    """Finds the workflows of ingest tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = MicroBatcher(self._find_together)
        self._remembered: dict[bytes, RunTarget] = {}

    def recall(self, token: str) -> RunTarget | None:
        """Return the workflow that had this token when it was last found; accepting a run verifies it."""
        return self._remembered.get(hash_token(token))

    async def find(self, token: str) -> RunTarget:
        """Return the active workflow with this ingest token.

        Raises:
            NotFound: the token is unknown, revoked or malformed.
            Conflict: the workflow is not active.
        """
        self._remembered.pop(hash_token(token), None)
        target = await self._batcher.submit(token)
        if target.token_hash is not None:
            while len(self._remembered) >= _REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[target.token_hash] = target
        return target

    async def _find_together(self, tokens: list[str]) -> list[RunTarget | Exception]:
        async with self._database.connection() as connection:
            return await ingest_targets(connection, tokens)


class RunIntake:
    """Accepts runs for accounts that have room for them."""

    def __init__(self, database: Database, unfinished: UnfinishedRuns) -> None:
        self._batcher = MicroBatcher(
            partial(accept_together, database, unfinished), size=lambda event: event.size
        )

    async def accept(self, request: RunRequest) -> RunAcceptance:
        """Accept a run: once this returns, it will be carried out.

        Raises:
            TooManyRuns: the account has its most unfinished runs.
            StaleTarget: the workflow has changed since it was found by its ingest token.
        """
        return await self._batcher.submit(request)


async def accept_together(
    database: Database, unfinished: UnfinishedRuns, events: list[RunRequest]
) -> list[RunAcceptance | Exception]:
    """Accept the events of accounts that have room for them, and notify a worker.

    If it raises before the commit, none is accepted.
    """
    async with database.connection() as connection:
        counts = Counter(event.target.account_id for event in events)
        full = await unfinished.find_full(connection, counts)
        fitting = [event for event in events if event.target.account_id not in full]
        accepted = iter(await accept_and_announce(connection, fitting) if fitting else [])
        return [
            TooManyRuns(unfinished.most) if event.target.account_id in full else next(accepted)
            for event in events
        ]
