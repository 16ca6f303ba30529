"""Events that take long to check, over HTTP: they are answered, and count as more than one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from api.app import create_app
from settings import Rate, Settings
from tests.api_server import Api, serving
from tests.automations.workflows import create, problem

PAIRS = "length(map(&length(map(&to_string(@), $.trigger)), trigger))"
COSTLY = list(range(150))


@asynccontextmanager
async def limited_to(settings: Settings, rate: Rate) -> AsyncGenerator[Api]:
    async with serving(create_app(settings.model_copy(update={"limit_ingest": rate}))) as api:
        yield api


async def workflow(api: Api) -> dict[str, Any]:
    return await create(await api.person(), trigger={"type": "webhook", "dedupe": PAIRS})


async def send(api: Api, made: dict[str, Any], event: Any) -> httpx.Response:
    return await api.http.post(httpx.URL(made["webhook_url"]).path, json=event)


def left(answer: httpx.Response) -> int:
    [said] = answer.headers.get_list("ratelimit")
    return int(said.split("r=")[1].split(";")[0])


async def test_an_event_that_takes_long_counts_as_more_and_its_answer_says_what_is_left(
    settings: Settings,
) -> None:
    async with limited_to(settings, Rate(10_000, 60)) as api:
        made = await workflow(api)
        assert left(await send(api, made, [])) == 9_999
        costly = await send(api, made, COSTLY)
        assert costly.status_code == 202
        assert left(costly) < 9_998
        assert left(await send(api, made, [])) == left(costly) - 1


async def test_one_that_is_refused_has_cost_as_much(settings: Settings) -> None:
    async with limited_to(settings, Rate(10_000, 60)) as api:
        made = await create(await api.person(), input_schema={"items": {"type": "integer"}})
        refused = await send(api, made, [*range(3_000), "x"])
        assert problem(refused) == (400, "invalid_input")
        assert left(refused) < 9_999


async def test_what_it_costs_can_use_the_window_up_and_the_refusal_says_why(settings: Settings) -> None:
    async with limited_to(settings, Rate(2, 60)) as api:
        made = await workflow(api)
        last = await send(api, made, COSTLY)
        assert (last.status_code, left(last)) == (202, 0)
        refused = await send(api, made, [])
        assert problem(refused) == (429, "rate_limited")
        assert "10 ms" in refused.json()["detail"]


async def test_of_very_many_at_once_each_is_answered(settings: Settings) -> None:
    async with limited_to(settings, Rate(10_000, 60)) as api:
        made = await workflow(api)
        answers = await asyncio.gather(*(send(api, made, COSTLY) for _ in range(24)))
        taken = [answer for answer in answers if answer.status_code == 202]
        refused = [answer for answer in answers if answer.status_code != 202]
        assert len(taken) >= 16
        assert len({answer.json()["run_id"] for answer in taken}) == 1
        assert {problem(answer) for answer in refused} <= {(429, "checks_waiting")}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


async def test_a_start_by_hand_is_checked_in_the_same_way_and_costs_nothing_of_the_events(
    settings: Settings,
) -> None:
    async with limited_to(settings, Rate(10_000, 60)) as api:
        person = await api.person()
        made = await create(person, input_schema={"items": {"type": "integer"}})
        run = f"/api/workflows/{made['id']}/run"
        assert (await person.key.post(run, json={"input": list(range(3_000))})).status_code == 202
        refused = await person.key.post(run, json={"input": [*range(3_000), "x"]})
        assert [error["pointer"] for error in refused.json()["errors"]] == ["/input/3000"]
        assert left(await send(api, made, [])) == 9_999
