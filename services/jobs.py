"""Bulk jobs, where they depend on the kinds of lookups: prices, recorded results, columns of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import orjson

from models.errors import DomainError, Invalid
from models.jobs.jobs import JobType
from models.jobs.queue import Chunk, RowAnswer, TargetRow
from models.jobs.results import Result
from models.lookups import cached_answers
from models.monitors.fields import known_fields
from providers.company.kind import PEOPLE
from providers.lookup.result import LookupResult, is_suppressed, is_within
from providers.registry import KINDS
from providers.websearch.kind import SHOWN, cut_results
from sealing import Keyring

_STATUS_COLUMNS = ("error", "partial")


def price_of(type: JobType) -> int:
    """Return the most credits that the lookup of a row can cost."""
    return min(KINDS[type].price, limit_of(type) or KINDS[type].price)


def limit_of(type: JobType) -> int | None:
    """Return the most results that the lookup of a row returns; None for the kind's default."""
    return PEOPLE if type == "company" else None


def record_answer(
    chunk: Chunk, wanted: TargetRow, result: LookupResult, keyring: Keyring, *, given_up: bool = False
) -> RowAnswer:
    """Return the record to store for an answer.

    Args:
        chunk: of the job.
        wanted: the target.
        result: the answer.
        keyring: hashes the identity of paid blocks.
        given_up: whether a source was waited for in vain.
    """
    if is_suppressed(result.outcomes):
        error = DomainError("suppressed", "Nothing is to be looked up of this person.")
        return record_failure(chunk, wanted, error)
    data = result.to_answer(chunk.fields)
    if chunk.type == "websearch" and "results" in data:
        data = cut_results(data, SHOWN)
    block = None
    if result.credits and KINDS[chunk.type].block:
        block = chunk.account_id, chunk.type, cached_answers.query_hash(keyring, chunk.type, result.query)
    return RowAnswer(
        chunk.job_id,
        wanted.number,
        wanted.row_count,
        data=orjson.dumps(data).decode(),
        partial=result.partial,
        credits=result.credits,
        block=block,
        given_up=given_up,
    )


def record_failure(
    chunk: Chunk, wanted: TargetRow, error: DomainError, *, given_up: bool = False
) -> RowAnswer:
    """Return the record of a target that could not be looked up."""
    # A job's target has no position in a request body, so the pointer is left out.
    told = error.errors[0] if isinstance(error, Invalid) else error
    text = orjson.dumps({"code": told.code, "message": told.message}).decode()
    return RowAnswer(chunk.job_id, wanted.number, wanted.row_count, error=text, given_up=given_up)


class Table:
    """The results of a job as a table: the given columns, `error`, `partial`, the found columns.

    A job that leaves sources out also has the column `left_out` with their names. A found column with the
    name of a given one is named `<type>.<name>`.
    """

    def __init__(
        self,
        type: JobType,
        header: Sequence[str],
        fields: Sequence[str] | None,
        left_out: Sequence[str] = (),
    ) -> None:
        """Prepare, for results of this type with only these fields; None for all."""
        self._left_out = [list(left_out)] if left_out else []
        known = known_fields(KINDS[type].answer)
        paths = [path for path in known if fields is None or is_within(path, fields)]
        self._places = _tree(paths)
        self._count = len(paths)
        self.columns: list[str] = []
        for number, name in enumerate(header, 1):
            self._add(name or f"column_{number}", "")
        for name in (*_STATUS_COLUMNS, *(["left_out"] if left_out else []), *paths):
            self._add(name, f"{type}.")

    def _add(self, name: str, prefix: str) -> None:
        chosen = f"{prefix}{name}" if name in self.columns else name
        number = 1
        while chosen in self.columns:
            number += 1
            chosen = f"{prefix}{name}_{number}"
        self.columns.append(chosen)

    def row(self, result: Result) -> list[Any]:
        """Return the values of a row of a file; the error as `code: message`."""
        error: Any = orjson.loads(result.error or "null")
        return self._values(result, error and f"{error['code']}: {error['message']}")

    def item(self, result: Result) -> dict[str, Any]:
        """Return a row as an object, for JSON."""
        return dict(
            zip(self.columns, self._values(result, orjson.loads(result.error or "null")), strict=True)
        )

    def _values(self, result: Result, error: Any) -> list[Any]:
        found: list[Any] = [None] * self._count
        _fill(found, self._places, orjson.loads(result.data or "{}"))
        return [*orjson.loads(result.cells), error, result.partial, *self._left_out, *found]


Places: TypeAlias = "Mapping[str, int | Places]"
"""Name → the index of the field among all, or the same for the fields of a block."""


def _tree(paths: Sequence[str]) -> Places:
    places: dict[str, Any] = {}
    for place, path in enumerate(paths):
        *blocks, name = path.split(".")
        inner = places
        for block in blocks:
            inner = inner.setdefault(block, {})
        inner[name] = place
    return places


def _fill(found: list[Any], places: Places, data: Mapping[str, Any]) -> None:
    """Fill in the values of an answer; one of an earlier release may lack some fields."""
    for name, place in places.items():
        value = data.get(name)
        if isinstance(place, int):
            found[place] = value
        elif isinstance(value, dict):
            _fill(found, place, cast(dict[str, Any], value))
