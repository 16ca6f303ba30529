"""Health and metrics, for operators."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar

import psycopg
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from temporalio.service import RPCError

from api.deps import Services, ServicesDep
from api.http import metrics
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from database import AWAY
from migrations.revisions import schema_problem
from models.errors import Forbidden, Unauthenticated
from models.installation import root_key, schema
from models.runs import workers
from models.views import View
from providers.dataset_inventory import DatasetStatus, State, take_stock

router = APIRouter(tags=["service"], route_class=StrictRoute)

Answer = TypeVar("Answer")

_TIMEOUT = 1.0
_METRICS_SECONDS = 5.0  # half of what Prometheus waits for
_LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
# Headers with which proxies name their clients, beside the many `X-Forwarded-…`.
_FORWARDING = frozenset({
    "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-forwarded-for",
    "true-client-ip", "cf-connecting-ip", "fastly-client-ip",
})  # fmt: skip


class Health(View):
    """The process answers."""

    status: Literal["ok"] = Field(default="ok", description="Always `ok`: the process answers.")


class DatasetState(BaseModel):
    """The state of one dataset of lookup data on this machine."""

    name: str = Field(description="Its name.")
    state: State = Field(
        description="`missing`: nothing of it is in use; `not_refreshed`: an older version is, for the last "
        "fetch failed."
    )
    fields: list[str] = Field(description="What its sources fill; without it, perhaps nobody does.")


class Readiness(BaseModel):
    """The needs of the service, part by part: `ok`, or the problem."""

    status: Literal["ready", "degraded", "unavailable"] = Field(
        description="`unavailable` without a database of this release, or when the process stops; `degraded` "
        "without another part."
    )
    checks: dict[str, str] = Field(description="Each part by name: `ok`, or what is wrong.")
    datasets: list[DatasetState] = Field(description="The lookup data on this machine that is wanted.")


@router.get("/healthz")
async def healthz() -> Health:
    """Check that this process answers."""
    return Health()


_UNREADY = "the database is away, cannot write, or has a schema of another release; or this process stops"


@router.get("/readyz", responses={503: {"model": Readiness, "description": _UNREADY}})
async def readyz(services: ServicesDep, response: Response) -> Readiness:
    """Check that the service can work: 503 only without a writable database; other parts can wait."""
    if services.stopping:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
        return Readiness(status="unavailable", checks={"process": "stops"}, datasets=[])
    names = ("database", "schema", "secrets", "workers", "temporal")
    checks = (_database, _schema, _secrets, _workers, _temporal)
    stock = await asyncio.to_thread(take_stock, services.settings)
    answers = await asyncio.gather(*(_run_check(check(services)) for check in checks))
    results: dict[str, str] = dict(zip(names, answers, strict=True)) | {"data": _data(stock)}
    datasets = [DatasetState(name=one.name, state=one.state, fields=[*one.fields]) for one in stock]
    if not results["database"] == results["schema"] == "ok":
        response.status_code = 503
        response.headers["Retry-After"] = "1"
        return Readiness(status="unavailable", checks=results, datasets=datasets)
    ready = all(result == "ok" for result in results.values())
    return Readiness(status="ready" if ready else "degraded", checks=results, datasets=datasets)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **problems("invalid_credentials", "loopback_only")},
)
async def get_metrics(request: Request, services: ServicesDep) -> Response:
    """Get counters for Prometheus: from this machine only, or with `VEDETTE_METRICS_TOKEN`."""
    token = services.settings.metrics_token
    if token is not None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
            raise Unauthenticated("invalid_credentials", "The metrics need their token.")
    elif services.settings.published or not _is_local(request):
        message = "Without VEDETTE_METRICS_TOKEN, metrics answer this machine only."
        raise Forbidden("loopback_only", message)
    try:
        shared = await _wait_for(_shared_metrics(services), _METRICS_SECONDS)
    except (*AWAY, TimeoutError):
        shared = None  # /readyz reports it; the local counters are served all the same
    streams = {"stream": services.streams.number_taken, "wait": services.ingest_waits.number_taken}
    local = metrics.Local(streams, services.settings.data)
    return Response(metrics.render(local, shared), media_type=metrics.CONTENT_TYPE)


def _is_local(request: Request) -> bool:
    """Return whether the request comes from this machine, and not through a proxy on it."""
    local = request.client is not None and request.client.host in _LOOPBACK
    forwarded = any(name in _FORWARDING or name.startswith("x-forwarded") for name in request.headers)
    return local and not forwarded


async def _run_check(check: Coroutine[Any, Any, str]) -> str:
    try:
        return await _wait_for(check, _TIMEOUT)
    except TimeoutError:
        return "no answer in time"
    except (psycopg.Error, RPCError, RuntimeError):
        return "unreachable"


async def _wait_for(work: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
    task = asyncio.create_task(work)
    # What it fails with after that is nobody's business, and would be logged as never retrieved.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    # To end a statement takes 10 s where packets vanish: nobody waits for that.
    if not task.done():
        raise TimeoutError
    return task.result()


async def _shared_metrics(services: Services) -> metrics.Shared:
    async with services.database.connection() as connection:
        return await metrics.read_shared(connection)


async def _database(services: Services) -> str:
    async with services.database.connection() as connection:
        await schema.find_schema(connection)  # returns its connection before the probe takes one
    return await services.write_probe.problem() or "ok"


async def _schema(services: Services) -> str:
    async with services.database.connection() as connection:
        return schema_problem(await schema.find_schema(connection)) or "ok"


async def _secrets(services: Services) -> str:
    async with services.database.connection() as connection:
        right = await root_key.is_right(connection, services.keyring)
    return "ok" if right else "sealed with another root key than this process has"


async def _workers(services: Services) -> str:
    async with services.database.connection() as connection:
        return "ok" if await workers.count_alive(connection) else "none alive"


async def _temporal(services: Services) -> str:
    healthy = await services.temporal.service_client.check_health(timeout=timedelta(seconds=_TIMEOUT))
    return "ok" if healthy else "not serving"


def _data(stock: Sequence[DatasetStatus]) -> str:
    missing = [one.name for one in stock if one.state == "missing" and not one.optional]
    return f"missing: {', '.join(missing)}" if missing else "ok"
