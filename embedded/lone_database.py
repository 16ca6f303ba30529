"""The built-in Postgres by itself, for what must be done while no stack runs."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from embedded import folder
from embedded.cluster import account
from embedded.postgres import Postgres
from embedded.report import Report
from embedded.unprivileged import let_pass
from settings import Settings


@asynccontextmanager
async def lone_database(settings: Settings) -> AsyncGenerator[Settings]:
    """Run the Postgres of the data folder, made if there is none; give the settings with its URL.

    Raises:
        StartError: a stack uses the folder, or the server does not start.
    """
    data = folder.prepare(settings.data)
    with folder.lock(data):
        logs = data / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        if account(data / "postgres") is not None:
            let_pass(data)
        postgres = Postgres(data, logs / "postgres.log", Report(sys.stderr))
        try:
            await postgres.start()
            yield settings.model_copy(update={"data": data, "database_url": SecretStr(postgres.url)})
        finally:
            await postgres.stop()
