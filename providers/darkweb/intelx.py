"""Intelligence X: leaks, pastes and dark-web pages that contain an e-mail address, a domain or an IP address.

A search is started, then polled for results until it has no more. It accepts exact terms only, no free text.
Keys of paid accounts are for one host, those of free ones for another: https://help.intelx.io/api/limits.
"""

from __future__ import annotations

import asyncio
import time
from datetime import date
from typing import Any, NamedTuple

import httpx

from providers.darkweb.mentions import MOST, iso_timestamp, mention
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    Unsure,
    json_answer,
)
from settings import Rate

_BUCKETS = ("darknet", "leaks", "pastes", "dumpster")
_PER_BUCKET = 100
_SEARCH_SECONDS = 5
_LATEST_FIRST = 4
_BETWEEN_SECONDS = 1.0  # the vendor asks for at most one request a second
_QUOTA_SECONDS = 3600.0
# Media types of forums: https://github.com/IntelligenceX/SDK/blob/master/Python/README.md#media-types.
_FORUM = {3: "forum", 4: "board", 5: "thread", 6: "post", 7: "user"}
# The status of an answer: more may come, complete, nothing yet.
_MORE, _ALL, _NOT_YET = 0, 1, 3
# The status of a search: the key has too many searches running.
_TOO_MANY = 2


class SearchResult(NamedTuple):
    """The records, and whether the search ended within the timeout."""

    records: list[dict[str, Any]]
    ended: bool = True


async def fetch(query: Query, context: Context) -> SearchResult:
    """Search, and collect results until the timeout."""
    until = time.monotonic() + context.timeout - 1
    host, search = await _start(query, context)
    records: list[dict[str, Any]] = []
    while True:
        await asyncio.sleep(_BETWEEN_SECONDS)
        response = await context.client.get(
            f"{host}/intelligent/search/result",
            headers=_headers(context),
            params={"id": search, "limit": str(MOST)},
            timeout=context.timeout,
        )
        answer = _read_answer(response, "records")
        records += answer["records"] or []
        if answer["status"] == _ALL or len(records) >= MOST:
            return SearchResult(records)
        if answer["status"] not in (_MORE, _NOT_YET):
            raise SourceError("error", "search_failed")
        if time.monotonic() + _BETWEEN_SECONDS > until:
            if not records:
                raise SourceError("timeout", "search_timeout")
            return SearchResult(records, ended=False)


async def _start(query: Query, context: Context) -> tuple[str, str]:
    """Start a search at the first host that accepts the key; return the host and the search's id."""
    for host in context.base_url.split(","):
        response = await context.client.post(
            f"{host}/intelligent/search",
            headers=_headers(context),
            json={
                "term": query.words,
                "buckets": [],
                "lookuplevel": 0,
                "maxresults": _PER_BUCKET,
                "timeout": _SEARCH_SECONDS,
                "datefrom": "",
                "dateto": "",
                "sort": _LATEST_FIRST,
                "media": 0,
                "terminate": [],
            },
            timeout=context.timeout,
        )
        if response.status_code != 401:
            return host, _get_search_id(_read_answer(response, "id"))
    raise SourceError("auth_failed", "http_401")


def _get_search_id(answer: dict[str, Any]) -> str:
    if answer["status"] == _TOO_MANY:
        raise SourceError("rate_limited", "too_many_searches")
    if answer["status"] != 0:
        raise SourceError("rejected", "term_refused")
    return answer["id"]


def _headers(context: Context) -> dict[str, str]:
    return {"accept": "application/json", "x-key": context.key or ""}


def _read_answer(response: httpx.Response, part: str) -> dict[str, Any]:
    if response.status_code == 402:
        raise SourceError("rate_limited", "quota", _QUOTA_SECONDS)
    answer = json_answer(response)
    if not isinstance(answer, dict) or not {"status", part} <= answer.keys():
        raise SourceError("bad_response", "unexpected_shape")
    return answer  # pyright: ignore[reportUnknownVariableType]


def parse(raw: SearchResult) -> Fields:
    """Read the records, each once."""
    records = {r["systemid"]: r for r in raw.records if r["bucket"].startswith(_BUCKETS)}
    mentions = [_mention(record) for record in records.values()]
    fields: Fields = {"results": mentions[:MOST], "total": len(mentions)} if mentions else {}
    if raw.ended:
        return fields
    return {path: Unsure(fields.get(path)) for path in ("results", "total")}


def _mention(record: dict[str, Any]) -> dict[str, Any]:
    bucket, name = record["bucket"], record.get("name") or None
    leak: dict[str, Any] = {"name": name, "host": None, "actors": [], "affected_records": None}
    return mention(
        record.get("bucketh") or bucket,
        title=name,
        body=record.get("description"),
        crawl_date=iso_timestamp(record.get("date")),
        leak=leak if bucket.startswith("leaks") else None,
        paste={"name": name} if bucket.startswith("pastes") else None,
        forum={"name": name, "part": _FORUM[record["media"]]} if record.get("media") in _FORUM else None,
    )


SOURCE = RemoteSource(
    RemoteSpec(
        name="intelx",
        kind="darkweb",
        fields=frozenset({"results", "total"}),
        licence="Intelligence X terms of service",
        terms="https://intelx.io/terms-of-service",
        attribution="Intelligence X, https://intelx.io",
        evidence=Evidence(
            "https://github.com/IntelligenceX/SDK/blob/master/Intelligence%20X%20API.pdf", date(2026, 11, 21)
        ),
        base_url="https://2.intelx.io,https://free.intelx.io",
        key="required",
        personal=True,
        timeout=7,
        ttl=86400,
        negative_ttl=6 * 3600,
        rates=(Rate(10, 60),),  # of up to six requests each
        parser_version=2,
    ),
    fetch,
    parse,
    takes=lambda query: query.value in ("email", "domain", "ip"),
)
