"""Connect a worker to Temporal: try until the server answers and has our Schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio.client import Client

import logs
from settings import ExitCode, StartError
from temporal import schedules
from temporal.client import TEMPORAL_AWAY

_log = logs.get(__name__)
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
_CHECK_SECONDS = 60.0

Prepare = Callable[[], Awaitable[object]]
"""Prepares the Temporal server; raises StartError while it is away."""


async def reach(client: Client, prepare: Prepare | None) -> str | None:
    """Connect to Temporal, and prepare it; return the reason if it is away."""
    try:
        if prepare is not None:
            await prepare()
        await schedules.ensure(client)
    except StartError as error:
        if error.exit_code is not ExitCode.TEMPORAL:
            raise
        return str(error)
    except TEMPORAL_AWAY as error:
        return str(error)
    # The SDK refuses a lazy client for workers, because it may be unconnected. This one is connected.
    client.service_client.config.lazy = False
    return None


async def wait_until_reached(
    client: Client, prepare: Prepare | None, reaching: Awaitable[str | None]
) -> None:
    """Try until Temporal is there, at growing intervals; `reaching` is the first try."""
    pause, address = _FIRST_PAUSE_SECONDS, client.service_client.config.target_host
    while (away := await reaching) is not None:
        _log.warning("waits_for_temporal", address=address, reason=away, again_seconds=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        reaching = reach(client, prepare)


async def keep_prepared(client: Client, prepare: Prepare | None) -> None:
    """Check from time to time whether the server has lost what we need, and prepare it again then."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        try:
            if not await schedules.are_there(client):
                _log.warning("temporal_prepared_again", away=await reach(client, prepare))
        except (*TEMPORAL_AWAY, StartError) as error:
            _log.warning("temporal_not_prepared", error=str(error))
