"""The API application: `create_app(settings)` builds it; its lifespan opens and closes its resources."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

from api import versions
from api.auth.credentials import Credentials
from api.chat.toolset import ChatTools
from api.deps import Services
from api.housekeeping import Housekeeping
from api.http import errors
from api.http.middleware import RequestMiddleware
from api.http.openapi import Application
from api.http.pages import Derived
from api.http.routetable import RouteTable
from api.mcp.server import new_sessions
from api.routes import (
    activity,
    approvals,
    audit,
    auth,
    batches,
    bulk,
    bulk_actions,
    carriers,
    chat,
    credits,
    dashboard,
    deliveries,
    discovery,
    docs,
    dry_runs,
    error_pages,
    event_types,
    health,
    ingest,
    ingest_tokens,
    jobs,
    keys,
    limits,
    lists,
    lookups,
    mcp,
    monitor_results,
    monitoring,
    monitors,
    resuming,
    run_values,
    runs,
    secrets,
    sessions,
    stats,
    templates,
    version,
    webhooks,
    workflow_versions,
    workflows,
)
from api.stream_slots import StreamSlots
from api.write_probe import WriteProbe
from assistant.assistant import Assistant
from database import Database
from models.accounts.sessions import CHANNEL as CREDENTIAL_CHANNEL
from models.chat.messages import CHANNEL as CHAT_CHANNEL
from models.installation import root_key
from models.installation.connections import OF_API
from models.jobs.jobs import PROGRESS_CHANNEL
from models.runs.run_bounds import UnfinishedRuns
from models.runs.run_results import RESULT_CHANNEL
from models.runs.runs import FINISHED_CHANNEL
from notifications import Notifier
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from services.account_feeds import AccountFeeds
from services.announcing import KeyAnnouncer
from services.bulk_searches import BulkSearches
from services.event_checks import EventChecks
from services.figure_writer import FigureWriter
from services.ingest import IngestTargets, RunIntake
from services.keyed_locks import KeyedLocks
from services.process_pool import ProcessPool
from services.rate_limiter import Limiter
from services.run_waiter import RunWaiter
from services.save_places import SavePlaces
from services.signatures import Signatures
from settings import ExitCode, Settings, StartError
from temporal.client import connect
from watchdog import PoolWatchdog

_POOL_SIZE = OF_API - 2  # two more listen and notify


def create_app(settings: Settings) -> FastAPI:
    """Build the application. It opens the database, and connects to Temporal on the first call that needs it.

    Raises:
        StartError: no database is set (the supervisor sets that of the embedded one).
    """
    if settings.database_url is None:
        raise StartError("DATABASE_URL is not set.", ExitCode.DATABASE)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, str]]:
        app.state.routes = RouteTable(app)
        app.router.routes.insert(0, app.state.routes)
        async with AsyncExitStack() as stack:
            app.state.services = await _open(settings, stack)
            yield {"address": settings.address}  # in the scope of every request

    app = Application(
        title="vedette",
        version=versions.INTERFACE,
        summary="Look up, watch and automate",
        servers=[{"url": settings.address}],
        lifespan=lifespan,
        middleware=[Middleware(RequestMiddleware, settings=settings)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.derived = Derived(app)
    errors.install(app)
    for module in (
        auth,
        sessions,
        keys,
        credits,
        lookups,
        bulk,
        lists,
        monitors,
        monitor_results,
        monitoring,
        jobs,
        ingest,
        ingest_tokens,
        resuming,
        bulk_actions,
        runs,
        run_values,
        carriers,
        batches,
        secrets,
        approvals,
        chat,
        audit,
        templates,
        workflows,
        workflow_versions,
        dry_runs,
        event_types,
        deliveries,
        webhooks,
        mcp,
        stats,
        activity,
        limits,
        version,
        health,
        error_pages,
        discovery,
        docs,
        dashboard,
    ):
        app.include_router(module.router)
    return app


async def _open(settings: Settings, stack: AsyncExitStack) -> Services:
    """Open all services; `stack` closes them in reverse order."""
    assert settings.database_url is not None
    database = Database(settings.database_url.get_secret_value(), name="vedette-api", size=_POOL_SIZE)
    await database.open()
    stack.push_async_callback(database.close)
    async with database.connection() as connection:
        keyring = await root_key.open_keyring(connection, settings, may_make_key=True)
    credentials, waiter = Credentials(database, keyring), RunWaiter(database)
    listener = database.listener
    listener.add(
        {
            CREDENTIAL_CHANNEL: credentials.forget,
            RESULT_CHANNEL: waiter.store_results,
            FINISHED_CHANNEL: waiter.wake_finished,
            PROGRESS_CHANNEL: waiter.wake,
            CHAT_CHANNEL: waiter.wake,
        }
    )
    credentials.listen_with(listener)
    waiter.listen_with(listener)
    feeds = AccountFeeds(database)
    listener.add({FINISHED_CHANNEL: feeds.note_ended})
    stack.push_async_callback(feeds.stop)
    outbound = await stack.enter_async_context(Outbound(settings))
    lookups = Lookups(settings, database, keyring, outbound)
    await lookups.open()
    stack.push_async_callback(lookups.close)
    write_probe = WriteProbe(database)
    stack.push_async_callback(write_probe.stop)
    notifier, housekeeping = Notifier(database), Housekeeping(database)
    for part in (notifier, listener, housekeeping, PoolWatchdog(database), FigureWriter(database)):
        part.start()
        stack.push_async_callback(part.stop)
    assistant = Assistant(settings, database, keyring, notifier, outbound, waiter)
    stack.push_async_callback(assistant.close)
    announcer = KeyAnnouncer(database, keyring, "api")
    await announcer.open()
    stack.push_async_callback(announcer.close)
    mcp_sessions = new_sessions()
    await stack.enter_async_context(mcp_sessions.run())
    unfinished = UnfinishedRuns(settings.max_unfinished_runs)
    pool = ProcessPool()
    stack.push_async_callback(pool.close)
    return Services(
        settings=settings,
        database=database,
        keyring=keyring,
        notifier=notifier,
        listener=listener,
        temporal=await connect(settings, keyring, lazy=True),
        credentials=credentials,
        housekeeping=housekeeping,
        write_probe=write_probe,
        waiter=waiter,
        streams=StreamSlots(settings.max_streams),
        feeds=feeds,
        ingest_waits=StreamSlots(settings.max_ingest_waits),
        outbound=outbound,
        lookups=lookups,
        bulk_searches=BulkSearches(lookups),
        limiter=Limiter(database, settings),
        pool=pool,
        event_checks=EventChecks(pool),
        locks=KeyedLocks(),
        saves=SavePlaces(),
        signatures=Signatures(database, keyring),
        ingest_targets=IngestTargets(database),
        unfinished_runs=unfinished,
        run_intake=RunIntake(database, unfinished),
        mcp=mcp_sessions,
        assistant=assistant,
        chat_tools=ChatTools,
    )
