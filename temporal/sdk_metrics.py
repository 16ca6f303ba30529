"""The export of the metrics of Temporal's SDK, by the variables of OpenTelemetry; off without these."""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.parse import unquote

from temporalio.runtime import OpenTelemetryConfig

_INTERVAL_MS = "60000"


def find_metrics_export() -> OpenTelemetryConfig | None:
    """Return where the SDK sends its metrics, and how often; None if no variable names a collector."""
    url = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    if not url and (base := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        url = f"{base.rstrip('/')}/v1/metrics"
    if not url or os.environ.get("OTEL_METRICS_EXPORTER") == "none":
        return None
    interval = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return OpenTelemetryConfig(
        url=url,
        headers=_read_headers(),
        metric_periodicity=timedelta(milliseconds=int(interval if interval.isdecimal() else _INTERVAL_MS)),
        durations_as_seconds=True,
        http=True,
    )


def _read_headers() -> dict[str, str]:
    """Read headers in the form `name=value,name=value`, with values in percent-encoding."""
    names = ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    given = next((os.environ[name] for name in names if os.environ.get(name)), "")
    pairs = (one.partition("=") for one in given.split(",") if "=" in one)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
