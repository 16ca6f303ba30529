"""A run belongs to the trace of its request: in its calls, its deliveries, its logs, and as spans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

import telemetry
import tracing
from execution import attempts
from notifications import Notifier
from services import delivery_attempts
from tests.api_server import Api
from tests.automations.collector import Collector, attributes_of, collecting
from tests.automations.engine import Endpoint, Run, requested, transform, until, webhook
from tests.runs.workflows import create
from tracing import span_id_of

EXECUTIONS = ("shift", "workflow")
TRACE_ID, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{CALLER}-01"
SECRET = "never-in-a-span"


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Collector]:
    """Spans are exported to it."""
    async with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        telemetry.start()
        yield collector
        await asyncio.to_thread(telemetry.stop)


def parent_of(request: dict[str, Any]) -> tuple[str, str]:
    """The trace and the span that a request names."""
    _, trace_id, span_id, _ = request["headers"]["traceparent"].split("-")
    return trace_id, span_id


async def test_what_came_with_the_request_goes_on_with_calls_and_deliveries_and_into_the_logs(
    api: Api, notifier: Notifier, receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []

    def noting(function: Any) -> Any:
        async def noted(*arguments: Any, **options: Any) -> Any:
            lines.append(dict(tracing.add_to_log(None, "", {"event": function.__name__})))
            return await function(*arguments, **options)

        return noted

    monkeypatch.setattr(attempts, "send", noting(attempts.send))
    monkeypatch.setattr(delivery_attempts, "attempt", noting(delivery_attempts.attempt))
    person = await api.person()
    made = await person.session.post(
        "/api/webhooks", json={"url": f"{receiver.url}/hook", "events": ["workflow.run.completed"]}
    )
    assert made.status_code == 201, made.text
    workflow = await create(person, [webhook(f"{receiver.url}/step")])
    headers = {"traceparent": TRACEPARENT, "x-request-id": "request-of-mine"}
    started = await person.key.post(f"/api/workflows/{workflow}/run", json={}, headers=headers)
    await requested(receiver, 2)
    assert [one["headers"].get("traceparent") for one in receiver.requests] == [TRACEPARENT] * 2
    ids = {"run_id": started.json()["run_id"], "request_id": "request-of-mine", "trace_id": TRACE_ID}
    assert lines == [{"event": "send", **ids}, {"event": "attempt", **ids}]


async def test_nothing_is_sent_on_where_nobody_traces(
    api: Api, notifier: Notifier, receiver: Endpoint
) -> None:
    person = await api.person()
    workflow = await create(person, [webhook(receiver.url)])
    wrong = {"traceparent": "00-" + 32 * "0" + "-00f067aa0ba902b7-01"}
    await person.key.post(f"/api/workflows/{workflow}/run?wait=20", json={}, headers=wrong)
    assert "traceparent" not in receiver.requests[0]["headers"]


async def test_a_run_and_its_steps_are_spans_of_the_caller_s_trace(
    api: Api, notifier: Notifier, receiver: Endpoint, collector: Collector
) -> None:
    receiver.answer = lambda _: web.Response(status=404, text=SECRET)
    person = await api.person()
    steps = [transform("sum", f"'{SECRET}'"), webhook(f"{receiver.url}/{SECRET}")]
    workflow = await create(person, steps)
    started = await person.key.post(
        f"/api/workflows/{workflow}/run", json={"input": SECRET}, headers={"traceparent": TRACEPARENT}
    )
    run_id = UUID(started.json()["run_id"])

    async def ended() -> bool:
        return bool(collector.named("run"))

    await until(ended)
    [run], [accepted] = collector.named("run"), collector.named("accepted")
    [step], [call] = collector.named("step transform"), collector.named("step webhook")
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE_ID}
    assert (run.span_id.hex(), run.parent_span_id.hex()) == (span_id_of(run_id), CALLER)
    assert {span.parent_span_id for span in (accepted, step, call)} == {run.span_id}
    assert accepted.start_time_unix_nano == accepted.end_time_unix_nano == run.start_time_unix_nano
    assert run.start_time_unix_nano < step.start_time_unix_nano <= step.end_time_unix_nano
    assert call.end_time_unix_nano <= run.end_time_unix_nano
    assert attributes_of(run) == {
        "vedette.run_id": str(run_id), "vedette.workflow_id": workflow, "vedette.workflow_version": 1,
        "vedette.status": "failed", "error.type": "http_status",
    }  # fmt: skip
    assert attributes_of(call) == {
        "vedette.run_id": str(run_id), "vedette.step_id": "call", "vedette.step_type": "webhook",
        "vedette.status": "failed", "vedette.attempts": 1, "error.type": "http_status",
    }  # fmt: skip
    assert (run.status.code, call.status.code, step.status.code) == (2, 2, 0)
    assert parent_of(receiver.requests[0]) == (TRACE_ID, call.span_id.hex())
    assert SECRET not in str(collector.spans)
    assert collector.services == {"vedette"}


async def test_a_child_has_the_trace_of_its_parent_and_a_link_to_it(
    api: Api, notifier: Notifier, collector: Collector
) -> None:
    person = await api.person()
    child = await create(person, [transform("end", "'done'")])
    below = {"id": "below", "type": "workflow", "config": {"workflow_id": child, "input": "{}"}}
    parent = await create(person, [below])
    started = await person.key.post(f"/api/workflows/{parent}/run", json={})
    run_id = UUID(started.json()["run_id"])

    async def ended() -> bool:
        return len(collector.named("run")) == 2

    await until(ended)
    spans = {attributes_of(span)["vedette.workflow_id"]: span for span in collector.named("run")}
    assert spans[parent].trace_id == spans[child].trace_id == run_id.bytes
    assert not spans[parent].parent_span_id
    assert spans[child].parent_span_id.hex() == span_id_of(run_id, "below")
    [link] = spans[child].links
    assert (link.trace_id, link.span_id) == (run_id.bytes, spans[parent].span_id)


async def test_a_caller_that_is_not_sampled_gets_no_spans(
    api: Api, notifier: Notifier, receiver: Endpoint, collector: Collector
) -> None:
    person = await api.person()
    workflow = await create(person, [webhook(receiver.url)])
    headers = {"traceparent": TRACEPARENT[:-2] + "00"}
    answer = await person.key.post(f"/api/workflows/{workflow}/run?wait=20", json={}, headers=headers)
    assert (answer.status_code, collector.spans) == (200, [])


async def test_runs_go_on_while_the_collector_is_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    telemetry.start()
    try:
        views = await run.many([transform(f"n{n}", "`1`") for n in range(5)], [None] * 5)
    finally:
        async with asyncio.timeout(10):
            await asyncio.to_thread(telemetry.stop)
    assert {view.status for view in views} == {"completed"}
