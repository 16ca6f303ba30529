"""One API process: uvicorn on a socket that listens already."""

from __future__ import annotations

import asyncio
import signal
import socket

import uvicorn
import uvloop
from fastapi import FastAPI

import process
from api.app import create_app
from api.deps import Services
from api.http.protocol import BoundedHttp
from settings import ExitCode, Settings, StartError

_GRACE_SECONDS = 3


def serve(settings: Settings, listener: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT, then finish those in progress within three seconds.

    Raises:
        StartError: if the application does not start.
    """
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=2048,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = ApiServer(config, app)
    # uvicorn raises the signal that stopped it again when it is done; the process should exit with 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(server.serve(sockets=[listener]))
    except SystemExit:
        raise StartError("The API did not start; the lines above say why.", ExitCode.UNEXPECTED) from None


class ApiServer(uvicorn.Server):
    """Freezes objects after its start; on a stop, ends streams and waits for runs before the grace period."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and exempt long-lived objects from garbage collection."""
        await super().startup(sockets)
        process.freeze_gc()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wake the waiting requests, then stop."""
        services: Services = self._app.state.services
        services.waiter.close()
        await super().shutdown(sockets)
