"""A worker or an API whose database hangs once it has started: it can close no connection."""

from __future__ import annotations

import asyncio

import api.server
import cli
import process
import worker
from database import Database


def main() -> None:
    """Be `vedette`, with a second of patience."""
    close, has_started = Database.close, False

    async def close_or_hang(database: Database) -> None:
        if has_started:
            await asyncio.Event().wait()
        await close(database)

    def note_start() -> None:
        nonlocal has_started
        has_started = True

    Database.close = close_or_hang
    process.freeze_gc = note_start  # the last thing that both do when they start
    worker._LONGEST_STOP_SECONDS = api.server._LONGEST_STOP_SECONDS = 1.0
    cli.main()
