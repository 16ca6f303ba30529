"""A process that fails with everybody's runs claims no more, tests itself, tries one, and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from database import Database
from execution import claim_gate
from execution.claim_gate import ClaimGate, FailureWatch
from models.installation import root_key
from models.runs import runs, setbacks
from sealing import Keyring
from settings import Settings
from tests.api_server import Api, running
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    requested,
    transform,
    until,
    webhook,
)
from tests.automations.setbacks import define, metric, try_again_now

EXECUTION = "shift"
MANY = 256


def noted(failed: Sequence[UUID], served: Sequence[UUID] = ()) -> FailureWatch:
    watch = FailureWatch()
    for account_id in served:
        watch.note(account_id, failed=False)
    for account_id in failed:
        watch.note(account_id, failed=True)
    return watch


A, B, C, *OTHERS = [uuid4() for _ in range(7)]

GENERAL: dict[str, tuple[list[UUID], list[UUID], bool]] = {
    "three accounts, and nobody else": ([A, B, C], [], True),
    "three of six": ([A, B, C], OTHERS[:3], True),
    "three of seven": ([A, B, C], OTHERS, False),
    "two of two": ([A, B], [], False),
    "one account again and again": ([A] * 9, [], False),
}


@pytest.mark.parametrize("case", GENERAL)
def test_failures_are_general_when_three_accounts_and_half_of_all_fail(case: str) -> None:
    failed, served, general = GENERAL[case]
    assert noted(failed, served).is_general() is general


async def halted(api: Api, count: int) -> bool:
    """Return whether so many processes say that they have halted."""
    return await metric(api, "vedette_engine_halted") == f"{count}.0"


@pytest.fixture
async def sealed(database: Database, settings: Settings, keyring: Keyring) -> Keyring:
    """The keyring of the database, with its canary."""
    async with database.connection() as connection:
        return await root_key.open_keyring(connection, settings)


async def test_a_halted_process_tries_one_run_after_its_test_and_goes_on_when_that_succeeds(
    database: Database, sealed: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = noted([A, B])
    halt = ClaimGate(database, sealed, watch)
    assert await halt.rows_to_claim(MANY) == MANY
    watch.note(C, failed=True)
    assert await halt.rows_to_claim(MANY) == 0 and halt.halted
    monkeypatch.setattr(halt, "_test_at", 0.0)  # as if so long had passed
    assert await halt.rows_to_claim(MANY) == 1
    assert await halt.rows_to_claim(MANY) == 0 and halt.halted
    watch.note(A, failed=False)
    assert await halt.rows_to_claim(MANY) == MANY and not halt.halted


async def test_a_process_whose_key_is_wrong_halts_before_it_claims_anything(
    database: Database, sealed: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ClaimGate(database, Keyring(["k" * 32]), FailureWatch())
    await wrong.check()
    monkeypatch.setattr(wrong, "_test_at", 0.0)
    assert wrong.halted and await wrong.rows_to_claim(MANY) == 0
    right = ClaimGate(database, sealed, FailureWatch())
    await right.check()
    assert not right.halted and await right.rows_to_claim(MANY) == MANY


@pytest.mark.long
@pytest.mark.executions("shift", "workflow")
async def test_a_worker_that_fails_for_three_accounts_halts_and_harms_no_run(
    open_settings: Settings,
    at_work: Work,
    database: Database,
    sealed: Keyring,
    new_target: NewTarget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their definitions cannot be read, as when another release has written them."""
    monkeypatch.setattr(claim_gate, "_TEST_SECONDS", 1.0)
    targets = [await new_target([transform("end", "'done'")]) for _ in range(3)]
    async with running(open_settings) as api, at_work() as notifier:
        await until(lambda: halted(api, 0))
        definitions = [await define(database, target.automation_id, {"steps": 7}) for target in targets]
        run_ids = [(await accept(database, target))[0] for target in targets]
        notifier.notify(runs.QUEUED_CHANNEL)
        await until(lambda: halted(api, 1))
        # One that it can do: it is the run that it tries.
        good = await new_target([transform("end", "'done'")])
        [tried] = await accept(database, good)
        assert (await ended(database, notifier, good.account_id, tried)).output == "done"
        await until(lambda: halted(api, 0))
        async with database.connection() as connection:
            assert await runs.get_ended(connection, run_ids) == {}
        for target, definition in zip(targets, definitions, strict=True):
            await define(database, target.automation_id, definition)
        await try_again_now(database)
        for target, run_id in zip(targets, run_ids, strict=True):
            assert (await ended(database, notifier, target.account_id, run_id)).output == "done"


LACKS = {
    "a function of claims": (
        "function claim_runs_4",
        "claim_runs_gone",
        "function claim_runs_gone",
        "claim_runs_4",
    ),
    "a table of writes": ("table run_steps", "run_steps_gone", "table run_steps_gone", "run_steps"),
}


@pytest.mark.long
@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("lacks", LACKS)
async def test_a_worker_halts_while_the_database_lacks_something_and_harms_no_run(
    open_settings: Settings, at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch, lacks: str,
) -> None:  # fmt: skip
    """What was done is kept, and written when it is back: no call is made again."""
    monkeypatch.setattr(claim_gate, "_TEST_SECONDS", 1.0)
    what, gone, what_is_gone, name = LACKS[lacks]
    target = await new_target([webhook(f"{receiver.url}/held"), webhook(f"{receiver.url}/next", "next")])
    other = await new_target([transform("end", "'done'")])
    async with running(open_settings) as api, at_work() as notifier:
        [run_id] = await accept(database, target)
        notifier.notify(runs.QUEUED_CHANNEL)
        await requested(receiver, 1)
        async with database.connection() as connection:
            await connection.execute(f"alter {what} rename to {gone}".encode())
            try:
                [another] = await accept(database, other)
                receiver.open.set()
                notifier.notify(runs.QUEUED_CHANNEL)
                await until(lambda: halted(api, 1))
                assert await setbacks.count_aside(connection) == 0
            finally:
                await connection.execute(f"alter {what_is_gone} rename to {name}".encode())
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        assert (await ended(database, notifier, other.account_id, another)).output == "done"
        # The next that comes is the one that it tries.
        [tried] = await accept(database, other)
        assert (await ended(database, notifier, other.account_id, tried)).output == "done"
        await until(lambda: halted(api, 0))
    assert receiver.paths == ["/held", "/next"]
