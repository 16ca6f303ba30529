"""Intelligence X has two hosts, for keys of paid accounts and for those of free ones."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from aiohttp import web

from providers.darkweb.intelx import SOURCE, SearchResult
from providers.darkweb.kind import normalise
from providers.sources.base import Context, SourceError, Unsure

RECORDS: list[dict[str, Any]] = [{"systemid": "1", "bucket": "pastes", "name": "amber", "date": None}]


async def search(takes: set[str]) -> tuple[Any, list[str]]:
    """Search at two hosts of which those in `takes` take the key; what is found, and what was asked."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        host = request.match_info["host"]
        asked.append(f"{host} {request.method}")
        if host not in takes:
            return web.Response(status=401)
        told: dict[str, Any] = (
            {"id": "1", "status": 0} if request.method == "POST" else {"records": [], "status": 1}
        )
        return web.json_response(told)

    app = web.Application()
    app.router.add_route("*", "/{host}/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            context = Context(client, f"{url}/paid,{url}/free", "key", SOURCE.spec.timeout)
            return await SOURCE.fetch(normalise("example.com", "/query"), context), asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("takes", "asked"),
    [
        ({"paid", "free"}, ["paid POST", "paid GET"]),
        ({"free"}, ["paid POST", "free POST", "free GET"]),
    ],
)
async def test_a_key_that_one_host_does_not_take_is_tried_at_the_other(
    takes: set[str], asked: list[str]
) -> None:
    assert await search(takes) == (SearchResult([]), asked)


@pytest.mark.parametrize("records", [[], RECORDS])
def test_what_is_found_before_a_search_has_ended_may_not_be_all(records: list[dict[str, Any]]) -> None:
    whole = SOURCE.parse(SearchResult(records))
    part = SOURCE.parse(SearchResult(records, ended=False))
    assert part == {path: Unsure(whole.get(path)) for path in ("results", "total")}


async def test_a_key_that_no_host_takes_is_refused() -> None:
    with pytest.raises(SourceError) as failed:
        await search(set())
    assert failed.value.status == "auth_failed"


@pytest.mark.parametrize(
    ("media", "forum"),
    [(3, "forum"), (4, "board"), (5, "thread"), (6, "post"), (7, "user"), (1, None), (9, None), (None, None)],
)
def test_what_is_of_a_forum_says_which_part(media: int | None, forum: str | None) -> None:
    record = RECORDS[0] | {"bucket": "darknet.tor", "media": media}
    [found] = SOURCE.parse(SearchResult([record]))["results"]
    assert found.get("forum") == (forum and {"name": "amber", "part": forum})
