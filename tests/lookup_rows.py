"""What lookups leave in a database."""

from database import Database

_FORGET = """
    delete from lookup_answers; delete from provider_states; delete from source_windows;
    delete from source_turns
"""


async def forget_lookups(database: Database) -> None:
    """Have every source asked anew.

    No lookup may be under way, or what it writes stays. To truncate waits for it, and takes ten times as
    long.
    """
    async with database.connection() as connection:
        await connection.execute(_FORGET)
