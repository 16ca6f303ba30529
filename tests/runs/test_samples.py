"""Made-up answers: full, of the shape of real ones, and never taken for real."""

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.lookup import samples
from providers.lookup.composition import compose
from providers.lookup.result import NOT_ASKED, SourceResult
from providers.registry import KINDS
from providers.sources.base import LocalSource, Source
from providers.sources.kind import Kind


def answered(kind: Kind, outcomes: list[tuple[Source, SourceResult]]) -> dict[str, Any]:
    query = kind.normalise(kind.example, "/x")
    return compose(kind, query, [*outcomes, *samples.add_sample(kind, outcomes)], datetime.now(UTC)).answer()


# What lists alone tell, and only where it is true; what no source tells; and who was asked: nobody.
NEVER = {
    "validate": ["/checks/mailbox", "/checks/disposable", "/checks/role", "/checks/free_provider"],
    "email": [
        "/age",
        "/birthplace",
        "/education",
        "/gender",
        "/news",
        "/publications",
        "/registered_services/asked",
        "/skills",
    ],
    "company": ["/profile/total_funding"],
}


def unfilled(value: Any, place: str = "") -> list[str]:
    if value is None or value == []:
        return [place]
    if isinstance(value, dict):
        return [found for name, inner in value.items() for found in unfilled(inner, f"{place}/{name}")]
    return []


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_sample_fills_every_field_that_a_source_can_tell_in_the_right_shape(kind: Kind) -> None:
    answer = answered(kind, [(source, SourceResult("skipped", detail=NOT_ASKED)) for source in kind.sources])
    kind.answer.model_validate(answer)
    known = {name: answer[name] for name in sorted(answer.keys() - {"conflicts"})}
    assert unfilled(known) == NEVER.get(kind.name, [])
    assert answer[kind.echo] == kind.normalise(kind.example, "/x").words


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_sample_is_said_to_be_one(kind: Kind) -> None:
    answer = answered(kind, [(source, SourceResult("skipped", detail=NOT_ASKED)) for source in kind.sources])
    told = {source for sources in answer["sources"].values() for source in sources}
    assert told - {"computed"} == {"sample"}
    assert "sample" not in {source.spec.name for source in kind.sources}


def of_ip(name: str) -> Source:
    return next(source for source in KINDS["ip"].sources if source.spec.name == name)


def test_a_sample_adds_only_what_a_source_that_was_not_asked_could_tell() -> None:
    dbip, abuse, virustotal = of_ip("dbip"), of_ip("abuseipdb"), of_ip("virustotal")
    assert isinstance(dbip, LocalSource)
    outcomes: list[tuple[Source, SourceResult]] = [
        (dbip, SourceResult("ok", {"location.city": "Berlin"})),
        (abuse, SourceResult("skipped", detail=NOT_ASKED)),
        (virustotal, SourceResult("skipped", detail="no_key")),
    ]
    [(_, added)] = samples.add_sample(KINDS["ip"], outcomes)
    assert added.fields.keys() <= abuse.fields
    assert "threat.abuse_score" in added.fields
    answer = answered(KINDS["ip"], outcomes)
    assert (answer["location"]["city"], answer["sources"]["location.city"]) == ("Berlin", ["dbip"])


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_nothing_is_added_where_no_source_is_set_up(kind: Kind) -> None:
    outcomes = [(source, SourceResult("skipped", detail="no_key")) for source in kind.sources]
    assert samples.add_sample(kind, outcomes) == []


def test_nothing_is_added_where_every_source_has_answered() -> None:
    outcomes: list[tuple[Source, SourceResult]] = [
        (source, SourceResult("empty", detail="suppressed")) for source in KINDS["email"].sources
    ]
    assert samples.add_sample(KINDS["email"], outcomes) == []
