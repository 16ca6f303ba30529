"""A stored value of a run as JSON, read while it is sent, with one piece in memory at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from database import Database
from models.runs import run_pieces
from models.runs.run_pieces import PIECE_BYTES, Source


async def stream_value(database: Database, found: Source | Sequence[Source]) -> AsyncGenerator[bytes]:
    """Yield a value in pieces; no connection is held between them.

    Args:
        database: holds it.
        found: its location; several are the groups of items of an array.
    """
    if isinstance(found, Source):
        empty = True
        async for piece in _pieces(database, found):
            empty = False
            yield piece
        if empty:
            yield b"null"
        return
    yield b"["
    for number, group in enumerate(found):
        if number:
            yield b","
        async for piece in _pieces(database, group):
            yield piece
    yield b"]"


async def _pieces(database: Database, source: Source) -> AsyncGenerator[bytes]:
    start, piece = 0, b" "
    while piece and start % PIECE_BYTES == 0:
        async with database.connection() as connection:
            piece = await run_pieces.read_piece(connection, source, start)
        start += len(piece)
        if piece:
            yield piece
