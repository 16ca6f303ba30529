"""The gate that stops claims: a build that fails with the runs of many accounts must not try them all.

Runs that our code cannot execute are set aside. The process halts when this happens to many accounts, when
the database lacks an object that we use, or when the process fails its own test. A halted process tests
itself every ten seconds, then claims one run, and continues as before once such a run has advanced.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg

import logs
from database import AWAY, Database
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from execution.admission import Admission
from language.definition import Definition
from models.installation import root_key, write_probe
from sealing import Keyring

_log = logs.get(__name__)
_WINDOW_SECONDS = 60.0
_TEST_SECONDS = 10.0
_AGAIN_SECONDS = 0.5
_FEWEST_ACCOUNTS = 3


class FailureWatch:
    """The accounts whose runs advanced within the last minute, and those with whose runs our code failed.

    Attributes:
        successes: the number of runs that have advanced since the start.
        fault: why no run can advance, if the database reported the reason.
    """

    def __init__(self) -> None:
        self._served: dict[UUID, float] = {}
        self._failed: dict[UUID, float] = {}
        self.successes = 0
        self.fault: str | None = None

    def note(self, account_id: UUID, *, failed: bool) -> None:
        """Record that a run of an account advanced, or that our code failed with it."""
        now = time.monotonic()
        self._served[account_id] = now
        if failed:
            self._failed[account_id] = now
        else:
            self.successes += 1

    def note_fault(self, error: Exception) -> bool:
        """Record an error if the database lacks an object that this release expects; return whether it does.

        Then a table, a function or a privilege is missing, and every claim would fail in the same way.
        """
        if not isinstance(error, psycopg.ProgrammingError) or error.sqlstate is None:
            return False
        self.fault = f"the database does not have what this release asks for: {error}"
        return True

    def is_general(self) -> bool:
        """Return whether runs fail for at least three accounts, and half of those served, within a minute."""
        oldest = time.monotonic() - _WINDOW_SECONDS
        self._served = {one: at for one, at in self._served.items() if at > oldest}
        self._failed = {one: at for one, at in self._failed.items() if at > oldest}
        return len(self._failed) >= _FEWEST_ACCOUNTS and 2 * len(self._failed) >= len(self._served)

    def forget(self) -> None:
        """Reset the failures: the next runs show whether our code still fails."""
        self._served, self._failed, self.fault = {}, {}, None


class ClaimGate:
    """Decides whether this process claims runs, and how many.

    Attributes:
        halted: whether it claims none, or one to try.
        failures: the recent failures.
        admission: whether this build takes work.
    """

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        failures: FailureWatch,
        admission: Admission | None = None,
    ) -> None:
        self.halted = False
        self.admission = admission or Admission()
        self._database = database
        self._keyring = keyring
        self.failures = failures
        self._test_at = 0.0
        self._tries = False
        self._successes = 0

    @property
    def is_open(self) -> bool:
        """Return whether this process claims as usual."""
        return not self.halted and self.admission.is_admitted

    async def rows_to_claim(self, most: int) -> int:
        """Return the number of runs that may be claimed now: none, one to try, or this build's share.

        Raises:
            psycopg.Error: one of `AWAY`.
        """
        most = self.admission.share_of(most)
        if not most:
            return 0
        fault = self.failures.fault
        if fault is not None and (not self.halted or self._tries):
            self._halt(fault)
        elif not self.halted and self.failures.is_general():
            self._halt("our code fails with the runs of many accounts")
        if not self.halted:
            return most
        if self._tries and self.failures.successes > self._successes:
            self.halted = self._tries = False
            _log.warning("engine_goes_on")
            return most
        if time.monotonic() < self._test_at:
            return 0
        self._test_at = time.monotonic() + _TEST_SECONDS
        if problem := await self.test():
            _log.error("engine_halted", problem=problem)
            return 0
        self.failures.forget()
        self._tries, self._successes = True, self.failures.successes
        return 1

    async def check(self) -> None:
        """Test this process before its first claim; halt if it fails. Wait for a database that is away."""
        while True:
            try:
                problem = await self.test()
                break
            except AWAY as error:
                _log.warning("database_away", error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
        if problem:
            self._halt(problem)

    def _halt(self, problem: str) -> None:
        _log.error("engine_halted", problem=problem)
        self.halted, self._tries = True, False
        self._test_at = time.monotonic() + _TEST_SECONDS

    async def test(self) -> str | None:
        """Return what is wrong with this process: its key, its database, or its engine; None if nothing is.

        Raises:
            psycopg.Error: one of `AWAY`, which is no fault of this process.
        """
        try:
            async with self._database.connection() as connection:
                if not await root_key.is_right(connection, self._keyring):
                    return "the root key does not open what is sealed"
                await write_probe.try_to_write(connection)
        except AWAY:
            raise
        except psycopg.Error as error:
            return f"the database {write_probe.refusal_of(error)}"
        return None if _engine_works() else "the engine does not run a built-in workflow"


_BUILT_IN = {
    "name": "self-test",
    "steps": [
        {"id": "large", "type": "condition", "config": {"expression": "trigger.n > `1`"}},
        {"id": "sum", "type": "transform", "config": {"expression": "{n: sum([trigger.n, `1`])}"}},
    ],
}


def _engine_works() -> bool:
    now = datetime.now(UTC)
    plan = Plan(Definition.model_validate(_BUILT_IN))
    driver = Driver(plan, RunInput(uuid4(), now, {"n": 2}), {"id": "", "name": ""})
    driver.advance(now)
    outputs = {record.step_id: record.output for record in driver.take_records()}
    return driver.ended is not None and outputs.get("sum") == {"n": 3}
