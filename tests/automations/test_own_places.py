"""Which runs get workflows of their own, and what becomes of one that is lost on its way or at work."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities import own_runs as own_activities
from database import Database
from dispatch import runs
from dispatch.runs import Dispatcher
from embedded.temporal import Temporal
from execution import hand_over
from execution.executor import Executor
from execution.workflow_watch import WorkflowWatch
from models.runs import acceptance, own_runs
from models.runs.claim_order import KEPT
from models.runs.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from temporal import starts
from temporal.client import TASK_QUEUE, connect
from tests.api_server import Api, Person
from tests.automations.claims import claimed
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    events_of,
    hasty_worker,
    requested,
    run_workflow,
    seen,
    transform,
    until,
    waiting,
    webhook,
    working,
)
from tests.automations.own_runs import delay, performers
from tests.automations.workflows import create, post
from tests.stacks import free_port
from workflows.messages import OwnRun

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nothing_waits")]


async def test_a_run_for_whose_answer_somebody_waits_goes_by_shift(
    api: Api, person: Person, at_work: Work, database: Database, receiver: Endpoint
) -> None:
    made = await create(person, steps=[webhook(receiver.url), transform("end", "call.status")])
    async with at_work() as notifier:
        answer = await post(api, made["webhook_url"] + "?wait=30", json={})
        assert (answer.status_code, answer.json()["output"]) == (200, 200)
        posted = await post(api, made["webhook_url"], json={})
        await ended(database, notifier, person.account.id, UUID(posted.json()["run_id"]))
    by = [await performers(database, UUID(one.json()["run_id"])) for one in (answer, posted)]
    assert by == [{"call": "shift", "end": "shift"}, {"call": "activity", "end": "activity"}]


async def test_of_more_runs_than_there_are_places_for_the_others_go_by_shift(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(f"{receiver.url}/held"), transform("end", "call.status")])
    run_ids = await accept(database, target, 40)
    async with at_work() as notifier:
        await requested(receiver, 40)
        receiver.open.set()
        views = [await ended(database, notifier, target.account_id, run_id) for run_id in run_ids]
    assert {(view.status, view.output) for view in views} == {("completed", 200)}
    by = Counter([(await performers(database, run_id))["call"] for run_id in run_ids])
    assert by == {"activity": hand_over._PLACES, "shift": 40 - hand_over._PLACES}
    assert len(receiver.requests) == 40


@pytest.mark.parametrize("room", [KEPT, 0, -1])
async def test_a_run_that_needs_its_own_workflow_needs_no_room_in_the_shift(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Else slow calls of other runs would stop it, while places are free and Temporal has nothing to do."""
    monkeypatch.setattr(Executor, "room", property(lambda _: room))
    target = await new_target([transform("end", "'done'")], execution="workflow")
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"


async def test_an_accounts_runs_in_the_shift_do_not_count_as_runs_in_places(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    most = 2
    monkeypatch.setattr(runs, "ACCOUNT_WINDOW", most)
    slow = await new_target([webhook(f"{receiver.url}/held")], execution="shift")
    await accept(database, slow, most)
    async with at_work() as notifier:
        await requested(receiver, most)
        target = await new_target([transform("end", "'done'")], slow.account_id, execution="workflow")
        [run_id] = await accept(database, target)
        notifier.notify(QUEUED_CHANNEL)
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
        receiver.open.set()


@pytest.mark.parametrize("calls", [1, 8])
async def test_a_burst_of_calls_goes_by_shifts_alone(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, calls: int
) -> None:
    steps = [webhook(receiver.url, f"call{number}") for number in range(calls)]
    target = await new_target([*steps, transform("end", "call0.status")])
    run_ids = await accept(database, target, hand_over._BURST // calls + 1)
    async with at_work() as notifier:
        for run_id in run_ids:
            await ended(database, notifier, target.account_id, run_id)
    by = Counter([(await performers(database, run_id))["call0"] for run_id in run_ids])
    assert by == {"shift": len(run_ids)}


async def test_a_run_of_many_calls_is_no_burst_by_itself(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url, f"call{n}") for n in range(hand_over._BURST + 1)])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        await ended(database, notifier, target.account_id, run_id)
    assert {*(await performers(database, run_id)).values()} == {"activity"}


async def test_a_place_is_used_again_only_when_it_has_rested(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hand_over, "_REST_SECONDS", 3600.0)
    target = await new_target([webhook(receiver.url), transform("end", "call.status")])
    by = Counter[str]()
    async with at_work() as notifier:
        for _ in range(hand_over._PLACES + 2):
            [run_id] = await accept(database, target)
            notifier.notify(QUEUED_CHANNEL)
            await ended(database, notifier, target.account_id, run_id)
            by[(await performers(database, run_id))["call"]] += 1
    assert by == {"activity": hand_over._PLACES, "shift": 2}


@asynccontextmanager
async def away_after_a_while(settings: Settings) -> AsyncGenerator[tuple[Settings, asyncio.Event]]:
    """Settings with a way to the server that is cut once the event is set."""
    host, _, port = str(settings.temporal_address).rpartition(":")
    cut, ways = asyncio.Event(), set[asyncio.StreamWriter]()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ways.add(writer)
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if cut.is_set():
            writer.close()
            return
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    async def cut_all() -> None:
        await cut.wait()
        for way in ways:
            way.close()

    own = free_port()
    server = await asyncio.start_server(forward, "127.0.0.1", own)
    cutting = asyncio.create_task(cut_all())
    yield settings.model_copy(update={"temporal_address": f"127.0.0.1:{own}"}), cut
    cutting.cancel()
    server.close()


async def test_runs_go_by_shift_while_temporal_is_away(
    open_settings: Settings, database: Database, keyring: Keyring, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url)])
    async with away_after_a_while(open_settings) as (settings, cut):
        client = await connect(settings, keyring)
        async with working(settings, client, database, keyring) as notifier:
            [first] = await accept(database, target)
            assert (await ended(database, notifier, target.account_id, first)).status == "completed"
            cut.set()
            [second] = await accept(database, target)
            # Whoever posts it notices little: the worker gives the server a second.
            assert (await ended(database, notifier, target.account_id, second, 5)).status == "completed"
            # The worker's own polls would wait for a server that does not come back.
            cut.clear()
    by = [await performers(database, run_id) for run_id in (first, second)]
    assert by == [{"call": "activity"}, {"call": "shift"}]
    assert len(receiver.requests) == 2


async def test_a_wait_that_temporal_does_not_end_goes_on_without_asking_it(
    temporal_server: Temporal,
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is late already would be later by as long as Temporal may take to answer."""
    asked: list[UUID] = []

    async def start_run(_: Client, run: OwnRun, __: object) -> None:
        asked.append(run.run_id)
        raise TimeoutError

    target = await new_target([delay(4), webhook(receiver.url)])
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        await waiting(database, target.account_id, run_id)
        async with database.connection() as connection:
            assert [seen.run_id for seen in await own_runs.find_all(connection, UUID(int=0), 10)] == [run_id]
        pid = temporal_server.child.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(starts, "start_run", start_run)
        try:
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        finally:
            os.kill(pid, signal.SIGCONT)
    assert not asked
    assert await performers(database, run_id) == {"wait": "shift", "call": "shift"}


async def test_a_hand_over_that_nothing_takes_up_is_queued_and_done(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """As of a worker that dies after it has handed a run over, and before Temporal hears of it."""
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    [run] = await claimed(database)
    async with database.connection() as connection:
        assert await own_runs.hand_over(connection, {run_id: run.claim_id}) == {run_id: True}
        assert await own_runs.find_untaken(connection) == {}
        await connection.execute(
            "update run_work set handed_at = handed_at - make_interval(secs => %s) where run_id = %s",
            (own_runs.UNTAKEN_SECONDS, run_id),
        )
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert len(receiver.requests) == 1
    # Whatever was wrong may be so still.
    assert await performers(database, run_id) == {"call": "shift"}


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_a_run_whose_workflow_was_ended_before_a_worker_took_it_up(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint, how: str
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    [run] = await claimed(database)
    async with database.connection() as connection:
        await own_runs.hand_over(connection, {run_id: run.claim_id}, always=True)
        handle = await client.start_workflow(
            "AutomationRun", OwnRun(run_id, run.claim_id), id=f"run/{run_id}", task_queue=TASK_QUEUE
        )
        await getattr(handle, how)()
        await connection.execute("update run_work set handed_at = now() - interval '1 minute'")
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, receiver.paths) == ("cancelled", [])


@pytest.mark.usefixtures("short_periods")
async def test_a_call_that_was_lost_with_its_worker_is_made_again_under_its_id(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring, new_target: NewTarget,
    receiver: Endpoint,
) -> None:  # fmt: skip
    steps = [
        webhook(f"{receiver.url}/one", "one"),
        webhook(f"{receiver.url}/held", "two"),
        transform("end", "'done'"),
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    with hasty_worker(open_settings) as killed:
        await requested(receiver, 2)
        handle = await run_workflow(client, run_id)
        killed.kill()
    receiver.open.set()
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id, 60)
        assert (view.status, view.output) == ("completed", "done")
        assert await handle.result() == "completed"
    assert receiver.paths == ["/one", "/held", "/held"]
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 2
    started = [
        event.activity_task_started_event_attributes
        for event in await events_of(handle, "activity_task_started")
    ]
    assert [one.attempt for one in started] == [1, 2]
    assert set((await performers(database, run_id)).values()) == {"activity"}


async def test_runs_that_are_to_have_workflows_wait_for_places(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Also those of several workflows and accounts, which come with several claims."""
    steps = [webhook(receiver.url), transform("end", "call.status")]
    targets = [await new_target(steps, execution="workflow") for _ in range(4)]
    runs = [(target, run_id) for target in targets for run_id in await accept(database, target, 10)]
    async with at_work() as notifier:
        views = [await ended(database, notifier, target.account_id, run_id) for target, run_id in runs]
    assert {(view.status, view.output) for view in views} == {("completed", 200)}
    by = Counter([(await performers(database, run_id))["call"] for _, run_id in runs])
    assert by == {"activity": 40}


async def test_an_account_whose_calls_hold_all_places_stops_no_other(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    greedy = await new_target([webhook(f"{receiver.url}/held")], execution="workflow")
    modest = [await new_target([webhook(receiver.url)], execution="workflow") for _ in range(3)]
    greedy_ids = await accept(database, greedy, hand_over._PLACES + 4)
    async with at_work() as notifier:
        await requested(receiver, hand_over._PLACES)
        modest_runs = [(target, run_id) for target in modest for run_id in await accept(database, target, 3)]
        notifier.notify(QUEUED_CHANNEL)
        views = [await ended(database, notifier, target.account_id, run_id) for target, run_id in modest_runs]
        assert Counter(receiver.paths) == {"/held": hand_over._PLACES, "/": len(modest_runs)}
        receiver.open.set()
        views += [await ended(database, notifier, greedy.account_id, run_id) for run_id in greedy_ids]
    assert {view.status for view in views} == {"completed"}
    by = [await performers(database, run_id) for _, run_id in modest_runs]
    assert by == [{"call": "activity"}] * len(modest_runs)


async def test_a_place_that_comes_free_is_used_at_once(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when the worker looks by itself, which is once here."""
    monkeypatch.setattr(Dispatcher, "sweep_seconds", 3600.0)
    target = await new_target([transform("end", "trigger")], execution="workflow")
    run_ids = await accept(database, target, 3 * hand_over._PLACES)
    async with at_work():
        for run_id in run_ids:
            await seen(database, target.account_id, run_id, lambda view: view.status == "completed")


async def test_a_run_that_has_waited_long_for_a_place_is_found_beside_others_of_its_account(
    at_work: Work, database: Database, new_target: NewTarget
) -> None:
    """What shifts have claimed says nothing of those."""
    target = await new_target([transform("end", "trigger")], execution="shift")
    waits = await new_target([transform("end", "trigger")], target.account_id, execution="workflow")
    async with at_work() as notifier:
        for _ in range(2):
            [run_id] = await accept(database, target)
            await ended(database, notifier, target.account_id, run_id)
        async with database.transaction() as connection:
            [accepted] = await acceptance.accept(connection, [acceptance.RunRequest(waits, "webhook", {})])
            await connection.execute(
                "update run_work set available_at = now() - interval '5 minutes' where run_id = %s",
                (accepted.run_id,),
            )
        await ended(database, notifier, target.account_id, accepted.run_id)


async def test_runs_that_are_to_have_workflows_get_them_from_a_server_that_is_slow(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts each, and answers later than it has time at first."""
    start_run = starts.start_run

    async def start_late(client: Client, run: OwnRun, labels: starts.RunLabels) -> None:
        await start_run(client, run, labels)
        await asyncio.sleep(0.3)

    monkeypatch.setattr(hand_over, "_START_SECONDS", 0.1)
    monkeypatch.setattr(hand_over, "_BREAK_SECONDS", 0.1)
    monkeypatch.setattr(starts, "start_run", start_late)
    target = await new_target([transform("end", "'done'")], execution="workflow")
    run_ids = await accept(database, target, 3)
    async with at_work() as notifier:
        for run_id in run_ids:
            assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
            assert await performers(database, run_id) == {"end": "activity"}


async def test_a_run_that_only_a_workflow_is_to_have_is_handed_over_again_when_nothing_took_it_up(
    at_work: Work, database: Database, new_target: NewTarget
) -> None:
    target = await new_target([transform("end", "'done'")], execution="workflow")
    [run_id] = await accept(database, target)
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set status = 'running', carrier = %s, claim_id = gen_random_uuid(),"
            " begun = true, handed_at = now() - make_interval(secs => %s) where run_id = %s",
            (own_runs.WORKFLOW, own_runs.UNTAKEN_SECONDS, run_id),
        )
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    assert await performers(database, run_id) == {"end": "activity"}


async def test_a_run_that_only_a_workflow_is_to_have_waits_for_temporal(
    open_settings: Settings, database: Database, keyring: Keyring, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url)], execution="workflow")
    async with away_after_a_while(open_settings) as (settings, cut):
        client = await connect(settings, keyring)
        async with working(settings, client, database, keyring) as notifier:
            [first] = await accept(database, target)
            assert (await ended(database, notifier, target.account_id, first)).status == "completed"
            cut.set()
            [second] = await accept(database, target)

            async def is_put_back() -> bool:
                async with database.connection() as connection:
                    cursor = await connection.execute(
                        "select begun and status = 'queued' and own as back from run_work where run_id = %s",
                        (second,),
                    )
                    row = await cursor.fetchone()
                return bool(row and row["back"])

            await until(is_put_back)
            cut.clear()
            assert (await ended(database, notifier, target.account_id, second, 60)).status == "completed"
    assert [await performers(database, run_id) for run_id in (first, second)] == [{"call": "activity"}] * 2


@pytest.mark.usefixtures("short_periods")
async def test_a_run_that_has_cost_two_workers_goes_alone_by_shift(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring, new_target: NewTarget,
    receiver: Endpoint,
) -> None:  # fmt: skip
    target = await new_target([webhook(f"{receiver.url}/held"), transform("end", "'done'")])
    [run_id] = await accept(database, target)
    for lost in (1, 2):
        with hasty_worker(open_settings) as killed:
            await requested(receiver, lost)
            killed.kill()
    receiver.open.set()
    async with working(open_settings, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id, 60)
    assert (view.status, view.output) == ("completed", "done")
    assert await performers(database, run_id) == {"call": "shift", "end": "shift"}
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 1


async def test_a_workflow_whose_run_a_shift_carries_is_told_to_leave(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Here since there is no place for it when its wait is over. Nobody has to compare for that."""

    async def compare(_: WorkflowWatch) -> None:
        return

    monkeypatch.setattr(WorkflowWatch, "compare", compare)
    monkeypatch.setattr(hand_over, "_REST_SECONDS", 0.0)
    monkeypatch.setattr(hand_over, "_PLACES", 1)
    target = await new_target([delay(4), webhook(receiver.url)])
    another = await new_target([webhook(f"{receiver.url}/held")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        handle = await run_workflow(client, run_id)
        await until(lambda: events_of(handle, "timer_started"))
        await accept(database, another)
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        async with asyncio.timeout(20):
            assert await handle.result() in ("by_shift", "completed")
        receiver.open.set()
    assert (await performers(database, run_id))["call"] == "shift"


async def test_an_activity_that_ended_by_itself_has_cost_no_worker(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As while no beat of the process has succeeded lately: Temporal tries again."""
    tries: list[int] = []

    def check(_: own_activities.OwnRunActivities) -> None:
        tries.append(1)
        if len(tries) < 4:
            raise ApplicationError("no beat", type="no_beat")

    monkeypatch.setattr(own_activities.OwnRunActivities, "_check_lives", check)
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert await performers(database, run_id) == {"call": "activity"}
    assert (len(tries), len(receiver.requests)) == (4, 1)
