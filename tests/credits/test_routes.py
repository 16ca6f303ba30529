"""Credits over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

import pytest
from fastapi import APIRouter

from api.app import create_app
from api.deps import Caller, ServicesDep, require_scope
from api.http.strict_route import StrictRoute
from models.credits import credits
from models.credits.credits import Booking
from models.identifiers import new_id
from settings import Settings
from tests.api_server import Api, serving

router = APIRouter(route_class=StrictRoute)


@router.post("/api/spend/{amount}")
async def spend(
    amount: int, caller: Annotated[Caller, require_scope("lookups")], services: ServicesDep
) -> int:
    async with services.database.connection() as connection:
        key = caller.credential_id if caller.kind == "key" else None
        change = await credits.charge(
            connection, Booking(caller.account_id, amount, f"spend/{new_id()}", "test", key_id=key)
        )
    return change.balance


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    app = create_app(settings)
    app.include_router(router)
    async with serving(app) as api:
        yield api


async def test_the_balance_says_what_is_there_held_and_used(api: Api) -> None:
    person = await api.person(credits=50)
    await person.key.post("/api/spend/8")
    async with api.services.database.connection() as connection:
        await credits.hold(connection, Booking(person.account.id, 10, f"hold/{new_id()}", "test"))
    body = (await person.key.get("/api/credits")).json()
    assert (body["balance"], body["held"], body["used"], body["currency"]) == (32, 10, 8, "credits")
    assert body["low_balance_threshold"] == 100
    assert body["auto_topup"] == {"enabled": False, "threshold": 0, "amount": 0, "monthly_cap": None}


async def test_402_says_what_is_needed_and_what_is_there(api: Api) -> None:
    person = await api.person(credits=5)
    response = await person.key.post("/api/spend/6")
    problem = response.json()
    assert (response.status_code, problem["code"]) == (402, "insufficient_credits")
    assert (problem["required"], problem["balance"]) == (6, 5)


async def test_what_a_key_spends_is_counted_for_it(api: Api) -> None:
    person = await api.person(credits=50)
    await person.key.post("/api/spend/8")
    await person.session.post("/api/spend/9")
    (key,) = (await person.session.get("/api/keys")).json()["keys"]
    assert key["credits_used"] == 8


async def test_the_ledger_is_paged_newest_first_and_sums_to_the_balance(api: Api) -> None:
    person = await api.person(credits=50)
    for amount in range(1, 6):
        await person.key.post(f"/api/spend/{amount}")
    amounts: list[int] = []
    cursor: str | None = None
    while True:
        parameters = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await person.key.get("/api/credits/ledger", params=parameters)).json()
        amounts += [entry["amount"] for entry in page["entries"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert amounts == [-5, -4, -3, -2, -1, 50]


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30, "", "１"])
async def test_a_cursor_that_we_did_not_give_is_refused(api: Api, cursor: str) -> None:
    person = await api.person()
    response = await person.key.get("/api/credits/ledger", params={"cursor": cursor})
    assert (response.status_code, response.json()["errors"][0]["code"]) == (400, "invalid_cursor")


async def test_the_low_balance_threshold_can_be_chosen(api: Api) -> None:
    person = await api.person()
    response = await person.key.patch("/api/credits", json={"low_balance_threshold": 7})
    assert (response.status_code, response.json()["low_balance_threshold"]) == (200, 7)
    assert (await person.key.get("/api/credits")).json()["low_balance_threshold"] == 7
    shown = response.json()
    edited = await person.key.patch(
        "/api/credits", json={**shown, "low_balance_threshold": 8, "balance": 10**6}
    )
    assert {**edited.json(), "updated_at": ""} == {**shown, "low_balance_threshold": 8, "updated_at": ""}
    response = await person.key.patch("/api/credits", json={"low_balance_threshold": -1})
    assert response.json()["errors"][0]["pointer"] == "/low_balance_threshold"


WANTED = {"enabled": True, "threshold": 10, "amount": 100, "monthly_cap": 500}


async def test_auto_top_up_is_set_by_a_session_only(api: Api) -> None:
    person = await api.person()
    assert (await person.session.put("/api/credits/auto-topup", json=WANTED)).json() == WANTED
    assert (await person.key.get("/api/credits")).json()["auto_topup"] == WANTED
    response = await person.key.put("/api/credits/auto-topup", json=WANTED)
    assert (response.status_code, response.json()["code"]) == (403, "session_required")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"amount": 0}, "/amount"),
        ({"amount": 99, "threshold": 100_000}, "/amount"),
        ({"threshold": 0}, "/threshold"),
        ({"monthly_cap": 99}, "/monthly_cap"),
        ({"amount": -1}, "/amount"),
        ({"amount": 2**63}, "/amount"),
        ({"threshold": 1.5}, "/threshold"),
        ({"enabled": "very"}, "/enabled"),
    ],
)
async def test_figures_that_do_not_go_together_are_refused(
    api: Api, change: dict[str, object], pointer: str
) -> None:
    person = await api.person()
    response = await person.session.put("/api/credits/auto-topup", json={**WANTED, **change})
    assert response.status_code == 400
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


async def test_auto_top_up_is_switched_off_alone_and_keeps_its_figures(api: Api) -> None:
    person = await api.person()
    await person.session.put("/api/credits/auto-topup", json=WANTED)
    answer = await person.session.put("/api/credits/auto-topup", json={"enabled": False})
    assert (answer.status_code, answer.json()) == (200, {**WANTED, "enabled": False})
    answer = await person.session.put("/api/credits/auto-topup", json={"enabled": False, "monthly_cap": None})
    assert answer.json() == {**WANTED, "enabled": False, "monthly_cap": None}
    assert (await person.key.get("/api/credits")).json()["auto_topup"] == answer.json()


@pytest.mark.parametrize("missing", ["threshold", "amount"])
async def test_auto_top_up_is_not_switched_on_without_its_figures(api: Api, missing: str) -> None:
    person = await api.person()
    wanted = {name: value for name, value in WANTED.items() if name != missing}
    response = await person.session.put("/api/credits/auto-topup", json=wanted)
    found = [(error["pointer"], error["code"]) for error in response.json()["errors"]]
    assert found == [(f"/{missing}", "required")]
    assert not (await person.key.get("/api/credits")).json()["auto_topup"]["enabled"]
