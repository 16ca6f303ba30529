"""The standby takes over from a primary that is lost: nothing that was acknowledged is lost with it.

It is the last, since the former primary is gone then.
"""

from __future__ import annotations

import signal
import time

import pytest

from tests.topology.topology import BLOCKS, FAILOVER, Load

pytestmark = pytest.mark.topology


async def test_a_failover_as_the_page_has_it_loses_nothing(load: Load) -> None:
    await load.in_service()
    machines = load.topology.machines
    primary = machines.units["db1/postgresql"]
    primary.stopping = True  # it stays off
    primary.send(signal.SIGKILL)
    began = time.monotonic()
    await machines.do(BLOCKS[FAILOVER:])
    await load.in_service()
    took = time.monotonic() - began
    await load.all_end()
    print(f"failover: back after {took:.1f} s, refused {dict(load.senders.refused)}")
    [[standby]] = await load.topology.query("select pg_is_in_recovery()")
    assert not standby


async def test_every_run_was_completed_once(load: Load) -> None:
    await load.senders.stop()
    await load.all_end()
    [[unfinished, other]] = await load.topology.query(
        "select (select count(*) from run_work), (select count(*) from runs where status <> 'completed')"
    )
    assert (unfinished, other) == (0, 0)


async def test_every_block_of_the_page_was_run(load: Load) -> None:
    assert [block.place for block in load.topology.machines.run if block.page == BLOCKS[0].page] == [
        block.place for block in BLOCKS
    ]
