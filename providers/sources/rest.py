"""Sources that one GET answers, declared as tables: the request, the meaning of statuses, and the fields."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx

from outbound.response import retry_after
from providers.sources.base import (
    Context,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    any_query,
    json_answer,
)

_T = TypeVar("_T")
Meaning = Literal["empty", "rejected", "rate_limited", "auth_failed", "timeout", "error"]
Converter = Callable[[Any], Any]
Table = Mapping[str, tuple[str, Converter]]
"""Our dotted path → their path, and the converter from their value to ours.

A `?` after the name of a member of theirs marks it as optional; all others must be present. Null stays null.
"""


@dataclass(frozen=True, kw_only=True)
class Get:
    """The single request. `{query}` is replaced by the query, and `{key}` by the operator's key.

    Attributes:
        path: below the base URL; the inserted query is percent-encoded.
        params: of the query string. An entry with `{key}` is left out if there is no key; so is a header.
        headers: of the request.
        statuses: the meaning of a status where it differs from the default, see `json_answer`.
        words: the meaning of a word in the body of an unsuccessful answer, whatever its status.
        pauses: status → seconds after which a retry makes sense, where the source does not report it; such a
            status is `rate_limited` unless `statuses` has it.
        again: statuses with which the source reports that it is still searching → seconds after which it is
            asked again, within the source's own timeout.
    """

    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    statuses: Mapping[int, Meaning] = field(default_factory=dict[int, Meaning])
    words: Mapping[str, Meaning] = field(default_factory=dict[str, Meaning])
    pauses: Mapping[int, float] = field(default_factory=dict[int, float])
    again: Mapping[int, float] = field(default_factory=dict[int, float])

    async def fetch(self, query: Query, context: Context) -> Any:
        """Send the request; return the JSON of the answer, or None if its status means `empty`.

        Raises:
            SourceError: for every other answer.
        """
        while (response := await self._send(query, context)).status_code in self.again:
            await asyncio.sleep(self.again[response.status_code])
        status = response.status_code
        meaning = self.statuses.get(status)
        if meaning is None and status in self.pauses:
            meaning = "rate_limited"
        if not response.is_success:
            for word in self.words:
                if word in response.text:
                    meaning = self.words[word]
        if meaning == "empty":
            return None
        if meaning is not None:
            pause = retry_after(response.headers) or self.pauses.get(status)
            raise SourceError(meaning, f"http_{status}", pause)
        return json_answer(response)

    async def _send(self, query: Query, context: Context) -> httpx.Response:
        return await context.client.get(
            context.base_url + self.path.replace("{query}", quote(query.text, safe="")),
            params=_fill_placeholders(self.params, query.text, context.key),
            headers={
                "accept": "application/json",
                **_fill_placeholders(self.headers, query.text, context.key),
            },
            timeout=context.timeout,
        )


@dataclass(frozen=True)
class RestSource(RemoteSource):
    """A source that one GET answers. `request` is public so that tests can try its standard outcomes."""

    request: Get = field(kw_only=True)


def rest(
    spec: RemoteSpec,
    request: Get,
    parse: Callable[[Any], Fields] | Table,
    *,
    takes: Callable[[Query], bool] = any_query,
) -> RestSource:
    """Make a source from tables. `parse` reads an answer that is not empty: a function, or a table."""
    read = parse if callable(parse) else partial(map_fields, parse)
    return RestSource(
        spec, request.fetch, lambda raw: {} if raw is None else read(raw), takes, request=request
    )


def map_fields(table: Table, raw: Any) -> Fields:
    """Return the fields that `table` names from an answer.

    Raises:
        KeyError, TypeError, ValueError: if a member is missing, or the converter rejects it.
    """
    return {ours: _value(raw, theirs, convert) for ours, (theirs, convert) in table.items()}


def _value(raw: Any, path: str, convert: Converter) -> Any:
    value = raw
    for name in path.split("."):
        if value is None:
            return None
        value = value.get(name[:-1]) if name.endswith("?") else value[name]
    return None if value is None else convert(value)


def text(value: Any) -> str:
    """Return a text unchanged; reject other types."""
    return _require_type(value, str)


def flag(value: Any) -> bool:
    """Return true or false unchanged; reject other types."""
    return _require_type(value, bool)


def integer(value: Any) -> int:
    """Return a whole number unchanged; reject other types."""
    if isinstance(value, bool):
        raise TypeError
    return _require_type(value, int)


def number(value: Any) -> float:
    """Return a number; reject other types."""
    return value if isinstance(value, float) else integer(value)


def moment(value: Any) -> str:
    """Parse a time in ISO 8601; return it in UTC, to the second."""
    return datetime.fromisoformat(text(value)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _require_type(value: Any, sort: type[_T]) -> _T:
    if not isinstance(value, sort):
        raise TypeError
    return value


def _fill_placeholders(entries: Mapping[str, str], query: str, key: str | None) -> dict[str, str]:
    return {
        name: value.replace("{query}", query).replace("{key}", key or "")
        for name, value in entries.items()
        if key or "{key}" not in value
    }
