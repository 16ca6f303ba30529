"""The dispatcher of runs: claims waiting runs from many queues at once, for the shift of this worker.

The API only accepts rows. The executor of this process begins with claimed runs at once. A lone run is
claimed at once; under load claims grow by themselves.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from dataclasses import replace
from uuid import UUID

import logs
from activities.credits import start_due
from database import AWAY, Connection, Database
from dispatch.loop import DispatchLoop, DispatchServices
from execution import observation
from execution.executor import Executor, parse_ids
from execution.hand_over import OwnPlaces
from execution.long_waits import WaitGiver
from execution.shift import HeldShift
from execution.workflow_watch import WorkflowWatch
from models import gates
from models.priorities import INTERACTIVE
from models.runs import claim_requests, own_runs, run_starts, run_work, shifts, workers
from models.runs.claim_order import KEPT, Turn, first_to_serve
from models.runs.claim_requests import ACCOUNT_WINDOW, ClaimRequest
from models.runs.low_water import LowWater
from models.runs.run_work import Claim
from models.runs.runs import CANCELLED_CHANNEL, QUEUED_CHANNEL, worker_channel
from notifications import Notifier
from temporal.retiring import end_former_workflows

_log = logs.get(__name__)
# The pauses after a full claim and after any claim: so claims and writes grow under load.
_FULL_ROWS, _FULL_PAUSE, _PAUSE = 64, 0.02, 0.005
# Few runs need a workflow of their own: an empty queue of such runs is not read for this long.
_OWN_PAUSE = 0.05
_PASS_ON_SECONDS = 0.1
_MOST_NEWCOMERS = 1024
# An account with fewer runs at work is a newcomer.
_LITTLE = 4
# The first half of the room reserved for runs with waiting clients is also open to a run of a newcomer.
_KEPT_FOR_WAITED = KEPT // 2
# A run that must run alone waits this long for an idle worker. Then one worker claims no others for a while,
# and again later, so that long calls do not block all other runs.
_DRAIN_AFTER_SECONDS, _DRAIN_SECONDS, _DRAIN_AGAIN_SECONDS = 5.0, 20.0, 60.0
_RETIRE_SECONDS = 60.0
_PROMOTE_SECONDS = 30.0
# How often to check for runs of this shift that are unknown in this process.
_UNKNOWN_SECONDS = 5.0


class Dispatcher(DispatchLoop):
    """Claims runs; each worker process has one, and any number can run in parallel."""

    sweep_seconds = 0.5

    def __init__(
        self,
        services: DispatchServices,
        executor: Executor,
        worker_id: UUID,
        notifier: Notifier,
        own_places: OwnPlaces,
        waits: WaitGiver,
    ) -> None:
        """Create the dispatcher.

        Args:
            services: what it shares with other dispatchers.
            executor: takes up claimed runs.
            worker_id: this process's id among the workers.
            notifier: passes on notifications for which this worker has no room.
            own_places: the places for runs that have workflows of their own.
            waits: hands long waits to Temporal.
        """
        database, client = services.database, services.client
        super().__init__(
            database,
            {worker_channel(worker_id): self._on_notification, CANCELLED_CHANNEL: self._heard_of_cancels},
            "dispatcher",
        )
        # A separate pool, because it does not wait for the disk: if a crash of the database loses a claim,
        # its runs are still queued, and writes under the lost claim are refused.
        self._claiming = Database(
            database.url, name="vedette claims", size=1, parameters={"synchronous_commit": "off"}
        )
        self._client = client
        self._executor = executor
        self._claim_gate = services.claim_gate
        self._lag = services.lag
        self._worker_id = worker_id
        self._notifier = notifier
        self._own_places = own_places
        self._waits = waits
        self._watch = WorkflowWatch(database, client, notifier)
        own_places.heed_end = self._watch.heed_end
        self._turns = {own: Turn() for own in (False, True)}
        self._low_water = {own: LowWater() for own in (False, True)}
        self._others = shifts.ObservedShifts()
        self._claims = {False: 0, True: 0}
        self._claim_at = self._passed_on_at = 0.0
        # When to look again for runs that need their own workflow: with a place for any, or for newcomers.
        self._own_look_at = {False: 0.0, True: 0.0}
        self._own_skipped_until = math.inf
        self._begun: Counter[UUID] = Counter()
        self._alone_since: float | None = None
        self._drains = self._went_alone = False
        self._gate = gates.NONE
        self._newcomers: dict[UUID, None] = {}
        self._retire_at = self._unknown_at = 0.0
        self.on_error = services.claim_gate.failures.note_fault
        executor.on_room = self.on_capacity_freed
        own_places.on_room = self.on_capacity_freed
        executor.published_room = self._published_room

    async def open(self) -> None:
        """Connect."""
        await self._claiming.open()

    async def stop(self) -> None:
        """Stop claiming, and sign out."""
        await super().stop()
        await self._claiming.close()
        if self._database.is_away:
            _log.warning("worker_not_signed_out", error="the database is away")
            return
        try:
            async with self._database.connection() as connection:
                await workers.sign_out(connection, self._worker_id)
        except AWAY as error:
            # Its row is deleted after a long silence.
            _log.warning("worker_not_signed_out", error=str(error))

    def _heard_of_cancels(self, payload: str) -> None:
        ids = parse_ids(payload)
        self._executor.drop(ids)
        for run_id in ids:
            if self._own_places.has(run_id) or self._watch.knows(run_id):
                self._begin_chore(f"cancel {run_id}", self._own_places.cancel(run_id))

    def _on_notification(self, payload: str) -> None:
        for account_id in parse_ids(payload):
            if self._has_little(account_id) and len(self._newcomers) < _MOST_NEWCOMERS:
                self._newcomers[account_id] = None
        if self._executor.room <= KEPT and (now := time.monotonic()) - self._passed_on_at > _PASS_ON_SECONDS:
            # The notification reaches another worker that has room, if there is one.
            self._passed_on_at = now
            self._notifier.notify(QUEUED_CHANNEL, payload)
        super()._on_notification(payload)

    def _published_room(self) -> int:
        fit = self._claim_gate.is_open and not (self._lag.is_too_long or self._drains or self._stopping)
        return max(0, self._executor.room) if fit else shifts.UNFIT

    # ---- claiming

    async def _claim_all(self) -> float:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            held = self._executor.shift
            if held is None or not held.can_start_calls or self._lag.is_too_long:
                return float("inf")
            if (now := loop.time()) < self._claim_at:
                return self._claim_at
            # Runs that go alone take turns with all others, but for the time that is kept for them.
            alone = (
                self._alone_since is not None
                and not self._executor.size
                and (self._drains or not self._went_alone)
            )
            if not self._executor.takes_runs or (self._drains and not alone):
                self._held_back = True
                return float("inf")
            rows = await self._claim_gate.rows_to_claim(1 if alone else claim_requests.MAX_ROWS)
            if not rows:
                return float("inf")
            if _KEPT_FOR_WAITED < self._executor.room <= KEPT and (newcomer := self._next_newcomer()):
                claim = await self._claim(held, 1, newcomer=newcomer)
                if isinstance(claim, Claim):
                    self._begin(claim, held)
                continue
            had_place = self._own_places.room > 0
            claim = await self._claim_some(held, rows, alone=alone)
            others_turn, self._went_alone = self._went_alone, alone
            if isinstance(claim, bool) and others_turn and not alone:
                # Nobody else waits.
                continue
            if claim is True and not had_place and self._own_places.room:
                # A place that came free during the claim has woken nobody.
                continue
            if isinstance(claim, bool):
                if alone:
                    self._alone_since, self._drains = None, False
                    continue
                self._held_back = claim or self._executor.room <= KEPT
                return self._own_skipped_until
            self._begin(claim, held, alone=alone)
            self._claim_at = now + (_FULL_PAUSE if claim.size >= _FULL_ROWS else _PAUSE)
            if not claim.more or self._executor.room <= KEPT:
                # New runs are announced by notifications; the last places are for runs with waiting clients.
                self._held_back = claim.more
                return self._own_skipped_until
        return float("inf")

    def _begin(self, claim: Claim, held: HeldShift, *, alone: bool = False) -> None:
        self._executor.begin(claim, held, alone=alone)
        self._begun.update(claim.begun)
        observation.note_begun(claim)

    async def _claim_some(self, held: HeldShift, rows: int, *, alone: bool) -> Claim | bool:
        """Claim runs; first those that need a workflow of their own, as far as there are places."""
        room = self._own_places.room
        places = room or self._own_places.newcomers_room
        # Without a free place it is unknown whether a run waits for one.
        waits = not places
        now, look_at = asyncio.get_running_loop().time(), self._own_look_at[not room]
        self._own_skipped_until = look_at if now < look_at else math.inf
        if places and not alone and now >= look_at:
            claim = await self._claim(held, min(rows, places), own=True)
            if isinstance(claim, Claim):
                # This claim has read no other queues.
                return replace(claim, more=True)
            waits = claim
            self._own_look_at[True] = now + _OWN_PAUSE
            if not claim:
                self._own_look_at[False] = now + _OWN_PAUSE
        if self._executor.room <= 0:
            return True
        return await self._claim(held, rows, alone=alone) or waits

    async def _claim(
        self,
        held: HeldShift,
        rows: int,
        *,
        alone: bool = False,
        own: bool = False,
        newcomer: UUID | None = None,
    ) -> Claim | bool:
        if self._lag.is_too_long:
            return True
        self._claims[own] += 1
        # The last places for runs with workflows of their own are for accounts that hold none.
        one_each = own and not self._own_places.room
        async with self._claiming.connection() as connection:
            request = ClaimRequest(
                # A run with a workflow of its own needs a place, and no room in the shift.
                room=KEPT + rows if own or newcomer is not None else self._executor.room,
                rows=rows,
                account_window=1 if one_each else ACCOUNT_WINDOW,
                at_work=self._own_places.at_work() if own else self._executor.at_work,
                turn=self._turn_of(newcomer, own=own),
                marks=self._low_water[own].marks(),
                first=first_to_serve(self._claims[own]) if newcomer is None else INTERACTIVE,
                alone=alone,
                own=own,
                on_read=self._low_water[own].note_read,
            )
            claim = await run_work.claim(connection, held.id, request)
        if isinstance(claim, Claim):
            if own:
                for of, runs in claim.groups.items():
                    self._own_places.reserve(of.account_id, runs)
            self._low_water[own].note(claim)
        return claim

    def _turn_of(self, newcomer: UUID | None, *, own: bool) -> Turn:
        """Return the turn of the next claim: every other claim begins with an account that just got work.

        If a thousand accounts have work, the first run of another one does not wait for a round of all of
        them.
        """
        turn = self._turns[own]
        # Without room beyond the reserved part it would get nothing, and lose its turn.
        if newcomer is None and not own and self._executor.room > KEPT and self._claims[own] % 2:
            newcomer = self._next_newcomer()
        return turn if newcomer is None else turn.beginning_with(newcomer)

    def _next_newcomer(self) -> UUID | None:
        while self._newcomers:
            account_id = next(iter(self._newcomers))
            del self._newcomers[account_id]
            if self._has_little(account_id):
                return account_id
        return None

    def _has_little(self, account_id: UUID) -> bool:
        # An account may learn of the end of a run before the end is counted here.
        return self._executor.at_work[account_id] < _LITTLE

    # ---- sweeping

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            lag = self._lag.take_longest()
            await workers.sign_in(
                connection,
                self._worker_id,
                halted=self._claim_gate.halted,
                loop_lag=lag,
                reaches_temporal=self._watch.reaches_temporal,
            )
            for shift_id, beats in await self._others.find_silent(connection):
                if (runs := await shifts.end(connection, shift_id, beats)) is not None:
                    _log.warning("shift_ended", shift_id=str(shift_id), runs=runs)
            alive = await workers.find_alive(connection, self._worker_id)
            self._own_places.workers = alive.number
            _, late = await run_work.wake_due(connection)
            if late:
                self._own_places.prefer_shift()
            if untaken := await own_runs.find_untaken(connection):
                self._begin_chore("queue_untaken", self._watch.queue_untaken(untaken))
            if strays := await run_work.queue_strays(connection):
                _log.error("stray_runs_queued", runs=strays)
            if (now := asyncio.get_running_loop().time()) >= self._unknown_at:
                self._unknown_at = now + _UNKNOWN_SECONDS
                if unknown := await self._executor.queue_unknown(connection):
                    _log.warning("unknown_runs_queued", runs=unknown)
            if begun := Counter(self._begun):
                await run_starts.add(connection, begun)
                self._begun -= begun
            await self._look_for_lost(connection, is_first=alive.is_first)
        # In the background: very many gates take seconds, and claims must not wait for them.
        self._begin_chore("promote", self._promote(), _PROMOTE_SECONDS)
        self._begin_chore("look_after", self._own_places.free_stale_places())
        self._begin_chore("reach_temporal", self._watch.reach_temporal())
        if alive.leads:
            self._begin_chore("tell_woken", self._watch.tell_woken())
            self._begin_chore("give_waits", self._waits.give())
        if alive.leads and time.monotonic() >= self._watch.next_at:
            self._begin_chore("compare", self._watch.compare(), _RETIRE_SECONDS)
        self._begin_chore("start_due", start_due(self._client, self._database))
        if now >= self._retire_at:
            self._retire_at = now + _RETIRE_SECONDS
            self._begin_chore("retire", end_former_workflows(self._client), _RETIRE_SECONDS)

    async def _promote(self) -> None:
        async with self._database.connection() as connection:
            _, self._gate = await gates.promote(connection, self._gate)

    async def _look_for_lost(self, connection: Connection, *, is_first: bool) -> None:
        """Check whether a run must run alone; while no worker is idle, the first worker claims no other."""
        now = asyncio.get_running_loop().time()
        if not await run_work.waits_alone(connection):
            self._alone_since, self._drains = None, False
            return
        self._alone_since = self._alone_since or now
        waited = (now - self._alone_since) % _DRAIN_AGAIN_SECONDS - _DRAIN_AFTER_SECONDS
        self._drains = is_first and 0 < waited < _DRAIN_SECONDS
