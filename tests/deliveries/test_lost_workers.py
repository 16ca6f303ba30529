"""Workers that are killed, stopped or overtaken: what is sent again is told by its id, and recorded once."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from temporalio import activity
from temporalio.worker import ExecuteActivityInput

import worker
from models.webhooks.delivery_work import Delivery
from models.webhooks.delivery_writes import Attempt
from outbound.client import Outbound
from outbound.lease import LeaseLost
from sealing import Keyring
from services import delivery_attempts
from settings import Settings
from tests.automations.engine import Endpoint, Work, hasty_worker, requested, send_signal, until
from tests.automations.faults import Do, Lost
from tests.deliveries.receivers import Hooks, recorded, times
from tests.stacks import eventually
from workflows.messages import SEND_DELIVERIES

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("short_periods")]
NewHooks = Callable[[], Awaitable[Hooks]]


DEATHS = {
    "models.webhooks.delivery_work:claim": {0},
    "temporal.starts:start_deliveries": {0, 1},
    "services.delivery_attempts:attempt": {1},
    "models.webhooks.delivery_writes:record_attempts_if_leased": {1},
    "models.webhooks.delivery_work:get_batch_state": {1},
}
"""After what a worker dies, and how often each message can have been sent until then."""


@pytest.mark.parametrize("after", DEATHS)
async def test_a_worker_that_dies_leaves_its_deliveries_to_the_next(
    quick_settings: Settings, at_work: Work, hooks: Hooks, receiver: Endpoint, after: str
) -> None:
    await hooks.endpoint(receiver.url)
    [event_id] = await hooks.emit()
    with hasty_worker(quick_settings, after) as dying:
        await eventually(lambda: dying.exitcode is not None, 20, "the worker has died")
        assert dying.exitcode == -signal.SIGKILL
    before = len(receiver.requests)
    assert before in DEATHS[after]
    kept = await recorded(hooks)
    assert kept == {("delivered", 1, 1) if after.endswith(":get_batch_state") else ("pending", 0, 0)}
    async with at_work():
        await hooks.settled()
    assert await recorded(hooks) == {("delivered", 1, 1)}
    assert times(receiver) == {str(event_id): before + (kept != await recorded(hooks))}


async def test_a_delivery_whose_worker_may_not_begin_it_is_sent_by_the_next_attempt_of_its_activity(
    at_work: Work, hooks: Hooks, receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = delivery_attempts.attempt, list[object]()

    async def attempt(outbound: Outbound, keyring: Keyring, delivery: Delivery) -> Attempt:
        if not lost:
            lost.append(delivery)
            raise LeaseLost
        return await real(outbound, keyring, delivery)

    monkeypatch.setattr(delivery_attempts, "attempt", attempt)
    await hooks.endpoint(receiver.url)
    await hooks.emit(2)
    async with at_work():
        await hooks.settled()
    assert len(lost) == 1 and set(times(receiver).values()) == {1}
    assert await recorded(hooks) == {("delivered", 1, 1)}


async def test_a_killed_worker_repeats_only_what_it_had_not_recorded(
    quick_settings: Settings, new_hooks: NewHooks, receiver: Endpoint
) -> None:
    quick, held = await new_hooks(), await new_hooks()
    await quick.endpoint(f"{receiver.url}/quick")
    await held.endpoint(f"{receiver.url}/held")
    await quick.emit(40)
    await held.emit(5)
    with hasty_worker(quick_settings) as killed:
        await requested(receiver, 45)
        await quick.settled()
        killed.kill()
    receiver.open.set()
    with hasty_worker(quick_settings):
        await held.settled()
    assert await recorded(quick) == await recorded(held) == {("delivered", 1, 1)}
    assert len(times(receiver)) == 45
    assert Counter(receiver.paths) == {"/quick": 40, "/held": 10}


async def test_a_worker_that_is_stopped_brings_to_an_end_what_it_has_sent(
    quick_settings: Settings, hooks: Hooks, receiver: Endpoint
) -> None:
    await hooks.endpoint(f"{receiver.url}/held")
    with hasty_worker(quick_settings) as stopped:
        await hooks.emit(20)
        await requested(receiver, 20)
        send_signal(stopped, signal.SIGTERM)
        receiver.open.set()
        await eventually(lambda: stopped.exitcode is not None, 20, "the worker has ended")
    assert stopped.exitcode == 0
    assert await recorded(hooks) == {("delivered", 1, 1)}
    assert set(times(receiver).values()) == {1}


async def test_what_is_not_answered_until_a_worker_has_to_stop_is_sent_again_by_the_next(
    at_work: Work, hooks: Hooks, receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_GRACE", timedelta(seconds=0.5))
    await hooks.endpoint(f"{receiver.url}/held")
    async with at_work():
        await hooks.emit(20)
        await requested(receiver, 20)
    assert await recorded(hooks) == {("pending", 0, 0)}
    receiver.open.set()
    async with at_work():
        await hooks.settled()
    assert await recorded(hooks) == {("delivered", 1, 1)}
    assert len(times(receiver)) == 20 and set(times(receiver).values()) == {2}


async def test_an_attempt_at_the_activity_that_was_overtaken_records_nothing(
    at_work: Work, hooks: Hooks, receiver: Endpoint
) -> None:
    left = list[asyncio.Future[Any]]()

    async def lose(input: ExecuteActivityInput, do: Do) -> Any:
        if input.fn.__name__ != SEND_DELIVERIES or activity.info().attempt > 1:
            return await do()
        # It is at it, as nobody knows any more.
        left.append(asyncio.ensure_future(do()))
        await requested(receiver, 1)
        raise Lost

    async def answer(request: web.Request) -> web.Response:
        number = len(receiver.requests)
        await (receiver.open.wait() if number == 1 else until(overtaken))
        return web.Response(status=500 if number == 1 else 200, text=str(number))

    async def overtaken() -> bool:
        return left[0].done()

    receiver.handler = answer
    await hooks.endpoint(receiver.url)
    await hooks.emit()
    async with at_work(lose):
        await requested(receiver, 2)
        receiver.open.set()
        await hooks.settled()
    assert [(one["number"], one["response_body"]) for one in await hooks.attempts()] == [(1, "2")]
    assert await recorded(hooks) == {("delivered", 1, 1)}
