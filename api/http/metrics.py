"""Counters for Prometheus, of the process that answers.

With `PROMETHEUS_MULTIPROC_DIR` set, as for several API processes, they are the sums over all processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from models.runs.stuck_runs import StuckRuns

_requests = Counter("vedette_http_requests", "Answered requests", ["method", "route", "status"])
_seconds = Histogram(
    "vedette_http_request_seconds",
    "From the first byte of a request to the last of its answer",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
_counters: dict[tuple[str, str, int], Counter] = {}
_histograms: dict[tuple[str, str], Histogram] = {}

CONTENT_TYPE = CONTENT_TYPE_LATEST


def observe(method: str, route: str, status: int, seconds: float) -> None:
    """Count an answered request.

    Args:
        method: of HTTP.
        route: the path's template, never the path itself.
        status: of the answer.
        seconds: duration of the answer.
    """
    key = (method, route, status)
    counter = _counters.get(key)
    if counter is None:
        counter = _counters[key] = _requests.labels(method, route, str(status))
    counter.inc()
    histogram = _histograms.get(key[:2])
    if histogram is None:
        histogram = _histograms[key[:2]] = _seconds.labels(method, route)
    histogram.observe(seconds)


class Shared(NamedTuple):
    """Values that are the same in every process, and so are not summed over them.

    Attributes:
        unfinished: unfinished runs, by status.
        deliveries: unfinished deliveries, by status.
        monitor_runs: unfinished runs of monitors, by status.
        jobs: unfinished bulk jobs, by status.
        halted: workers that claim no runs.
        versions_aside: versions of workflows that are set aside, or have a run that is.
        strays: runs with the status `running` in a shift that does not exist.
        loop_lag: the longest recent lag of a worker's event loop, in seconds.
        stuck: runs that should have continued, and those that wait for places.
    """

    unfinished: Mapping[str, int]
    deliveries: Mapping[str, int]
    monitor_runs: Mapping[str, int]
    jobs: Mapping[str, int]
    halted: int
    versions_aside: int
    strays: int
    loop_lag: float
    stuck: StuckRuns


def rendered(shared: Shared | None) -> bytes:
    """Return all metrics in Prometheus' text format; without the shared ones if they are unknown."""
    counters = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        counters = CollectorRegistry()
        MultiProcessCollector(counters)
    return generate_latest(counters) + (b"" if shared is None else generate_latest(_registry_of(shared)))


def _registry_of(shared: Shared) -> CollectorRegistry:
    registry = CollectorRegistry()
    by_status = (
        ("vedette_runs", "Runs that are not over", shared.unfinished),
        ("vedette_deliveries", "Deliveries that are not over", shared.deliveries),
        ("vedette_monitor_runs", "Runs of monitors that are not over", shared.monitor_runs),
        ("vedette_jobs", "Bulk jobs that are not over", shared.jobs),
    )
    for name, meaning, counts in by_status:
        gauge = Gauge(name, meaning, ["status"], registry=registry)
        for status, count in counts.items():
            gauge.labels(status).set(count)
    halted = "Workers that claim no runs, since they do not trust themselves"
    Gauge("vedette_engine_halted", halted, registry=registry).set(shared.halted)
    aside = "Versions of workflows that the engine cannot serve, whole or in part"
    Gauge("vedette_versions_set_aside", aside, registry=registry).set(shared.versions_aside)
    strays = "Runs that count as running although nobody has them"
    Gauge("vedette_stray_runs", strays, registry=registry).set(shared.strays)
    lag = "How long what is due waits at most in the event loop of a worker"
    Gauge("vedette_event_loop_lag_seconds", lag, registry=registry).set(shared.loop_lag)
    stuck = Gauge("vedette_stuck_runs", "Runs that should have gone on", ["why"], registry=registry)
    for why in ("untaken", "overdue", "held"):
        stuck.labels(why).set(getattr(shared.stuck, why))
    backlog = "Runs that are to have workflows of their own, and wait for places"
    Gauge("vedette_own_backlog", backlog, registry=registry).set(shared.stuck.own_backlog)
    return registry
