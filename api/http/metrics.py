"""Metrics for Prometheus: requests of the process that answers, and figures of the whole installation.

With `PROMETHEUS_MULTIPROC_DIR` set, as for several API processes, requests are the sums over all processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from shutil import disk_usage
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from database import Connection
from metrics import BUCKETS, FIGURES, Amounts, Figure
from metrics import Histogram as SharedHistogram
from models.installation import backups, figures
from models.installation.connections import ConnectionUsage, count_connections
from models.jobs.queue import JOBS
from models.monitors.queue import RUNS
from models.runs import run_counts, run_work, setbacks, stuck_runs, workers
from models.runs.stuck_runs import StuckRuns
from models.webhooks import delivery_recovery

disable_created_metrics()  # a series more for each, which nobody asks for
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
        versions_aside: versions of workflows that are set aside, or have a run that is.
        strays: runs with the status `running` in a shift that does not exist.
        loop_lag: the longest recent lag of a worker's event loop, in seconds.
        stuck: runs that should have continued, and those that wait for places.
        workers: workers by state.
        queue_age: the seconds for which the first run of the queue waits.
        delivery_age: the same for deliveries to healthy endpoints.
        failing: failed runs of the last hour by workflow.
        backup_age: the seconds since the last backup, if there was one.
        connections: the connections to the database.
        totals: what all processes have observed.
    """

    unfinished: Mapping[str, int]
    deliveries: Mapping[str, int]
    monitor_runs: Mapping[str, int]
    jobs: Mapping[str, int]
    versions_aside: int
    strays: int
    loop_lag: float
    stuck: StuckRuns
    workers: Mapping[str, int]
    queue_age: float
    delivery_age: float
    failing: Mapping[str, int]
    backup_age: float | None
    connections: ConnectionUsage
    totals: Sequence[Amounts]


class Local(NamedTuple):
    """Values of this process and its machine.

    Attributes:
        streams: the open streams, and the open waits for events, by kind.
        data: the data folder.
    """

    streams: Mapping[str, int]
    data: Path


async def read_shared(connection: Connection) -> Shared:
    """Read the values of the whole installation."""
    return Shared(
        unfinished=await run_counts.count_unfinished_by_status(connection),
        deliveries=await delivery_recovery.count_unfinished(connection),
        monitor_runs=await RUNS.count_unfinished(connection),
        jobs=await JOBS.count_unfinished(connection),
        versions_aside=await setbacks.count_aside(connection),
        strays=await run_work.count_strays(connection),
        loop_lag=await workers.get_longest_loop_lag(connection),
        stuck=await stuck_runs.count(connection),
        workers=await workers.count_by_state(connection),
        queue_age=await stuck_runs.find_queue_age(connection),
        delivery_age=await delivery_recovery.find_queue_age(connection),
        failing=await figures.count_failed_by_workflow(connection),
        backup_age=await backups.find_age(connection),
        connections=await count_connections(connection),
        totals=await figures.find_totals(connection),
    )


def render(local: Local, shared: Shared | None) -> bytes:
    """Return all metrics in Prometheus' text format; without the shared ones if they are unknown."""
    requests = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        requests = CollectorRegistry()
        MultiProcessCollector(requests)
    registry = CollectorRegistry()
    _show_local(local, registry)
    reached = "Whether this process has read the other metrics from the database"
    Gauge("vedette_database_reached", reached, registry=registry).set(shared is not None)
    if shared is not None:
        _show_shared(shared, registry)
        registry.register(_Totals(shared.totals))
    return generate_latest(requests) + generate_latest(registry)


def _show(
    registry: CollectorRegistry, name: str, meaning: str, label: str, values: Mapping[str, float]
) -> None:
    gauge = Gauge(name, meaning, [label], registry=registry)
    for value, number in values.items():
        gauge.labels(value).set(number)


def _show_local(local: Local, registry: CollectorRegistry) -> None:
    open_streams = "Open streams, and open waits for the answers of events, of this process"
    _show(registry, "vedette_streams", open_streams, "kind", local.streams)
    try:
        disk = disk_usage(local.data)
    except OSError:
        return  # the folder is made when something is to be stored in it
    sizes = {"free": disk.free, "total": disk.total}
    _show(registry, "vedette_disk_bytes", "The disk of the data folder, of this machine", "part", sizes)


def _show_shared(shared: Shared, registry: CollectorRegistry) -> None:
    by_label = (
        ("vedette_runs", "Runs that are not over", "status", shared.unfinished),
        ("vedette_deliveries", "Deliveries that are not over", "status", shared.deliveries),
        ("vedette_monitor_runs", "Runs of monitors that are not over", "status", shared.monitor_runs),
        ("vedette_jobs", "Bulk jobs that are not over", "status", shared.jobs),
        ("vedette_workers", "Workers by state; one may count several times", "state", shared.workers),
        ("vedette_workflow_failed_runs", "Failed runs of the last hour", "workflow", shared.failing),
        (
            "vedette_database_connections", "Connections to the database server", "part",
            {"used": shared.connections.ours + shared.connections.others, "most": shared.connections.room},
        ),
    )  # fmt: skip
    for name, meaning, label, values in by_label:
        _show(registry, name, meaning, label, values)
    stuck = {why: getattr(shared.stuck, why) for why in ("untaken", "overdue", "held")}
    _show(registry, "vedette_stuck_runs", "Runs that should have gone on", "why", stuck)
    single = (
        ("vedette_engine_halted", "Workers that claim no runs, since they do not trust themselves",
         shared.workers["halted"]),
        ("vedette_versions_set_aside", "Versions of workflows that the engine cannot serve, whole or in part",
         shared.versions_aside),
        ("vedette_stray_runs", "Runs that count as running although nobody has them", shared.strays),
        ("vedette_event_loop_lag_seconds",
         "How long what is due waits at most in the event loop of a worker", shared.loop_lag),
        ("vedette_own_backlog", "Runs that are to have workflows of their own, and wait for places",
         shared.stuck.own_backlog),
        ("vedette_run_queue_age_seconds", "How long the first run of the queue waits", shared.queue_age),
        ("vedette_delivery_queue_age_seconds",
         "How long the first delivery of the queue waits, of those to healthy endpoints",
         shared.delivery_age),
        ("vedette_backup_age_seconds", "The age of the last backup", shared.backup_age),
    )  # fmt: skip
    for name, meaning, value in single:
        if value is not None:
            Gauge(name, meaning, registry=registry).set(value)


class _Totals(Collector):
    """The totals of all processes, as counters and histograms."""

    def __init__(self, totals: Sequence[Amounts]) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        for figure in FIGURES:
            series = {one.labels: one.amounts for one in self._totals if one.name == figure.name}
            series = {labels: [0.0] * figure.size for labels in figure.initial} | series
            yield _family(figure, series)


def _family(figure: Figure, series: Mapping[tuple[str, ...], Sequence[float]]) -> Metric:
    if not isinstance(figure, SharedHistogram):
        counter = CounterMetricFamily(figure.name, figure.meaning, labels=figure.labels)
        for labels, (value,) in series.items():
            counter.add_metric(labels, value)
        return counter
    histogram = HistogramMetricFamily(figure.name, figure.meaning, labels=figure.labels)
    for labels, (*counts, seconds) in series.items():
        histogram.add_metric(labels, _cumulative(counts), seconds)
    return histogram


def _cumulative(counts: Iterable[float]) -> list[tuple[str, float]]:
    bounds = [*map(str, BUCKETS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))
