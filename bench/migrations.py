"""The waits of writers while a database with much in it is migrated.

    python -m bench.migrations [--rows 3000000] [--since 0043]

A Postgres of its own gets so many finished runs, and a tenth as many entries in the audit log. Then it is
migrated from `since` on, while somebody writes to each of the two every 5 ms. Printed is the longest that a
write took, before and meanwhile: a migration that locks a table has its writer wait. docs/benchmarks.md says
how to read it.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from asyncio import Runner
from dataclasses import dataclass, field
from pathlib import Path
from typing import LiteralString

import psycopg

from bench.machine import machine
from embedded.postgres import Postgres
from embedded.report import Report
from migrations.revisions import head
from migrations.upgrade import downgrade, upgrade

_PAUSE_SECONDS, _BEFORE_SECONDS = 0.005, 5.0
_ROWS = 200_000  # of one statement
_ACCOUNT: LiteralString = "lpad(to_hex(n %% 1000), 32, '0')::uuid"
_INSERTS: dict[str, LiteralString] = {
    "runs": "insert into runs (id, account_id, automation_id, version, status, trigger, input, input_bytes,"
    f" queued_at, started_at, completed_at) select uuidv7(), {_ACCOUNT}, {_ACCOUNT}, 1, 'completed',"
    " 'webhook', '{\"n\": 1}', 8, now(), now(), now() from generate_series(1, %s) n",
    "audit_log": "insert into audit_log (id, account_id, actor_kind, actor_name, action, target_kind,"
    f" created_at) select uuidv7(), {_ACCOUNT}, 'system', 'bench', 'workflow.updated', 'workflow', now()"
    " from generate_series(1, %s) n",
}
_SIZE: LiteralString = """
select sum(pg_total_relation_size(oid)) from pg_class
where oid = %(table)s::regclass or oid in (select relid from pg_partition_tree(%(table)s))
"""


@dataclass
class Writer:
    """Writes a row to a table every 5 ms, in a thread, until it is stopped.

    Attributes:
        took: the seconds of each write, by its end.
    """

    url: str
    table: str
    took: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Write until stopped."""
        with open_connection(self.url) as connection:
            while not self.stopped.wait(_PAUSE_SECONDS):
                began = time.perf_counter()
                connection.execute(_INSERTS[self.table], (1,))
                now = time.perf_counter()
                self.took.append((now, now - began))

    def find_longest(self, since: float, until: float) -> float:
        """Return the longest write that ended in this time, in milliseconds."""
        return 1000 * max(took for at, took in self.took if since < at < until)


def open_connection(url: str) -> psycopg.Connection:
    """Connect as one whose rows need neither accounts nor counts."""
    options = "-c session_replication_role=replica -c synchronous_commit=off"
    return psycopg.connect(url, autocommit=True, options=options)


def fill(url: str, table: str, rows: int) -> None:
    """Store rows."""
    with open_connection(url) as connection:
        for done in range(0, rows, _ROWS):
            connection.execute(_INSERTS[table], (min(_ROWS, rows - done),))
        connection.execute("vacuum (analyze) " + table)  # pyright: ignore[reportCallIssue, reportArgumentType]


def measure(url: str, arguments: argparse.Namespace) -> None:
    """Fill a database of the old schema, migrate it beside writers, and print what these waited."""
    upgrade(url)
    downgrade(url, arguments.since)
    for table, rows in (("runs", arguments.rows), ("audit_log", arguments.rows // 10)):
        fill(url, table, rows)
        with open_connection(url) as connection:
            size = connection.execute(_SIZE, {"table": table}).fetchone()
        print(f"{table:10} {rows:10} rows, {size[0] / 2**20:8.0f} MiB", flush=True)  # type: ignore[index]
    writers = [Writer(url, table) for table in _INSERTS]
    threads = [threading.Thread(target=writer.run) for writer in writers]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    time.sleep(_BEFORE_SECONDS)
    began = time.perf_counter()
    upgrade(url)
    ended = time.perf_counter()
    for writer, thread in zip(writers, threads, strict=True):
        writer.stopped.set()
        thread.join()
    print(f"\nfrom {arguments.since} to {head()} in {ended - began:.1f} s")
    print(f"{'longest write, ms':20}{'before':>10}{'meanwhile':>12}")
    for writer in writers:
        before, meanwhile = writer.find_longest(start, began), writer.find_longest(began, ended)
        print(f"{writer.table:20}{before:10.1f}{meanwhile:12.1f}")


def main(arguments: argparse.Namespace) -> None:
    """Start Postgres for the measurement."""
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="vedette-bench-") as name, Runner() as runner:
        data = Path(name)
        data.chmod(0o711)
        postgres = Postgres(data, data / "logs" / "postgres.log", Report())
        try:
            runner.run(postgres.start())
            measure(postgres.url, arguments)
        finally:
            runner.run(postgres.stop())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000, help="finished runs")
    parser.add_argument("--since", default="0043", help="the schema of before")
    main(parser.parse_args())
