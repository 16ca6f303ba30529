"""One API process: uvicorn on a socket that listens already."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from types import FrameType

import uvicorn
import uvloop
from fastapi import FastAPI

import logs
import process
from api.app import create_app
from api.deps import Services
from api.http.protocol import BoundedHttp
from settings import ExitCode, Settings, StartError

_log = logs.get(__name__)
_GRACE_SECONDS = 3
# A statement to a server that hangs ends by no timeout.
_LONGEST_STOP_SECONDS = 15.0
_DRAIN_SECONDS, _LOOK_SECONDS = 3.0, 0.05


def serve(settings: Settings, listener: socket.socket, *, alone: bool) -> None:
    """Answer requests until SIGTERM or SIGINT, then finish those in progress within three seconds.

    Args:
        settings: with a database.
        listener: a socket that listens.
        alone: whether no other process accepts on it. Then it goes on for three seconds, in which a proxy
            learns from `/readyz` that it stops: connections that wait in a socket are lost with it.

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
    server = ApiServer(config, app, alone=alone)
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

    def __init__(self, config: uvicorn.Config, app: FastAPI, *, alone: bool) -> None:
        super().__init__(config)
        self._app = app
        self._drain_seconds = _DRAIN_SECONDS if alone else 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        super().handle_exit(sig, frame)
        process.leave_after(_LONGEST_STOP_SECONDS, _log.warning)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and exempt long-lived objects from garbage collection."""
        await super().startup(sockets)
        process.freeze_gc()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let a proxy go to others, wake the waiting requests, then stop."""
        services: Services = self._app.state.services
        services.stopping = True
        until = time.monotonic() + self._drain_seconds
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(_LOOK_SECONDS)
        services.waiter.close()
        await super().shutdown(sockets)
