"""A worker that is stopped in the middle of a write: its runs stay locked until the database ends it."""

from __future__ import annotations

import pytest

from database import Database
from models.runs import shifts
from tests.automations.claims import claimed, new_shift
from tests.automations.engine import NewTarget, Work, accept, ended, transform, until

pytestmark = pytest.mark.long

EXECUTION = "shift"


@pytest.mark.usefixtures("nothing_waits")
async def test_a_worker_that_is_stopped_within_a_write_holds_nobody_up(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shifts, "SILENT_SECONDS", 2)
    target = await new_target([transform("end", "'done'")])
    [stopped] = await accept(database, target)
    shift_id = await new_shift(database)
    await claimed(database, shift_id)

    async def its_shift_is_ended() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute("select from shifts where id = %s", (shift_id,))
            return await cursor.fetchone() is None

    async with database.transaction() as writer:
        # The first round trip of `record_changes_if_claimed`; the second does not come.
        await writer.execute("select from run_work where run_id = %s for update", (stopped,))
        async with at_work() as notifier:
            await until(its_shift_is_ended, 15)
            [run_id] = await accept(database, target)
            assert (await ended(database, notifier, target.account_id, run_id, 10)).output == "done"
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, stopped, 10)).output == "done"
