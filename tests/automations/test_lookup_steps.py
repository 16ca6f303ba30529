"""Lookup steps: every kind, with its answer and its price. What sources answer is tested by kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from database import Database
from models.runs.run_views import RunView
from notifications import Notifier
from tests.automations import sources
from tests.automations.engine import NewTarget, accept, ended
from tests.automations.sources import Account, books

providers, live_settings, account = sources.providers, sources.live_settings, sources.account

RunFor = Callable[..., Awaitable[RunView]]

BESIDE = "credits cached partial providers sources conflicts"
# The query, what it costs, the fields of the answer by contract, and some of what the sources know.
KINDS: dict[str, tuple[str, int, str, dict[str, Any]]] = {
    "email": (
        "ada@example.com", 1,
        "email first_name last_name name company job_role role seniority department industry location country"
        " city birthplace current_location bio age gender education phone photo languages skills"
        " company_domain company_size validity is_disposable is_role_account is_free_provider mx_found"
        " checks socials breach registered_services news publications other_people",
        {"email": "ada@example.com", "name": "Ada Lovelace", "mx_found": True},
    ),
    "phone": (
        "+14155552671", 1,
        "phone valid type location format country carrier messaging validation registration risk breaches",
        {"phone": "+14155552671", "valid": True, "location": "San Francisco, CA"},
    ),
    "company": (
        "Example Bank", 2, "company results profile total candidates",
        {"company": "Example Bank", "total": 2, "candidates": []},
    ),
    "domain": (
        "example.com", 1, "domain whois dns ssl threat hosting", {"domain": "example.com"},
    ),
    "ip": (
        "8.8.8.8", 0, "ip_address hostname security asn company location timezone threat malware",
        {"ip_address": "8.8.8.8"},
    ),
    "darkweb": (
        "example.com", 1, "query total result_count results message",
        {"query": "example.com", "total": 2, "result_count": 2},
    ),
    "breach": (
        "ada@example.com", 0, "email breaches services exposed_data spam_lists retired message",
        {"email": "ada@example.com", "breaches": 5},
    ),
    "username": ("ada", 1, "username total found checked", {"username": "ada", "total": 1, "checked": 1}),
    "websearch": ("Ada Lovelace", 1, "query results total enrichment", {"query": "Ada Lovelace"}),
}  # fmt: skip


@pytest.fixture
def run_for(database: Database, notifier: Notifier, new_target: NewTarget) -> RunFor:
    """Runs steps for an account, and gives the finished run."""

    async def follow(account_id: UUID, steps: list[dict[str, Any]], payload: Any = None) -> RunView:
        target = await new_target(steps, account_id=account_id)
        [run_id] = await accept(database, target, 1, payload)
        return await ended(database, notifier, account_id, run_id)

    return follow


def look(kind: str, value: str, **more: Any) -> dict[str, Any]:
    return {"id": "look", "type": f"{kind}_lookup", "config": {"value": value}, **more}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_lookup_is_a_step_with_the_lookups_answer_and_price(
    database: Database, account: Account, run_for: RunFor, kind: str
) -> None:
    query, price, fields, known = KINDS[kind]
    view = await run_for(await account(10), [look(kind, query)])
    assert (view.status, view.error) == ("completed", None)
    [step] = view.steps
    assert step.input == query and step.output == view.output
    judged = {"verdict"} if kind in ("email", "domain", "ip") else set[str]()
    assert step.output.keys() == {*fields.split(), *BESIDE.split()} | judged
    assert step.output | known == step.output and step.output["partial"] is False
    assert step.output["credits"] == step.credits_used == view.credits_used == price
    assert await books(database, view.id) == (10 - price, [price] if price else [], price)


@pytest.mark.executions("shift", "workflow")
async def test_items_are_charged_one_by_one_and_their_credits_are_the_steps(
    database: Database, account: Account, run_for: RunFor
) -> None:
    numbers = ["+14155552671", "+447400123456"]
    view = await run_for(await account(10), [look("phone", "{{ item }}", for_each="trigger")], numbers)
    assert [output["phone"] for output in view.output] == numbers
    assert view.steps[0].credits_used == view.credits_used == 2
    assert await books(database, view.id) == (8, [1, 1], 2)


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("kind", [kind for kind, (_, price, _, _) in KINDS.items() if price])
async def test_without_credits_a_step_fails_at_once_and_nothing_is_charged(
    database: Database, account: Account, run_for: RunFor, kind: str
) -> None:
    view = await run_for(await account(0), [look(kind, KINDS[kind][0], retry={"initial_seconds": 0.01})])
    assert view.error is not None and view.error["code"] == "insufficient_credits"
    assert (view.status, view.steps[0].attempts, view.steps[0].output) == ("failed", 1, None)
    assert view.steps[0].credits_used == 0
    assert await books(database, view.id) == (0, [], 0)


@pytest.mark.executions("shift", "workflow")
async def test_items_without_credits_fail_the_run_although_it_may_go_on_without_items(
    account: Account, run_for: RunFor
) -> None:
    step = look("phone", "{{ item }}", for_each="trigger", on_error="continue")
    view = await run_for(await account(1), [step], ["+14155552671", "+447400123456"])
    assert view.error is not None and (view.status, view.error["code"]) == ("failed", "insufficient_credits")
    assert (view.items_total, view.credits_used) == (2, 1)
