"""Which batches have their workflows looked for. Nothing here has a worker: it would look for these too."""

from __future__ import annotations

from database import Database
from models.webhooks.delivery_work import BATCHES
from tests.deliveries.claims import claim
from tests.deliveries.receivers import Hooks


async def test_a_batch_is_probed_soon_until_it_is_known_to_be_started_then_while_a_delivery_is_at_work(
    database: Database, hooks: Hooks
) -> None:
    await hooks.endpoint("http://127.0.0.1:9/")
    await hooks.emit(4)
    new, unmarked, busy, idle = [(await claim(database, rows=1)).batch_id for _ in range(4)]
    async with database.connection() as connection:
        for batch_id in (busy, idle):
            await BATCHES.mark_begun(connection, batch_id)
        await connection.execute(
            "update delivery_work set status = 'waiting' where batch_id = any(%s)", ([unmarked, idle],)
        )
        soon = {new, unmarked}
        for seconds, expected in ((4, set()), (6, soon), (59, soon), (61, soon | {busy})):
            await connection.execute(
                "update delivery_batches set probed_at = clock_timestamp() - make_interval(secs => %s)",
                (seconds,),
            )
            assert {batch.id for batch in await BATCHES.find_unseen(connection)} == expected
            assert await BATCHES.find_unseen(connection) == []
