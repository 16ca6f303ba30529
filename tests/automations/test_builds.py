"""What fails for a day and with two builds has failed; builds without a name are told apart by their code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import worker
from database import Database
from execution.build import name_build
from models.priorities import ALONE
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
from tests.automations.setbacks import begun_with, row_of

CODE = Path(worker.__file__).parent


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Our code, in another folder, with another driver."""
    for name in ("activities", "engine", "models"):
        shutil.copytree(CODE / name, tmp_path / name)
    with (tmp_path / "engine" / "driver.py").open("a") as file:
        file.write("# mended\n")
    return tmp_path


def test_a_build_has_the_same_name_wherever_it_is_and_another_when_its_code_changes(
    changed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "code"
    shutil.copytree(changed, elsewhere)
    assert name_build(elsewhere) == name_build(changed)
    (elsewhere / "engine" / "driver.py").write_text("")
    assert name_build(elsewhere) != name_build(changed)


async def test_a_run_fails_when_two_builds_without_a_name_have_failed_with_it_for_a_day(
    at_work: Work, database: Database, new_target: NewTarget, changed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = await new_target([transform("out", "trigger")])
    [run_id] = await accept(database, target)
    await begun_with(database, run_id, 5)
    for times in (1, 2):
        async with at_work():

            async def is_set_aside(times: int = times) -> bool:
                found = (await row_of(database, run_id))["setbacks"]
                return found is not None and found["times"] == times

            await until(is_set_aside)
        async with database.connection() as connection:
            await connection.execute(
                "update run_work set available_at = now(),"
                " setbacks = jsonb_set(setbacks::jsonb, '{since}', to_jsonb(now() - interval '25 hours'))"
                " where run_id = %s",
                (run_id,),
            )
    monkeypatch.setattr(worker, "name_build", lambda _: name_build(changed))  # pyright: ignore
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.error is not None and view.error["code"] == "engine_error"


@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_that_goes_alone_notes_its_build_and_fails_when_a_day_and_two_builds_have_lost_workers(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(f"{receiver.url}/held"), transform("out", "'done'")])
    run_ids = await accept(database, target, 2)
    async with database.connection() as connection:
        await connection.execute("update run_work set lost = 2, priority = priority + %s", (ALONE,))
        await connection.execute(
            "update run_work set setbacks = json_build_object('since', now() - interval '25 hours',"
            " 'times', 30, 'builds', array['a', 'b']), available_at = now() - interval '1 second'"
            " where run_id = %s",
            (run_ids[1],),
        )
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_ids[1], 120)
        assert view.error is not None and view.error["code"] == "engine_error"
        await requested(receiver, 1)
        async with database.connection() as connection:
            cursor = await connection.execute("select setbacks from run_work")
            [row] = await cursor.fetchall()
        assert (row["setbacks"]["times"], row["setbacks"]["builds"]) == (1, [name_build(CODE)])
        receiver.open.set()
        assert (await ended(database, notifier, target.account_id, run_ids[0])).output == "done"
    assert len(receiver.requests) == 1
