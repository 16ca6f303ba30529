"""What watches promise: each thing told once, silence only where there is no news, and no failure hidden."""

from __future__ import annotations

import pytest
from aiohttp import web

from database import Database
from tests.automations.engine import Endpoint
from tests.templates.promises.conftest import Copied
from tests.templates.promises.world import World, day, let_pass

pytestmark = pytest.mark.long

ADA, BOB = "ada@example.com", "bob@example.com"
AMERICAN, AUSTRALIAN = "8.8.8.8", "1.1.1.1"


async def test_each_breach_of_an_employee_is_told_once(copied: Copied, world: World) -> None:
    alerts = await copied("breach-watch-for-employees")
    ada = {"name": "Ada", "email": ADA}
    world.leaks(ADA, "Adobe", "LinkedIn")
    [text] = await alerts(ada)
    assert text == (
        f"Ada should change passwords: {ADA} is in 2 breaches not told before (Adobe, LinkedIn);"
        " 2 are known, which exposed Passwords"
    )
    assert await alerts(ada) == []
    world.leaks(ADA, "LinkedIn", "Adobe", "Zynga")
    [text] = await alerts(ada)
    assert "in 1 breaches not told before (Zynga); 3 are known" in text
    world.leaks(ADA, "Zynga")
    assert await alerts(ada) == []
    world.leaks(ADA, "Zynga", "LinkedIn", "Adobe")
    assert await alerts(ada) == []


async def test_breaches_without_a_name_are_told_once_too(copied: Copied, world: World) -> None:
    alerts = await copied("breach-watch-for-employees")
    world.leaks(ADA, "Adobe", unnamed=2)
    [text] = await alerts({"email": ADA})
    assert "(Adobe, one without a name, one without a name); 3 are known" in text
    assert await alerts({"email": ADA}) == []
    world.leaks(ADA, "Adobe", unnamed=3)
    [text] = await alerts({"email": ADA})
    assert "in 1 breaches not told before (one without a name); 4 are known" in text
    # A source that is silent takes no name from a breach that was told by it.
    world.leaks_elsewhere(ADA, "Canva", "Dropbox")
    [text] = await alerts({"email": ADA})
    assert "(Canva, Dropbox)" in text
    with world.silent("xposedornot"):
        assert await alerts({"email": ADA}) == []


async def test_a_breach_is_still_known_after_years_of_nightly_exports(
    copied: Copied, world: World, database: Database
) -> None:
    alerts = await copied("breach-watch-for-employees")
    world.leaks(ADA, "Adobe")
    assert len(await alerts({"email": ADA})) == 1
    for _ in range(3):
        await let_pass(database, 200)
        assert await alerts({"email": ADA}) == []


async def test_a_breach_is_told_although_slack_is_away_for_a_moment(
    copied: Copied, world: World, receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts = await copied("breach-watch-for-employees")
    world.leaks(ADA, "Adobe")
    away = [web.json_response({}, status=503)]
    monkeypatch.setattr(receiver, "answer", lambda _: away.pop() if away else web.json_response({}))
    lost, text = await alerts({"email": ADA})
    assert lost == text and "(Adobe)" in text


async def test_what_a_silent_source_knows_of_an_employee_is_told_when_it_is_back(
    copied: Copied, world: World
) -> None:
    alerts = await copied("breach-watch-for-employees")
    world.leaks(ADA, "Adobe")
    with world.silent("leakcheck"):
        assert await alerts({"email": ADA}) == []
    [text] = await alerts({"email": ADA})
    assert "(Adobe)" in text


async def test_new_breaches_over_a_list_are_told_once_and_gaps_once_a_week(
    copied: Copied, world: World, database: Database
) -> None:
    alerts = await copied("breach-watch-over-list")
    staff = {"emails": [ADA, BOB, "nobody"]}
    world.leaks(ADA, "Adobe")
    world.leaks(BOB)
    [text] = await alerts(staff)
    assert text.splitlines()[1:] == [
        f"{ADA}: Adobe", "nobody could not be checked (invalid_input)",
    ]  # fmt: skip
    assert await alerts(staff) == []
    world.leaks(BOB, "Adobe", "Zynga", unnamed=1)
    [text] = await alerts(staff)
    assert text.splitlines()[1:] == [f"{BOB}: Adobe, Zynga, one without a name"]
    await let_pass(database, 7)
    [text] = await alerts(staff)
    assert text.splitlines()[1:] == ["nobody could not be checked (invalid_input)"]


async def test_a_list_of_which_nothing_can_be_checked_says_so_and_tells_all_later(
    copied: Copied, world: World
) -> None:
    alerts = await copied("breach-watch-over-list")
    world.leaks(ADA, "Adobe")
    with world.silent("leakcheck", "xposedornot"):
        [text] = await alerts({"emails": [ADA]})
        assert text.splitlines()[1:] == [f"{ADA} could not be checked (all_providers_failed)"]
    [text] = await alerts({"emails": [ADA]})
    assert text.splitlines()[1:] == [f"{ADA}: Adobe"]


async def test_a_list_that_is_too_long_says_so(copied: Copied, world: World) -> None:
    alerts = await copied("breach-watch-over-list")
    world.leaks(ADA)
    [text] = await alerts({"emails": [ADA] * 101})
    assert text.splitlines()[1:] == ["Only the first 100 addresses are checked"]
    staff = [f"a.person.with.a.long.name.{n}@a-company.example.com" for n in range(6)]
    for email in staff:
        world.leaks(email, *(f"Service {n}" for n in range(200)))
    [text] = await alerts({"emails": staff})
    assert text.count("Service 199") == 5
    assert text.endswith("Only the first 1,000 breaches are told: divide the list")


async def test_a_country_is_new_only_if_it_was_not_seen_for_long(
    copied: Copied, world: World, database: Database
) -> None:
    alerts = await copied("login-from-new-country")
    here, there = {"user": "ada", "ip": AMERICAN}, {"user": "ada", "ip": AUSTRALIAN}
    assert await alerts(here) == []
    for _ in range(4):
        await let_pass(database, 60)
        assert await alerts(here) == []
    [text] = await alerts(there)
    assert text == (
        "ada logs in from Australia, where they have not logged in from in the last 90 days (IP 1.1.1.1)"
    )
    await let_pass(database, 60)
    assert await alerts(there) == []
    await let_pass(database, 60)
    assert await alerts(there) == []
    assert len(await alerts(here)) == 1


async def test_users_are_not_taken_for_one_another(copied: Copied) -> None:
    alerts = await copied("login-from-new-country")
    for user in ("ada", "ada US", "7", 7):
        assert await alerts({"user": user, "ip": AMERICAN}) == [], user


async def test_a_visitor_from_tor_is_told_again_the_next_day(copied: Copied, database: Database) -> None:
    alerts = await copied("alert-on-tor")
    for _ in range(2):
        assert len(await alerts({"ip": "185.220.101.1"})) == 1
        await let_pass(database, 0.9)
        assert await alerts({"ip": "185.220.101.1"}) == []
        await let_pass(database, 0.2)


async def test_a_visitor_who_came_while_the_list_of_exits_was_missing_is_told_when_it_is_back(
    copied: Copied, world: World
) -> None:
    alerts = await copied("alert-on-tor")
    with world.silent("tor"):
        assert await alerts({"ip": "185.220.101.1"}) == []
    [text] = await alerts({"ip": "185.220.101.1"})
    assert text.startswith("A visitor comes from Tor: 185.220.101.1 ")


async def test_a_log_in_from_nobody_knows_where_makes_no_country_known(copied: Copied, world: World) -> None:
    alerts = await copied("login-from-new-country")
    here, there = {"user": "eve", "ip": AMERICAN}, {"user": "eve", "ip": AUSTRALIAN}
    assert await alerts(here) == []
    with world.silent("dbip"):
        assert await alerts(there) == []
    assert await alerts(here) == []
    assert len(await alerts(there)) == 1
    assert await alerts({"user": "eve", "ip": "10.0.0.1"}) == []


async def test_the_daily_report_tells_which_mentions_are_new(copied: Copied, world: World) -> None:
    alerts = await copied("daily-dark-web-report")
    names = {"names": ["example.org", "example.net"]}
    world.mentions("example.org", "Dump", "Sale")
    world.mentions("example.net")
    [text] = await alerts(names)
    assert text.splitlines()[1:] == [
        "example.org: 2 mentions, new: 2 (Dump; Sale)", "example.net: 0 mentions, new: none",
    ]  # fmt: skip
    world.mentions("example.org", "Offer", "Dump", "Sale")
    [text] = await alerts(names)
    assert text.splitlines()[1] == "example.org: 3 mentions, new: 1 (Offer)"
    with world.silent("ahmia"):
        [text] = await alerts({"names": ["example.org", ADA]})
        assert text.splitlines()[1:] == [
            "example.org: nothing is known, for not all sources have answered", f"{ADA}: the search failed",
        ]  # fmt: skip
        [text] = await alerts({"names": [ADA]})
        assert text.splitlines()[1:] == [f"{ADA}: the search failed"]
    [text] = await alerts(names)
    assert text.splitlines()[1] == "example.org: 3 mentions, new: none"


async def test_only_new_mentions_are_told_and_failures_once_a_week(
    copied: Copied, world: World, database: Database
) -> None:
    alerts = await copied("new-dark-web-mentions")
    names = {"names": ["example.org", ADA]}
    world.mentions("example.org", "Dump")
    world.mentions(ADA)
    [text] = await alerts(names)
    assert text.splitlines()[1:] == ["example.org: 1 new (Dump)"]
    assert await alerts(names) == []
    with world.silent("ahmia"):
        [text] = await alerts(names)
        assert text.splitlines()[1:] == [f"{ADA}: the search failed (all_providers_failed)"]
        assert await alerts(names) == []
        await let_pass(database, 7)
        assert len(await alerts(names)) == 1
    await let_pass(database, 300)
    assert await alerts(names) == []
    await let_pass(database, 300)
    world.mentions("example.org", "Sale", "Dump")
    [text] = await alerts(names)
    assert text.splitlines()[1:] == ["example.org: 1 new (Sale)"]


async def test_as_many_names_as_are_promised_can_be_searched(copied: Copied, world: World) -> None:
    names = [f"name{n}.example.org" for n in range(41)]
    for name in names:
        world.mentions(name, *(f"A page of the dark web, number {n} of twenty" for n in range(20)))
    for template_id in ("daily-dark-web-report", "new-dark-web-mentions"):
        alerts = await copied(template_id)
        [text] = await alerts({"names": names})
        assert text.count(": 20 new (") == 40 or text.count("20 mentions, new: 20 (") == 40
        assert text.endswith("Only the first 40 names are searched")


async def test_the_end_of_a_domain_is_told_once_a_week_and_never_passed_over(
    copied: Copied, world: World, database: Database
) -> None:
    alerts = await copied("domain-expiry-watch")
    watched = {"domains": ["soon.example.com", "example.net"]}
    world.domain("example.net", expires=400)
    world.domain("example.com", expires=10)
    world.zone["soon.example.com"] = {"A": ["192.0.2.1"]}
    soon = f"soon.example.com: it ends on {day(10)}"
    assert await alerts(watched) == [soon]
    assert await alerts(watched) == []
    await let_pass(database, 7)
    world.domain("example.com", expires=-2)
    assert await alerts(watched) == [f"soon.example.com: it has ended on {day(-2)}"]
    world.no_domain("example.com")
    assert await alerts(watched) == ["soon.example.com: it is not registered"]
    await let_pass(database, 7)
    assert await alerts(watched) == ["soon.example.com: it is not registered"]
    world.domain("example.com")
    assert await alerts(watched) == []


async def test_an_end_that_cannot_be_found_out_is_told(
    copied: Copied, world: World, database: Database
) -> None:
    alerts = await copied("domain-expiry-watch")
    world.domain("example.net", expires=None)
    world.domain("example.com")
    assert await alerts({"domains": ["example.net"]}) == ["example.net: nobody says when it ends"]
    with world.silent("rdapdomain"):
        assert await alerts({"domains": ["example.com"]}) == [
            "example.com: when it ends could not be found out"
        ]
    assert await alerts({"domains": ["example.com"]}) == []
    with world.silent("rdapdomain", "tls"):
        assert await alerts({"domains": ["example.com", "no domain"]}) == [
            "example.com: it could not be looked up (all_providers_failed)\n"
            "no domain: it could not be looked up (invalid_input)"
        ]
    assert await alerts({"domains": ["example.com"]}) == []


async def test_the_end_of_a_certificate_is_told_and_so_is_one_that_cannot_be_read(
    copied: Copied, world: World
) -> None:
    alerts = await copied("domain-expiry-watch")
    world.domain("example.com")
    with world.silent("tls"):
        assert await alerts({"domains": ["example.com"]}) == [
            "example.com: its certificate could not be read"
        ]
    world.certificate(5)
    assert await alerts({"domains": ["example.com"]}) == [f"example.com: its certificate ends on {day(5)}"]
    world.certificate(-5)
    assert await alerts({"domains": ["example.com"]}) == [
        f"example.com: its certificate has ended on {day(-5)}"
    ]
    world.certificate(400)
    assert await alerts({"domains": ["example.com"]}) == []


async def test_domains_beyond_the_first_200_are_not_passed_over_in_silence(copied: Copied) -> None:
    alerts = await copied("domain-expiry-watch")
    [text] = await alerts({"domains": ["no domain"] * 201})
    assert text.endswith("Only the first 200 domains are looked at")
