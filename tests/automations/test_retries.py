"""Attempts that fail: which are repeated, after how long, and what a `Retry-After` has to say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate
from typing import Any

import pytest
from aiohttp import web

from database import Database
from engine.calls import AttemptResult
from execution.redaction import Redaction
from execution.webhook_step import Secrets, WebhookCall, send
from language.expressions import JSON
from language.steps import Retry, WebhookStep
from language.webhook_requests import RequestTemplates
from models.identifiers import new_id
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from outbound.client import Outbound
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Run,
    accept,
    cancel,
    ended,
    waiting,
    webhook,
)


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        ({}, [1, 2, 4, 8, 16, 32, 60, 60, 60]),
        ({"initial_seconds": 0.5}, [0.5, 1, 2, 4]),
        ({"initial_seconds": 10, "backoff": 1}, [10, 10, 10]),
        ({"initial_seconds": 1, "backoff": 10, "max_seconds": 3600}, [1, 10, 100, 1000, 3600, 3600]),
        ({"initial_seconds": 90}, [60, 60]),
    ],
    ids=["by default", "half a second", "always the same", "tenfold", "beyond the cap at once"],
)
def test_the_pauses_between_attempts_grow_up_to_their_cap(retry: dict[str, Any], delays: list[float]) -> None:
    asked = Retry.model_validate(retry)
    assert [asked.delay(failed) for failed in range(1, len(delays) + 1)] == delays


async def sent(settings: Settings, url: str, **config: Any) -> AttemptResult:
    """Return what one attempt comes to."""
    step = WebhookStep.model_validate(webhook(url, body="x", **config))
    nothing = Secrets({}, Redaction([]))
    async with Outbound(settings) as outbound:
        call = WebhookCall("call", new_id(), step, RequestTemplates(step.config), {}, nothing)
        return await send(outbound, call, outbound.memory.reservation(), first, keep)


async def first() -> int:
    return 1


async def keep(_redaction: Redaction, value: JSON, _size: int) -> JSON:
    return value


DONE, REPEATED, FINAL = "done", "repeated", "final"
STATUSES = {
    **dict.fromkeys([200, 201, 202, 204, 226], DONE),
    **dict.fromkeys([408, 425, 429, 500, 501, 502, 503, 504, 507, 511, 599], REPEATED),
    **dict.fromkeys([300, 302, 304, 400, 401, 403, 404, 405, 407, 409, 410, 418, 422, 424, 426, 451], FINAL),
}


@pytest.mark.parametrize("status", STATUSES)
async def test_a_status_tells_whether_a_call_is_repeated(
    open_settings: Settings, receiver: Endpoint, status: int
) -> None:
    receiver.answer = lambda request: web.Response(status=status)
    outcome = await sent(open_settings, receiver.url)
    code = outcome.error.code if outcome.error else None
    expected = (None, False) if STATUSES[status] == DONE else ("http_status", STATUSES[status] == REPEATED)
    assert (code, outcome.retryable) == expected and len(receiver.requests) == 1


FAULTS: dict[str, tuple[str, dict[str, Any], str, bool]] = {
    "nobody listens": ("http://127.0.0.1:9999/", {}, "connect_failed", True),
    "no answer in time": ("{url}/held", {"timeout": 0.05}, "timeout", True),
    "an address of the network": ("http://169.254.169.254/", {}, "forbidden_address", False),
    "a header of the connection": ("{url}/", {"headers": {"Host": "x"}}, "forbidden_header", False),
    "no URL": ("ftp://example.com/", {}, "invalid_request", False),
    "too much": ("{url}/much", {}, "too_large", False),
    "redirects without end": ("{url}/again", {"follow_redirects": True}, "too_many_redirects", False),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_network_is_repeated_and_one_of_the_call_is_not(
    open_settings: Settings, receiver: Endpoint, fault: str
) -> None:
    def answer(request: dict[str, Any]) -> web.Response:
        if request["path"] == "/again":
            return web.Response(status=307, headers={"Location": "/again"})
        return web.Response(body=b"x" * 2_000_000)

    receiver.answer = answer
    url, config, code, repeated = FAULTS[fault]
    outcome = await sent(open_settings, url.format(url=receiver.url), **config)
    assert outcome.error is not None and (outcome.error.code, outcome.retryable) == (code, repeated)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        (None, 0, 0),
        ("0", 0, 0),
        ("7", 7, 7),
        (" 7 ", 7, 7),
        ("99999999999", 3600, 3600),
        ("-5", 0, 0),
        ("1.5", 0, 0),
        ("soon", 0, 0),
        (formatdate(0, usegmt=True), 0, 0),
        (timedelta(minutes=30), 600, 1800),
        (timedelta(hours=2), 3600, 3600),
    ],
    ids=[
        "none", "zero", "seconds", "spaces", "ages", "negative", "a fraction", "words", "a past date",
        "a date in half an hour", "a date in two hours",
    ],
)  # fmt: skip
async def test_an_answer_may_say_when_to_call_again_up_to_an_hour(
    open_settings: Settings, receiver: Endpoint, header: str | timedelta | None, least: float, most: float
) -> None:
    if isinstance(header, timedelta):
        header = format_datetime(datetime.now(UTC) + header, usegmt=True)
    headers = {} if header is None else {"Retry-After": header}
    receiver.answer = lambda request: web.Response(status=429, headers=headers)
    assert least <= (await sent(open_settings, receiver.url)).retry_after <= most


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize(
    ("header", "initial_seconds", "pause"),
    [("30", 0.01, 30), ("2", 40, 40), ("0", 50, 50)],
    ids=["later than planned", "sooner than planned", "at once"],
)
async def test_a_step_pauses_as_long_as_the_answer_asks_and_never_shorter_than_planned(
    notifier: Notifier,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    header: str,
    initial_seconds: float,
    pause: float,
) -> None:
    receiver.answer = lambda request: web.Response(status=429, headers={"Retry-After": header})
    target = await new_target([webhook(receiver.url) | {"retry": {"initial_seconds": initial_seconds}}])
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    [step] = (await waiting(database, target.account_id, run_id)).steps
    assert step.started_at is not None
    asked = datetime.fromisoformat(step.output["until"]) - step.started_at
    assert asked.total_seconds() == pytest.approx(pause, abs=5)
    await cancel(database, notifier, target.account_id, run_id)
    assert (await ended(database, notifier, target.account_id, run_id)).status == "cancelled"
    assert len(receiver.requests) == 1


@pytest.mark.executions("shift", "workflow")
async def test_a_pause_that_passes_the_steps_timeout_is_not_begun(run: Run, receiver: Endpoint) -> None:
    receiver.answer = lambda request: web.Response(status=503, headers={"Retry-After": "30"})
    view = await run([webhook(receiver.url) | {"timeout": 20}])
    assert view.status == "failed" and view.error is not None
    assert (view.error["code"], view.error["attempt"], len(receiver.requests)) == ("http_status", 1, 1)
