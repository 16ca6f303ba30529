"""Unknown, none and failed are three things, whoever answers and whoever does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from models.lookups import provider_states
from models.lookups.lookups import FAILURES, AllProvidersFailed
from providers.breach.kind import KIND as BREACH
from providers.darkweb.mentions import mention
from providers.lookup import samples
from providers.lookup.composition import Selection, compose
from providers.lookup.coverage import unheard_fields
from providers.lookup.offline_answers import lack_of
from providers.lookup.questions import LookupOptions
from providers.lookup.result import NO_DATA, LookupResult, SourceResult, is_within
from providers.registry import KINDS, lookup_fields
from providers.sources import verdicts
from providers.sources.base import RemoteSource, Source
from providers.sources.kind import Kind
from settings import Rate
from tests.lookups.composing import NOW, answer
from tests.lookups.conftest import World, spec
from tests.stacks import eventually

SILENT = [
    *(SourceResult(status, detail="x") for status in sorted(FAILURES)),
    SourceResult("skipped", detail=NO_DATA),
    SourceResult("cached", stale=True),
]
# Not a claim that there is nothing, although it is zero or false.
PLAIN_VALUES = {"location.longitude", "location.latitude", "timezone.utc_offset", "result_count", "checked"}


def leaves(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted path → value, without what stands in lists."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        path = f"{prefix}{name}"
        found |= leaves(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return found


@st.composite
def stories(draw: st.DrawFn) -> tuple[Kind, list[tuple[Source, SourceResult]]]:
    """A kind, and what became of each of its sources: knows nothing, or says no to all, or is silent."""
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    outcomes: list[tuple[Source, SourceResult]] = []
    for source in kind.sources:
        noes = {path: False for path in source.fields if _is_flag(kind, path)}
        said = [
            SourceResult("empty"),
            SourceResult("ok", noes),
            SourceResult("skipped", detail="no_key"),
            *SILENT,
        ]
        outcomes.append((source, draw(st.sampled_from(said))))
    return kind, outcomes


def _is_flag(kind: Kind, path: str) -> bool:
    return path.rpartition(".")[2].startswith(("is_", "mx_found", "malicious", "registered"))


@given(stories())
def test_nothing_is_none_or_false_before_everyone_who_could_know_has_answered(
    story: tuple[Kind, list[tuple[Source, SourceResult]]],
) -> None:
    kind, outcomes = story
    result = answer(kind, outcomes)
    could = {path for source, outcome in outcomes if outcome.silent for path in source.fields}
    derived = {path for path, origins in kind.origins.items() if not could.isdisjoint(origins)}
    wrong = {
        path: value
        for path, value in leaves(result.data).items()
        if path in could | derived and (value is False or value == 0) and path not in PLAIN_VALUES
    }
    # That a search brought nobody is what a list of nobody has as its length. A count is what was heard of.
    assert wrong.keys() <= kind.counted | ({"total"} if kind.name == "company" else set())
    assert kind.counted & wrong.keys() <= unheard_fields(kind, result)
    assert result.partial == any(outcome.silent for _, outcome in outcomes)
    assert "No known" not in str(result.data.get("message")) or not could


def of_breaches(**outcomes: SourceResult) -> LookupResult:
    told = [(source, outcomes.get(source.spec.name, SourceResult("empty"))) for source in BREACH.sources]
    return answer(BREACH, told)


@pytest.mark.parametrize("silent", SILENT, ids=lambda outcome: f"{outcome.status}-{outcome.detail}")
@pytest.mark.parametrize("name", [source.spec.name for source in BREACH.sources])
def test_one_source_that_is_silent_leaves_a_zero_unheard_and_is_named(
    name: str, silent: SourceResult
) -> None:
    result = of_breaches(**{name: silent})
    assert (result.data["breaches"], result.partial) == (0, True)
    assert result.data["message"].endswith(f"There may be more: no answer from {name}.")
    assert unheard_fields(BREACH, result) == {"breaches"}


def test_without_a_breach_there_is_none_once_everyone_has_answered() -> None:
    result = of_breaches()
    assert (result.data["breaches"], result.partial) == (0, False)
    assert result.data["message"] == "No known breach contains this address."
    assert unheard_fields(BREACH, result) == frozenset()


@pytest.mark.parametrize(
    ("others", "code"),
    [
        (SourceResult("timeout"), "all_providers_failed"),
        (SourceResult("skipped", detail="disabled"), "no_provider"),
    ],
    ids=["failed", "switched off"],
)
def test_nothing_of_another_sort_of_data_is_no_answer_where_nobody_who_could_know_has_given_one(
    others: SourceResult, code: str
) -> None:
    result = of_breaches(hibp=others, xposedornot=others, leakcheck=others)
    refusal = lack_of(result)
    assert refusal is not None and refusal.code == code
    assert unheard_fields(BREACH, result) == {"breaches"}


DARKWEB = KINDS["darkweb"]


def of_mentions(**outcomes: SourceResult) -> LookupResult:
    off = SourceResult("skipped", detail="no_key")
    return answer(DARKWEB, [(source, outcomes.get(source.spec.name, off)) for source in DARKWEB.sources])


FOUND = SourceResult("ok", {"results": [mention("ahmia", title="A page", body=None)], "total": 1})


@pytest.mark.parametrize(
    ("outcomes", "total", "message", "unheard"),
    [
        ({"ahmia": FOUND}, 1, "One mention was found.", False),
        (
            {"ahmia": FOUND, "intelx": SourceResult("timeout")},
            1,
            "One mention was found. There may be more: no answer from intelx.",
            False,
        ),
        ({"ahmia": SourceResult("empty")}, 0, "No mentions were found.", False),
        (
            {"ahmia": SourceResult("empty"), "intelx": SourceResult("rate_limited")},
            0,
            "No mentions were found. There may be more: no answer from intelx.",
            True,
        ),
    ],
)
def test_mentions_are_counted_by_those_who_have_answered_and_the_silent_are_named(
    outcomes: dict[str, SourceResult], total: int, message: str, unheard: bool
) -> None:
    result = of_mentions(**outcomes)
    assert (result.data["total"], result.data["message"]) == (total, message)
    assert result.partial == ("There may be more" in message)
    assert unheard_fields(DARKWEB, result) == ({"total"} if unheard else frozenset())


def test_of_breaches_that_are_known_it_is_said_that_there_may_be_more() -> None:
    result = of_breaches(hibp=SourceResult("ok", {"services": ["Adobe"]}), leakcheck=SourceResult("timeout"))
    assert result.data["breaches"] == 1
    assert result.data["message"].endswith("There may be more: no answer from leakcheck.")


IP = KINDS["ip"]


def of_ip(**outcomes: SourceResult) -> LookupResult:
    off = SourceResult("skipped", detail="disabled")
    return answer(IP, [(source, outcomes.get(source.spec.name, off)) for source in IP.sources])


def test_a_false_is_unknown_while_a_list_that_could_lift_it_is_missing() -> None:
    said = SourceResult("ok", {"threat.is_tor": False, "threat.abuse_score": 0})
    assert of_ip(abuseipdb=said).data["threat"]["is_tor"] is False
    missing = of_ip(abuseipdb=said, tor=SourceResult("skipped", detail=NO_DATA))
    assert (missing.data["threat"]["is_tor"], missing.partial) == (None, True)
    assert "threat.is_tor" not in missing.sources


def test_a_true_stands_whoever_is_silent() -> None:
    result = of_ip(
        abuseipdb=SourceResult("ok", {"threat.is_tor": True}), tor=SourceResult("skipped", detail=NO_DATA)
    )
    assert result.data["threat"]["is_tor"] is True


def test_a_zero_of_some_time_ago_does_not_stand_in() -> None:
    kept = {"threat.distinct_users": 0, "threat.usage_type": "Data Center", "threat.is_whitelisted": False}
    result = of_ip(abuseipdb=SourceResult("cached", kept, stale=True))
    told = result.data["threat"]
    assert (told["distinct_users"], told["is_whitelisted"], told["usage_type"]) == (None, None, "Data Center")


def test_what_one_source_names_twice_counts_once() -> None:
    result = of_breaches(leakcheck=SourceResult("ok", {"services": ["Last.fm", "LastFM", ""]}))
    assert (result.data["breaches"], result.data["services"]) == (1, ["Last.fm"])


def test_one_company_is_no_conflict_whatever_its_legal_form_and_spelling() -> None:
    said = {
        "abstractip": {"asn.name": "Cloudflare", "company.name": "Cloudflare"},
        "asn": {"asn.name": "Cloudflare, Inc."},
        "cloud": {"company.name": "CLOUDFLARE INC"},
        "rdap": {"company.name": "APNIC and Cloudflare DNS Resolver project"},
    }
    result = of_ip(**{name: SourceResult("ok", fields) for name, fields in said.items()})
    assert (result.data["asn"]["name"], result.data["company"]["name"]) == ("Cloudflare", "Cloudflare")
    assert result.sources["asn.name"] == ["abstractip", "asn"]
    assert result.sources["company.name"] == ["abstractip", "cloud"]
    assert result.conflicts.keys() == {"company.name"}


# A choice of fields


@st.composite
def choices(draw: st.DrawFn) -> tuple[Kind, list[tuple[Source, SourceResult]], str]:
    """A kind, what became of each of its sources, and one field that is wanted."""
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    known = samples.fields_of(kind)
    outcomes: list[tuple[Source, SourceResult]] = []
    for source in kind.sources:
        could = sorted(source.fields & known.keys())
        told = {path: known[path] for path in could if draw(st.booleans())}
        outcomes.append(
            (source, draw(st.sampled_from([SourceResult("ok", told), SourceResult("empty"), *SILENT])))
        )
    return kind, outcomes, draw(st.sampled_from(sorted(lookup_fields()[kind.name])))


@given(choices())
def test_a_pruned_answer_says_the_same_as_the_whole(
    choice: tuple[Kind, list[tuple[Source, SourceResult]], str],
) -> None:
    kind, outcomes, field = choice
    needed = kind.find_needed([field])
    unwanted = SourceResult("skipped", detail="not_wanted")
    asked = [
        (source, outcome if any(is_within(path, needed) for path in source.fields) else unwanted)
        for source, outcome in outcomes
    ]
    query = kind.normalise(kind.example, "")
    whole = compose(kind, query, outcomes, NOW).answer(fields=[field])
    pruned = compose(kind, query, asked, NOW, Selection(fields=[field])).answer(fields=[field])
    about_sources = {"providers", "cached", "partial", "credits"}
    assert {name: pruned[name] for name in pruned.keys() - about_sources} == {
        name: whole[name] for name in whole.keys() - about_sources
    }


@pytest.mark.parametrize(
    ("kind", "said", "fields", "credits"),
    [
        ("phone", {"phonenumbers": {"valid": True}}, ["risk"], 1),
        ("email", {"abstractemail": {"validity": "valid", "first_name": "Ada"}}, ["validity"], 0),
        ("email", {"abstractemail": {"validity": "valid", "first_name": "Ada"}}, ["first_name"], 1),
        ("company", {"hunterdomain": {"results": [{"name": "Ada"}]}}, ["profile"], 0),
        ("company", {"hunterdomain": {"results": [{"name": "Ada"}]}}, ["results"], 1),
        ("darkweb", {"ahmia": {"results": [{"crawl_date": "2026"}]}}, ["total"], 1),
    ],
)
def test_what_is_paid_for_is_what_is_delivered(
    kind: str, said: dict[str, dict[str, Any]], fields: list[str], credits: int
) -> None:
    chosen = KINDS[kind]
    told = [
        (
            source,
            SourceResult("ok", said[source.spec.name]) if source.spec.name in said else SourceResult("empty"),
        )
        for source in chosen.sources
    ]
    query = chosen.normalise(chosen.example, "")
    assert compose(chosen, query, told, NOW, Selection(fields=fields)).credits == credits


# Judgements


@pytest.mark.parametrize(
    ("said", "level", "codes"),
    [
        ({}, "unknown", []),
        ({"abuseipdb": {"threat.abuse_score": 3}}, "clean", ["little_abuse_reported"]),
        ({"abuseipdb": {"threat.abuse_score": 40}}, "suspicious", ["some_abuse_reported"]),
        ({"abuseipdb": {"threat.abuse_score": 90}}, "malicious", ["abuse_reported"]),
        ({"tor": {"security.is_tor": True}}, "suspicious", ["tor_exit"]),
        (
            {"abuseipdb": {"threat.abuse_score": 90}, "tor": {"security.is_tor": True}},
            "malicious",
            ["abuse_reported", "tor_exit"],
        ),
    ],
)
def test_an_address_is_judged_by_the_worst_that_is_seen(
    said: dict[str, dict[str, Any]], level: str, codes: list[str]
) -> None:
    verdict = of_ip(**{name: SourceResult("ok", fields) for name, fields in said.items()}).data["verdict"]
    assert (verdict["level"], [reason["code"] for reason in verdict["reasons"]]) == (level, codes)
    assert {reason["source"] for reason in verdict["reasons"]} <= said.keys()


@pytest.mark.parametrize("silent", SILENT, ids=lambda outcome: f"{outcome.status}-{outcome.detail}")
def test_nothing_is_clean_while_one_is_silent_who_could_say_otherwise(silent: SourceResult) -> None:
    said = SourceResult("ok", {"threat.abuse_score": 3})
    assert of_ip(abuseipdb=said, spamhaus=silent).data["verdict"]["level"] == "unknown"
    assert of_ip(abuseipdb=said, ptr=silent).data["verdict"]["level"] == "clean"


def test_a_reason_names_those_who_say_so_themselves() -> None:
    said = {"hudsonrock": ["Infostealer malware"], "hibp": ["Adobe"]}
    kind = KINDS["email"]
    told = [
        (source, SourceResult("ok", {"breach.services": said[source.spec.name]}))
        if source.spec.name in said
        else (source, SourceResult("empty"))
        for source in kind.sources
    ]
    assert answer(kind, told).data["verdict"] == {
        "level": "suspicious",
        "reasons": [
            {"code": "infected_computer", "source": "hudsonrock", "field": "breach.services", "weight": 40}
        ],
    }


def test_every_sign_reads_a_field_of_its_kind() -> None:
    for name, signs in {"ip": verdicts.IP, "domain": verdicts.DOMAIN, "email": verdicts.EMAIL}.items():
        filled = {path for source in KINDS[name].sources for path in source.fields} | KINDS[
            name
        ].origins.keys()
        assert {path for sign in signs for path in sign.fields} <= filled


# What stands in


async def test_an_empty_answer_never_stands_in_beyond_its_time(world: World) -> None:
    await world.provider("a")
    await world.provider("b", b__value=1)
    lookups = await world.process(spec("a", negative_ttl=0.05, stale_ttl=3600), spec("b"))
    assert not (await lookups.lookup("word", "apple")).partial
    world.providers["a"].says(503)
    result = await lookups.lookup("word", "apple", LookupOptions(max_age=3600))
    while result.reports()[0]["status"] == "cached":
        result = await lookups.lookup("word", "apple", LookupOptions(max_age=3600))
    assert (result.reports()[0]["status"], result.partial) == ("error", True)


async def test_what_stands_in_says_when_it_was_fetched_and_makes_the_answer_partial(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process(spec("a", ttl=0.05, stale_ttl=3600))
    first = await lookups.lookup("word", "apple")
    world.providers["a"].says(503)
    result = await lookups.lookup("word", "apple", LookupOptions(max_age=3600))
    while not result.reports()[0].get("stale"):
        result = await lookups.lookup("word", "apple", LookupOptions(max_age=3600))
    assert (result.data["a"]["value"], result.partial) == (1, True)
    assert result.reports()[0]["fetched_at"] == first.reports()[0]["fetched_at"]


# One caller's odd input


@pytest.mark.parametrize("code", [400, 404, 422, 451])
async def test_queries_that_are_rejected_disable_a_source_for_nobody(code: int, world: World) -> None:
    provider = await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    lookups = await world.process()
    provider.says(code)
    for word in ("ae", "be", "ce", "de", "ee", "fe", "ge"):
        assert (await lookups.lookup("word", word)).reports()[0]["status"] == "rejected"
    provider.respond = None
    other = await world.process()
    for process in (lookups, other):
        assert (await process.lookup("word", "apple")).data["a"]["value"] == 1


async def test_a_rejected_query_closes_a_breaker_as_any_answer_does(world: World) -> None:
    provider = await world.provider("a", a__value=1)
    await world.provider("b", b__value=1)
    lookups = await world.process()
    provider.says(500)
    for word in ("ae", "be", "ce", "de", "ee"):
        await lookups.lookup("word", word)
    async with world.database.connection() as connection:  # its time is over
        await connection.execute("update provider_states set blocked_until = now() - interval '1 s'")
    provider.says(400)
    another = await world.process()
    assert (await another.lookup("word", "odd")).reports()[0]["status"] == "rejected"
    provider.respond = None
    assert (await another.lookup("word", "good")).reports()[0]["status"] == "ok"


@pytest.mark.parametrize(("code", "repeatable"), [(400, False), (500, True)])
async def test_what_every_source_rejects_is_not_worth_repeating(
    code: int, repeatable: bool, world: World
) -> None:
    (await world.provider("a")).says(code)
    with pytest.raises(AllProvidersFailed) as failed:
        await (await world.process()).lookup("word", "apple")
    assert failed.value.repeatable is repeatable


# Quotas


async def test_sources_of_one_account_share_what_it_allows(world: World) -> None:
    for name in ("a", "b"):
        await world.provider(name, **{f"{name}__value": 1})
    lookups = await world.process(
        *(spec(name, rates=(Rate(3, 3600),), account="both") for name in ("a", "b"))
    )
    told = [await lookups.lookup("word", word) for word in ("one", "two")]
    statuses = [report["status"] for result in told for report in result.reports()]
    assert (statuses.count("ok"), statuses.count("rate_limited")) == (3, 1)


async def test_a_source_that_fails_leaves_others_of_its_account_alone(world: World) -> None:
    for name in ("a", "b"):
        await world.provider(name, **{f"{name}__value": 1})
    lookups = await world.process(*(spec(name, account="both") for name in ("a", "b")))
    world.providers["a"].says(500)
    for number in range(7):
        result = await lookups.lookup("word", "x" * (number + 1))
        assert result.reports()[1]["status"] == "ok"
    assert result.reports()[0]["detail"] == "cooling_down"


async def test_where_a_key_is_refused_all_sources_of_the_account_are_said_to_cool_down(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.provider(name, **{f"{name}__value": 1})
    specs = [spec("a", account="both"), spec("b", account="both"), spec("c")]
    lookups, another = await world.process(*specs), await world.process(*specs)
    for name in ("a", "b"):
        world.providers[name].says(401)
    await lookups.lookup("word", "apple")
    states = {row.name: row.state for row in await another.describe()}
    assert states == {"a": "cooling_down", "b": "cooling_down", "c": "ready"}


async def test_an_answer_that_was_under_way_does_not_lift_the_limit_of_its_account(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.provider(name, **{f"{name}__value": 1})
    specs = [spec("a", account="both"), spec("b", account="both"), spec("c")]
    world.providers["a"].says(429, Retry_After="120")
    refuse, asked = world.providers["a"].respond, asyncio.Event()
    release = world.providers["b"].hangs()
    hang = world.providers["b"].respond
    assert refuse is not None and hang is not None

    async def refused(request: web.Request) -> web.StreamResponse:
        await asked.wait()
        return await refuse(request)

    async def hanging(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await hang(request)

    world.providers["a"].respond, world.providers["b"].respond = refused, hanging

    async def limited() -> bool:
        async with world.database.connection() as connection:
            return (await provider_states.load_states(connection)).get("@both", {}).get("blocked", False)

    lookup = asyncio.create_task((await world.process(*specs)).lookup("word", "apple"))
    await eventually(limited, what="the limit is noted")
    release.set()
    assert (await lookup).reports()[1]["status"] == "ok"
    result = await (await world.process(*specs)).lookup("word", "berry")
    assert [report["status"] for report in result.reports()] == ["rate_limited", "rate_limited", "ok"]


def test_sources_of_one_account_agree_on_what_it_allows() -> None:
    rates: dict[str, set[Any]] = {}
    for kind in KINDS.values():
        for source in kind.sources:
            if isinstance(source, RemoteSource) and source.spec.account:
                rates.setdefault(source.spec.account, set()).add(source.spec.rates)
    assert {account: len(found) for account, found in rates.items()} == dict.fromkeys(rates, 1)
