"""Each process holds few connections, and `vedette doctor` counts them."""

from __future__ import annotations

import asyncio
import re

import psutil
import pytest

from models.installation.connections import OF_API, OF_WORKER
from tests.documentation.pages import Block
from tests.topology.topology import Load

pytestmark = pytest.mark.topology

_LOOKS = 40
_DOCTOR = """
set -a; . /etc/vedette/shared/vedette.env; . /etc/vedette/machine.env; set +a
vedette doctor || true
"""
_MOST = {"app1/vedette-api": OF_API, "app2/vedette-api": OF_API} | {
    f"{app}/vedette-worker": OF_WORKER for app in ("app1", "app2")
}


async def test_no_process_has_more_than_it_may_and_each_listens_by_one(load: Load) -> None:
    topology, most = load.topology, dict.fromkeys(_MOST, 0)
    for _ in range(_LOOKS):  # under load
        for name in _MOST:
            found = psutil.Process(topology.machines.units[name].pid).net_connections("tcp4")
            held = [one for one in found if one.status == "ESTABLISHED" and one.raddr.port in (5432, 6432)]
            most[name] = max(most[name], len(held))
        await asyncio.sleep(0.05)
    assert all(1 < most[name] <= _MOST[name] for name in most), most
    [[listening, all_ours]] = await topology.query(
        "select count(*) filter (where query ilike 'listen %%'), count(*) from pg_stat_activity"
        " where application_name like 'vedette%%' and usename = 'vedette'"
    )
    assert listening == len(_MOST)
    assert all_ours <= sum(_MOST.values())


async def test_doctor_counts_them(load: Load) -> None:
    said = await load.topology.machines.do([Block("a test", 1, "sh", "app1", _DOCTOR, False)])
    found = re.search(r"ok +connections +(\d+) of at most (\d+) \(2 apis, 2 workers\)", said)
    assert found is not None, said
    assert int(found[1]) <= int(found[2]) == sum(_MOST.values())
