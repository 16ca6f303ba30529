"""A Temporal server whose address changes with each start, as a container's does, finds itself all the same.

Its parts find each other by the addresses that they note in its database: so the compose file pins them.
"""

from __future__ import annotations

import signal

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from tests.docker.files import services
from tests.documentation.pages import Block
from tests.stacks import eventually, free_port
from tests.topology.topology import Topology
from tests.topology.units import Unit

pytestmark = pytest.mark.topology

_PINNED = services()["temporal"]["environment"]["TEMPORAL_BROADCAST_ADDRESS"]
_FORMER = ("127.0.0.2", "127.0.0.3")
_PARTS = ("FRONTEND", "MATCHING", "HISTORY", "WORKER")
_DATABASE = """
cat >> /var/lib/postgresql/main/pg_hba.conf <<'CONF'
host moved,moved_visibility temporal 10.0.0.0/24 scram-sha-256
CONF
psql --host=/run/postgresql postgres --command="create database moved owner temporal" \
  --command="create database moved_visibility owner temporal" --command="select pg_reload_conf()"
"""
_SCHEMA = """
export SQL_PASSWORD=password-of-temporal
for kind in temporal visibility; do
  database=moved
  [ $kind = temporal ] || database=moved_visibility
  set -- --plugin postgres12 --endpoint 10.0.0.11 --port 5432 --user temporal --database $database
  temporal-sql-tool "$@" setup-schema --version 0.0
  temporal-sql-tool "$@" update-schema --schema-name postgresql/v12/$kind
done
"""


@pytest.fixture(scope="module")
async def ports(topology: Topology) -> dict[str, str]:
    """Ports of its own, for a server with a database of its own."""
    for text, machine in ((_DATABASE, "db1"), (_SCHEMA, "temporal")):
        await topology.machines.do([Block("a test", 1, "sh", machine, text, False)])
    names = [f"{part}_{kind}_PORT" for part in _PARTS for kind in ("GRPC", "MEMBERSHIP")]
    return {name: str(free_port()) for name in [*names, "FRONTEND_HTTP_PORT"]}


async def _start(topology: Topology, ports: dict[str, str], address: str) -> Unit:
    """Start a server that notes this address, on a machine whose addresses are all its own."""
    unit = topology.machines.make_unit(
        "temporal", "temporal", **ports, BIND_ON_IP="0.0.0.0", TEMPORAL_BROADCAST_ADDRESS=address,
        DBNAME="moved", VISIBILITY_DBNAME="moved_visibility", DB_PORT="5432", SQL_TLS_ENABLED="false",
        POSTGRES_SEEDS=topology.machines.address(11),
    )  # fmt: skip
    await unit.start()
    return unit


async def _kill(unit: Unit) -> None:
    unit.stopping = True
    unit.send(signal.SIGKILL)
    await eventually(lambda: unit.child.pid is None, what="the server has ended")


async def _has_noted(topology: Topology, address: str) -> bool:
    """Return whether all parts of a server have noted this address in its database."""
    query = f"select count(distinct role) from cluster_membership where rpc_address = '{address}'"
    text = f'psql --host=/run/postgresql moved --tuples-only --no-align --command="{query}"'
    return (await topology.machines.do([Block("a test", 1, "sh", "db1", text, False)])).strip() == "4"


async def _works(topology: Topology, address: str) -> None:
    """Make the namespace, start a worker, and have it run a workflow."""
    text = f"""export TEMPORAL_ADDRESS={address}
until temporal operator namespace describe --namespace default >/dev/null 2>&1; do
  temporal operator namespace create --namespace default --retention 1h >/dev/null 2>&1 || sleep 0.5
done"""
    await topology.machines.do([Block("a test", 1, "sh", "temporal", text, False)])
    worker = topology.machines.make_unit("app1", "vedette-worker", TEMPORAL_ADDRESS=address)
    worker.child.new_lines()
    await worker.start()
    try:
        await eventually(
            lambda: any("worker_ready" in line for line in worker.child.new_lines()),
            30,
            "the worker is ready",
        )
        client = await Client.connect(address)
        handle = client.get_schedule_handle("maintenance/tend_history")
        await handle.trigger()

        async def done() -> bool:
            actions = (await handle.describe()).info.recent_actions
            ids = [one.action.workflow_id for one in actions]
            return bool(ids) and await _is_completed(client, ids[-1])

        await eventually(done, 30, "the worker has run a workflow")
    finally:
        await worker.stop()


async def _is_completed(client: Client, workflow_id: str) -> bool:
    status = (await client.get_workflow_handle(workflow_id).describe()).status
    return status is WorkflowExecutionStatus.COMPLETED


async def test_a_worker_works_after_the_server_had_other_addresses(
    topology: Topology, ports: dict[str, str]
) -> None:
    for address in _FORMER:
        unit = await _start(topology, ports, address)
        await eventually(lambda address=address: _has_noted(topology, address), 60, f"it notes {address}")
        await _kill(unit)
    for _ in range(2):  # again, since the first finds the addresses of before
        unit = await _start(topology, ports, _PINNED)
        try:
            await _works(topology, f"127.0.0.1:{ports['FRONTEND_GRPC_PORT']}")
        finally:
            await _kill(unit)
