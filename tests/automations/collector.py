"""A collector of OpenTelemetry that remembers the spans that it gets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What was collected."""

    url: str = ""
    spans: list[Span] = field(default_factory=list[Span])
    services: set[str] = field(default_factory=set[str])
    metrics: set[str] = field(default_factory=set[str])
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def named(self, name: str) -> list[Span]:
        """The spans with this name."""
        return [span for span in self.spans if span.name == name]

    async def take(self, request: web.Request) -> web.Response:
        message = ExportTraceServiceRequest.FromString(await request.read())
        for resource in message.resource_spans:
            self.services.add(attributes_of(resource.resource)["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )

    async def take_metrics(self, request: web.Request) -> web.Response:
        message = ExportMetricsServiceRequest.FromString(await request.read())
        self.headers |= request.headers
        self.metrics |= {
            metric.name
            for resource in message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }
        return web.Response(
            body=ExportMetricsServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def attributes_of(holder: Any) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in holder.attributes}


@asynccontextmanager
async def collecting() -> AsyncGenerator[Collector]:
    """Collect on a random port until the block ends."""
    collector, application = Collector(), web.Application()
    application.router.add_post("/v1/traces", collector.take)
    application.router.add_post("/v1/metrics", collector.take_metrics)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield collector
    await runner.cleanup()
