"""Results that are told beside the ends of runs, so that whoever waits need not read them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from database import Connection, Database
from language.records import StepError, StepRecord
from models.identifiers import new_id
from models.runs import run_results, runs
from models.runs.run_results import Result
from models.runs.run_views import RunView
from models.runs.run_writes import Change, End
from models.views import StoredJson
from services.run_waiter import RunWaiter
from tests.api_server import Api, Person
from tests.automations.engine import Work, transform
from tests.automations.workflows import create, post

ENDED = End("completed", output_of="last", waited_version=1)
NOW = datetime(2026, 11, 24, tzinfo=UTC)


def record(step_id: str, output: Any, item: int | None = None) -> StepRecord:
    return StepRecord(
        run_id=UUID(int=1), step_id=step_id, position=0, status="completed", started_at=NOW, completed_at=NOW,
        item=item, output=output,
    )  # fmt: skip


def ended(output: Any, **end: Any) -> Change:
    records = [record("first", 1), record("last", output)]
    return Change(new_id(), UUID(int=1), records, replace(ENDED, **end))


@pytest.mark.parametrize("output", [None, 0, "", "\x00ä\N{PILE OF POO}'\"", {"a": [1.5, None]}, "x" * 3_000])
def test_a_result_is_read_as_it_was_written(output: Any) -> None:
    [payload] = run_results.write_payloads([ended(output)])
    [result] = run_results.read_payload(payload)
    stored = ended(output).records[1]
    assert (result.run_id, result.version) == (UUID(int=1), 1)
    assert result.output == (None if stored.output is None else StoredJson(orjson.dumps(output)))


@pytest.mark.parametrize(
    "change",
    [
        ended(1, waited_version=None),
        ended(1, status="failed", error=StepError(code="c", message="m")),
        ended("x" * 5_000),
        ended("\x00" * 1_000),
        Change(new_id(), UUID(int=1), [record("first", 1)], ENDED),
        Change(new_id(), UUID(int=1), [record("last", 1, item=0)], ENDED),
        Change(new_id(), UUID(int=1), [record("first", 1)]),
    ],
    ids=["nobody waits", "failed", "large", "large when escaped", "stored before", "of items", "no end"],
)  # fmt: skip
def test_what_is_not_told_is_read(change: Change) -> None:
    assert list(run_results.write_payloads([change])) == []


def test_each_payload_is_small_enough_for_a_notification() -> None:
    payloads = list(run_results.write_payloads([ended("ä" * size) for size in range(0, 1_900, 10)]))
    assert max(len(payload.encode()) for payload in payloads) < 8_000
    assert sum(len(run_results.read_payload(payload)) for payload in payloads) == 190


async def test_an_event_that_is_waited_for_is_answered_without_reading_its_run(
    api: Api, person: Person, at_work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[UUID] = []
    real = runs.get_ended

    async def counted(connection: Connection, run_ids: list[UUID]) -> dict[UUID, RunView]:
        read.extend(run_ids)
        return await real(connection, run_ids)

    monkeypatch.setattr(runs, "get_ended", counted)
    made = await create(person, steps=[transform("end", "trigger.n")])
    large = await create(person, steps=[transform("end", "trigger.text")])
    async with at_work():
        answers = [await post(api, made["webhook_url"] + "?wait=30", json={"n": n}) for n in range(3)]
        whole = await post(api, large["webhook_url"] + "?wait=30", json={"text": "x" * 9_000})
    assert [(one.status_code, one.json()["output"], one.json()["error"]) for one in answers] == [
        (200, n, None) for n in range(3)
    ]
    assert len(whole.json()["output"]) == 9_000
    assert read == [UUID(whole.json()["run_id"])]


async def test_a_result_of_another_version_is_not_taken(database: Database) -> None:
    waiter, run_id = RunWaiter(database), new_id()
    waiter.store_results(orjson.dumps([[run_id, 1, "7"]]).decode())
    assert await waiter.wait_for_result(run_id, 5, new=True, version=1) == Result(run_id, 1, StoredJson("7"))
    assert await waiter.wait_for_result(run_id, 0.1, new=True, version=2) is None
