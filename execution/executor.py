"""The executor of a worker: executes runs under its shift, and learns by its beats which runs it still has.

All its results are in the rows of the runs: the next worker that claims a run continues from there.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from uuid import UUID

import structlog

import logs
from database import AWAY, Connection
from execution import clock
from execution.hand_over import OwnPlaces
from execution.run_executor import RunExecutor, RunServices
from execution.shift import Group, HeldShift, now
from execution.versions import LoadedVersion, VersionCache
from models.identifiers import new_id
from models.runs import builds, run_loading, shifts
from models.runs.claim_order import KEPT, WINDOW
from models.runs.run_loading import Recorded
from models.runs.run_work import Claim, ClaimedRun

_log = logs.get(__name__)
BEAT_SECONDS = 3.0
_BEAT_AGAIN_SECONDS = 0.5
# To give its workflows up costs a worker the calls under way that last longer than its grace period. A
# failover of Postgres, which others do not survive any better, is not worth that.
_CUT_OFF_SECONDS = 60.0
_DRAIN_LOOK_SECONDS = 0.5
_ALONE_SECONDS = 60.0
_ID_LENGTH = len(str(UUID(int=0)))


class Executor:
    """Executes runs, any number concurrently.

    Attributes:
        shift: the lease of all runs at work; None while there is none: then nothing may be claimed.
        at_work: the number of runs at work, by account.
        on_room: called when there is more room.
        published_room: returns the room to announce; if it is negative, this worker is not woken.
        versions: the versions in memory.
    """

    def __init__(self, services: RunServices, own_places: OwnPlaces, worker_id: UUID) -> None:
        """Create the executor.

        Args:
            services: what it shares with the activities of runs.
            own_places: hands some runs to workflows of their own.
            worker_id: this process's id among the workers.
        """
        self._database = services.database
        self._writer = services.writer
        self._failures = services.failures
        self._admission = services.admission
        self._own_places = own_places
        self._worker_id = worker_id
        self.versions = VersionCache(services.database)
        self._run_executor = RunExecutor(services)
        self._runs: dict[UUID, tuple[UUID, asyncio.Task[bool]]] = {}
        self._claims: dict[UUID, UUID] = {}
        self._unknown: set[tuple[UUID, UUID]] = set()
        self._groups: set[asyncio.Task[None]] = set()
        self._beats: asyncio.Task[None] | None = None
        self._alone_until = 0.0
        self._heard_at = now()
        self.shift: HeldShift | None = None
        self.at_work: Counter[UUID] = Counter()
        self.on_room: Callable[[], None] = lambda: None
        self.published_room: Callable[[], int] = lambda: self.room

    def start(self) -> None:
        """Begin a shift and its beats."""
        self._beats = asyncio.create_task(self._beat_for_ever(), name="beats")

    @property
    def is_cut_off(self) -> bool:
        """Return whether the database has answered no beat of this process for a while."""
        return now() - self._heard_at > _CUT_OFF_SECONDS

    async def drain(self, seconds: float) -> None:
        """Wait for the runs under way, at most this long, and only while the database answers."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._groups and loop.time() < deadline and not self._writer.has_given_up:
            await asyncio.wait(self._groups, timeout=_DRAIN_LOOK_SECONDS)

    async def stop(self) -> None:
        """Drop the runs under way: they are queued again, for other workers to claim at once."""
        self._run_executor.dropping = True
        self._cancel_all()
        if self._groups:
            await asyncio.wait(self._groups, timeout=5)
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)
        held, self.shift = self.shift, None
        if held is not None:
            held.lost = True
            if self._database.is_away:
                _log.warning("shift_not_left", error="the database is away")
                return
            try:
                async with self._database.connection() as connection:
                    await shifts.release(connection, held.id)
            except AWAY as error:
                # Other workers end the shift after its silence.
                _log.warning("shift_not_left", error=str(error))

    @property
    def size(self) -> int:
        """The number of runs at work."""
        return self.at_work.total()

    @property
    def takes_runs(self) -> bool:
        """Return whether it takes runs at all: its build is admitted, and no run goes alone."""
        return self._admission.is_admitted and time.monotonic() >= self._alone_until

    @property
    def room(self) -> int:
        """The number of further runs that there is room for."""
        if not self.takes_runs:
            return 0
        return KEPT + self._admission.share_of(WINDOW - KEPT) - self.size

    # ---- runs

    def begin(self, claim: Claim, held: HeldShift, *, alone: bool = False) -> None:
        """Take up the runs of a claim for a shift. Returns at once.

        Args:
            claim: the runs.
            held: the shift. If it is lost, the process that ended it has queued them.
            alone: run nothing beside them for a minute, by which a harmful run would have shown itself.
        """
        if alone:
            self._alone_until = time.monotonic() + _ALONE_SECONDS
        for of, runs in claim.groups.items():
            group = Group(held, of, {run.run_id: run.claim_id for run in runs})
            self.at_work[of.account_id] += len(runs)
            self._claims |= group.claims
            task = asyncio.create_task(self._run_group(group, runs))
            self._groups.add(task)
            task.add_done_callback(self._groups.discard)

    def _release_place(self, account_id: UUID) -> None:
        self.at_work[account_id] -= 1
        if not self.at_work[account_id]:
            del self.at_work[account_id]
        if not self.at_work:
            self._alone_until = 0.0
        self.on_room()

    async def _run_group(self, group: Group, runs: list[ClaimedRun]) -> None:
        left = {run.run_id for run in runs}
        account_id, claims = group.of.account_id, dict(group.claims)

        def release_run(run_id: UUID) -> None:
            if run_id in left:
                left.remove(run_id)
                if self._claims.get(run_id) == claims[run_id]:
                    del self._claims[run_id]
                self._release_place(account_id)

        with structlog.contextvars.bound_contextvars(account_id=str(account_id)):
            try:
                await self._run_all(group, runs, claims, release_run)
            except AWAY as error:
                _log.warning("runs_given_back", runs=len(runs), error=str(error))
                await self._give_back(group)
            except Exception as error:
                self._failures.note_fault(error)
                _log.error("runs_given_back", runs=len(runs), exc_info=error)
                await self._give_back(group)
            finally:
                for run_id in list(left):
                    self._own_places.free_place(run_id)
                    release_run(run_id)

    async def _give_back(self, group: Group) -> None:
        """Queue runs after a failure outside of the single runs: other workers may succeed."""
        if not group.held.lost:
            await group.persist(
                self._database, lambda connection: shifts.requeue_runs(connection, group.claims)
            )

    async def _run_all(
        self, group: Group, runs: list[ClaimedRun], claims: dict[UUID, UUID], over: Callable[[UUID], None]
    ) -> None:
        if (loaded := await self._load(group, runs)) is None:
            return
        version, records = loaded
        if version.trouble.is_general:
            await self._try_one(group, version, runs, records, claims, over)
            return
        left = await self._carry(group, version, runs, records, claims, over)
        if version.trouble.is_general:
            await self._run_executor.set_version_aside(group, version, left)

    async def _try_one(
        self,
        group: Group,
        version: LoadedVersion,
        runs: list[ClaimedRun],
        records: dict[UUID, Recorded],
        claims: dict[UUID, UUID],
        over: Callable[[UUID], None],
    ) -> None:
        """Try one run of a version with which our code fails, unless it is set aside; then the others."""
        if await self._run_executor.were_put_aside(group, runs):
            return
        # A run that has not failed yet shows more: the failed ones may have failed because of their data.
        first, *rest = sorted(runs, key=lambda run: version.trouble.has_failed(run.run_id))
        is_new = not version.trouble.has_failed(first.run_id)
        await self._carry(group, version, [first], records, claims, over)
        if not version.trouble.is_general:
            again = {run.run_id: run.claim_id for run in rest}
            await group.persist(self._database, lambda connection: shifts.requeue_runs(connection, again))
        elif rest or is_new:
            await self._run_executor.set_version_aside(group, version, rest)

    async def _carry(
        self,
        group: Group,
        version: LoadedVersion,
        runs: list[ClaimedRun],
        records: dict[UUID, Recorded],
        claims: dict[UUID, UUID],
        over: Callable[[UUID], None],
    ) -> list[ClaimedRun]:
        """Execute runs to their end; return those that were not begun because our code failed with others."""
        suspect = version.trouble.is_general
        mode = "shift" if suspect else version.execution
        carried = await self._own_places.hand_over(group, runs, mode, version.plan.calls)
        here = {run.run_id for run in carried}
        for run in runs:
            if run.run_id not in here:
                over(run.run_id)
        tasks: list[asyncio.Task[bool]] = []
        for run in carried:
            recorded = records.get(run.run_id, Recorded())
            # A run that was taken back from Temporal has another claim.
            claims[run.run_id] = self._claims[run.run_id] = run.claim_id
            task = asyncio.create_task(self._run(group, version, run, recorded, over, suspect=suspect))
            self._runs[run.run_id] = (run.claim_id, task)
            # A task that is cancelled before it begins executes nothing of itself, not even its `finally`.
            task.add_done_callback(partial(self._forget, run.run_id))
            tasks.append(task)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                _log.error("run_dropped", exc_info=error)
        return [run for run, has_ended in zip(carried, ended, strict=True) if has_ended is False]

    async def _load(
        self, group: Group, runs: list[ClaimedRun]
    ) -> tuple[LoadedVersion, dict[UUID, Recorded]] | None:
        """Load the version and the records of the runs; return None if our code cannot, and set it aside."""
        automation_id, number = group.of.automation_id, group.of.version
        recorded = [run.run_id for run in runs if run.recorded]
        try:
            version = await group.retry_until_available(lambda: self.versions.load(automation_id, number))
            records: dict[UUID, Recorded] = {}
            if recorded:
                read = version.read
                records = await group.retry_until_available(lambda: self._load_records(recorded, read))
        except Exception as error:
            if group.held.lost or self._failures.note_fault(error):
                raise
            self._failures.note(group.of.account_id, failed=True)
            await self._run_executor.set_version_aside(group, None, runs, error)
            return None
        return version, records

    async def _load_records(self, run_ids: list[UUID], read: Collection[str]) -> dict[UUID, Recorded]:
        async with self._database.connection() as connection:
            return await run_loading.load_records(connection, run_ids, list(read))

    async def _run(
        self,
        group: Group,
        version: LoadedVersion,
        run: ClaimedRun,
        recorded: Recorded,
        over: Callable[[UUID], None],
        *,
        suspect: bool,
    ) -> bool:
        """Execute a run to its end; return False if it was not begun because its version became suspect."""
        is_tried = suspect or not version.trouble.is_general
        try:
            if is_tried:
                await self._run_executor.run(group, version, run, recorded)
        finally:
            if is_tried:
                over(run.run_id)
        return is_tried

    def _forget(self, run_id: UUID, task: asyncio.Task[bool]) -> None:
        if self._runs.get(run_id, (None, None))[1] is task:
            del self._runs[run_id]

    def drop(self, run_ids: Iterable[UUID]) -> None:
        """Drop runs that have ended elsewhere: their calls under way are cancelled, and no others begin."""
        for run_id in run_ids:
            _, task = self._runs.get(run_id, (None, None))
            # A task that was cancelled before is still writing its steps under way.
            if task is not None and not task.cancelling():
                task.cancel()

    def _cancel_all(self) -> None:
        for _, task in list(self._runs.values()):
            task.cancel()

    # ---- the shift

    async def queue_unknown(self, connection: Connection) -> int:
        """Queue runs that the shift carries but this process does not have: the reply to a claim was lost.

        A reply may still arrive: a run must be unknown in two checks. Claim nothing in between.

        Returns:
            The number of queued runs.
        """
        if self.shift is None:
            return 0
        carried = await shifts.find_carried(connection, self.shift.id)
        unknown = {one for one in carried if self._claims.get(one[0]) != one[1]}
        again, self._unknown = unknown & self._unknown, unknown
        return await shifts.requeue_runs(connection, dict(again)) if again else 0

    async def _begin_shift(self) -> None:
        held = HeldShift(new_id())
        async with self._database.connection() as connection:
            await builds.register(connection, self._admission.build, self._admission.first_state)
            await shifts.begin(connection, held.id, self._worker_id, self._admission.build)
        self.shift = held
        await self._beat(held)
        self.on_room()

    async def _beat_for_ever(self) -> None:
        while True:
            pause = BEAT_SECONDS
            try:
                if self.shift is None:
                    await self._begin_shift()
                else:
                    await self._beat(self.shift)
            except AWAY as error:
                _log.warning("beat_failed", error=str(error))
                pause = _BEAT_AGAIN_SECONDS
            except Exception as error:
                # Without beats no call may begin: the loop continues, and logs the error.
                _log.error("beat_failed", exc_info=error)
                pause = _BEAT_AGAIN_SECONDS
            await asyncio.sleep(pause)

    async def _beat(self, held: HeldShift) -> None:
        claims = {run_id: claim_id for run_id, (claim_id, _) in self._runs.items()}
        sent_at, room = now(), self.published_room()
        # The writer's connections, so that this works even if the rest of the worker uses up the others.
        async with self._writer.database.connection() as connection:
            news = await shifts.beat(connection, held.id, room, claims)
        self._heard_at = now()
        if news is None:
            self._lose(held)
            return
        held.beat_sent_at = sent_at
        clock.compare(news.at, now() - sent_at)
        self._admission.set_share(news.share)
        self.drop(one for one in news.gone if self._runs.get(one, (None,))[0] == claims[one])
        self._run_executor.recheck_answers(news.woken)

    def _lose(self, held: HeldShift) -> None:
        """Drop all runs of a shift that another process has ended and queued."""
        _log.warning("shift_lost", shift_id=str(held.id))
        held.lost = True
        self.shift = None
        self._cancel_all()


def parse_ids(payload: str) -> list[UUID]:
    """Parse the ids of a notification; `notify_1` may have cut the last one."""
    return [UUID(one) for one in payload.split(",") if len(one) == _ID_LENGTH]
