"""The results of runs, announced with their end, so that waiting clients need not read them.

A result is only a hint, like the end: a result that is large, or was stored before the end, is read from the
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

import orjson

from models.runs.run_writes import Change, End
from models.views import StoredJson

RESULT_CHANNEL = "run_results"
"""Notified, before `FINISHED_CHANNEL`, after runs completed whose answer a client waits for."""
# A notification has less than 8,000 bytes.
_MOST_BYTES, _MOST_BYTES_OF_ONE = 7_900, 4_000


class Result(NamedTuple):
    """The result of a completed run.

    Attributes:
        version: the version of its workflow.
    """

    run_id: UUID
    version: int
    output: StoredJson | None


def write_payloads(changes: Iterable[Change]) -> Iterator[str]:
    """Yield the results of completed runs that a client waits for, as payloads of notifications."""
    some, size = list[bytes](), 0
    for one in filter(None, map(_write_change, changes)):
        if size + len(one) > _MOST_BYTES:
            yield _join_json(some)
            some, size = [], 0
        some.append(one)
        size += len(one) + 1
    if some:
        yield _join_json(some)


def _write_change(change: Change) -> bytes | None:
    end = change.then
    if not isinstance(end, End) or end.waited_version is None or end.status != "completed":
        return None
    output: bytes | None = None
    if end.output_of is not None:
        given = [one for one in change.records if one.step_id == end.output_of and one.item is None]
        if not given or given[0].gathered:
            return None
        output = None if given[0].output is None else orjson.dumps(given[0].output)
    told = orjson.dumps([change.run_id, end.waited_version, output and output.decode()])
    return told if len(told) <= _MOST_BYTES_OF_ONE else None


def _join_json(some: list[bytes]) -> str:
    return f"[{b','.join(some).decode()}]"


def read_payload(payload: str) -> list[Result]:
    """Read a payload of `write_payloads`."""
    return [
        Result(UUID(run_id), version, None if output is None else StoredJson(output))
        for run_id, version, output in orjson.loads(payload)
    ]
