"""What a worker and the API do is counted in `/metrics`, whichever carrier has done it."""

from __future__ import annotations

from aiohttp import web

from tests.api_server import Api
from tests.automations.engine import Endpoint, Run, transform, until, webhook
from tests.health.scraping import grown, scraped

EXECUTIONS = ("shift", "workflow")


async def test_runs_steps_and_failures_are_counted(
    api: Api, run: Run, receiver: Endpoint, carried_by: str
) -> None:
    before = await scraped(api)
    good = await run([transform("sum", "`1`"), webhook(receiver.url)])
    receiver.answer = lambda _: web.Response(status=404)
    bad = await run([webhook(receiver.url)])
    assert (good.status, bad.status) == ("completed", "failed")
    after = await scraped(api)
    expected = {
        'vedette_run_ends_total{error="",status="completed"}': 1,
        'vedette_run_ends_total{error="http_status",status="failed"}': 1,
        "vedette_run_queued_seconds_count": 2,
        'vedette_run_seconds_count{status="completed"}': 1,
        'vedette_run_seconds_bucket{le="43200.0",status="failed"}': 1,
        'vedette_step_seconds_count{status="completed",type="transform"}': 1,
        'vedette_step_seconds_count{status="completed",type="webhook"}': 1,
        'vedette_step_seconds_count{status="failed",type="webhook"}': 1,
    }
    assert {series: grown(before, after, series) for series in expected} == expected
    assert after[f'vedette_workflow_failed_runs{{workflow="{bad.workflow_id}"}}'] == 1
    assert f'vedette_workflow_failed_runs{{workflow="{good.workflow_id}"}}' not in after
    if carried_by == "shift":
        assert after['vedette_pool_wait_seconds_count{pool="vedette writer"}'] > 0
        assert after['vedette_workers{state="alive"}'] == 1

        async def has_swept() -> bool:
            return 'vedette_dispatch_lag_seconds_count{loop="dispatcher"}' in await scraped(api)

        await until(has_swept)
