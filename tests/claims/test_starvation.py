"""Nobody waits for ever: each run is claimed within so many claims, however much the others have.

The loads are random: accounts, workflows with limits, priorities, workers; some queues are never empty.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from database import Database
from models.automations.run_targets import Target
from models.priorities import BULK, INTERACTIVE, WAITED
from models.runs import acceptance
from models.runs.claim_order import WINDOW, Turn, first_to_serve
from models.runs.run_work import Claim, ClaimedRun
from models.runs.run_writes import Change, End, record_changes_if_claimed
from tests.automations.claims import claim, new_shift, runs_of
from tests.automations.engine import NewAccount, NewTarget
from tests.claims.rows import limited

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nothing_waits")]
_PRIORITIES = (WAITED, INTERACTIVE, BULK)
_CYCLE = 16
"""Of so many claims of a worker each priority is the first of one at least."""


@dataclass
class Worker:
    """What a worker knows: whose turn it is, and what it has at work."""

    shift_id: UUID
    turn: Turn = field(default_factory=Turn)
    claims: int = 0
    runs: list[ClaimedRun] = field(default_factory=list[ClaimedRun])


@dataclass
class Load:
    """Queues of runs and who claims from them.

    Attributes:
        rows: how many a claim takes at most.
        queues: how many runs there always are in each; of most, none.
        waiting: the runs that wait, each with its queue.
    """

    database: Database
    workers: list[Worker]
    rows: int
    queues: dict[Target, int]
    waiting: dict[UUID, Target] = field(default_factory=dict[UUID, Target])

    async def accept(self, targets: list[Target]) -> list[UUID]:
        events = [acceptance.Event(target, "manual", None) for target in targets]
        async with self.database.connection() as connection:
            accepted = await acceptance.accept(connection, events)
        run_ids = [one.run_id for one in accepted]
        self.waiting.update(zip(run_ids, targets, strict=True))
        return run_ids

    async def claim(self) -> None:
        """Let the next worker claim, when what it had is done; fill up what is never empty."""
        worker = self.workers.pop(0)
        self.workers.append(worker)
        changes = [Change(run.claim_id, run.run_id, then=End("completed")) for run in worker.runs]
        async with self.database.connection() as connection:
            await record_changes_if_claimed(connection, changes)
        worker.claims += 1
        first = first_to_serve(worker.claims)
        found = await claim(
            self.database, worker.shift_id, rows=self.rows, room=WINDOW, turn=worker.turn, first=first
        )
        worker.runs = runs_of(found) if isinstance(found, Claim) else []
        for run in worker.runs:
            del self.waiting[run.run_id]
        there = Counter(self.waiting.values())
        missing = [one for one, least in self.queues.items() for _ in range(least - there[one])]
        if missing:
            await self.accept(missing)

    @property
    def bound(self) -> int:
        """Within how many claims each run that waits now is claimed.

        Each worker begins one claim in 16 with each priority. Such a claim serves as many accounts as it has
        rows, each by turns, and of an account the oldest run of the eight workflows that are looked at.
        """
        accounts = {target.account_id for target in self.queues}
        rounds = -(-len(accounts) // self.rows)
        gates = Counter((target.account_id, target.priority) for target in self.queues)
        older = Counter((target.account_id, target.priority) for target in self.waiting.values())
        windows = -(-max(gates.values()) // 8)
        return len(self.workers) * _CYCLE * rounds * windows * (max(older.values()) + 1)


@settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
async def test_each_run_is_claimed_within_a_bound_whatever_the_others_have(
    database: Database, new_account: NewAccount, new_target: NewTarget, seed: int
) -> None:
    chance = random.Random(seed)
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
    queues: dict[Target, int] = {}
    rows = chance.choice([1, 3])
    for _ in range(chance.choice([1, 2, 4])):
        account_id = await new_account()
        for _ in range(chance.choice([1, 1, 3, 9])):
            target = await new_target(account_id=account_id)
            if chance.random() < 0.6:
                target = await limited(database, target, chance.choice([1, 2]))
            for priority in chance.sample(_PRIORITIES, chance.randrange(1, 4)):
                queues[replace(target, priority=priority)] = chance.choice([0, 0, 0, 1, rows + 1])
    workers = [Worker(await new_shift(database)) for _ in range(chance.choice([1, 1, 2]))]
    load = Load(database, workers, rows, queues)
    backlog = list(queues)
    chance.shuffle(backlog)
    late, bound = set(await load.accept(backlog)), load.bound
    for _ in range(bound):
        await load.claim()
        late &= load.waiting.keys()
        if not late:
            return
    left = [(run_id, load.waiting[run_id]) for run_id in late]
    pytest.fail(f"{len(left)} of {len(backlog)} wait after {bound} claims, such as {left[:3]} of {queues}")
