"""Which fields a monitor watches, by default and by name."""

from __future__ import annotations

import pytest

from models.monitors.defaults import DEFAULTS
from models.monitors.fields import Unmatched, Watch, find_unmatched, watch
from providers.sources.kind import Kind
from tests.monitors.worlds import KINDS, fields_of

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def named(kind: Kind) -> set[str]:
    """All names that the defaults can use: fields, and the members of objects in lists."""
    return {
        name
        for field, members in fields_of(kind).items()
        for name in ([f"{field}.{member}" for member in members] or [field])
    }


def counted(watched: Watch) -> set[str]:
    """The same of what is watched."""
    return {
        name
        for field, form in watched.items()
        for name in ([f"{field}.{member}" for member in form.members] or [field])
    }


@each_kind
def test_the_defaults_name_only_fields_that_exist(kind: Kind) -> None:
    defaults = DEFAULTS[kind.name]
    texts = (
        defaults.caseless
        | defaults.names
        | defaults.pictures
        | defaults.rotating
        | defaults.clocks
        | defaults.spoken
    )
    assert not (texts | defaults.tolerances.keys()) - named(kind)


@each_kind
def test_every_list_of_objects_has_a_key_of_its_members(kind: Kind) -> None:
    lists = {field: set(members) for field, members in fields_of(kind).items() if members}
    keys = DEFAULTS[kind.name].keys
    assert keys.keys() == lists.keys()
    for field, groups in keys.items():
        assert groups
        assert all(group and set(group) <= lists[field] for group in groups)


@each_kind
def test_every_field_that_a_source_fills_can_be_watched(kind: Kind) -> None:
    known = fields_of(kind)
    assert {path for source in kind.sources for path in source.fields} <= known.keys()


@each_kind
def test_all_fields_count_by_default_but_what_clocks_show(kind: Kind) -> None:
    clocks = {"timezone.abbreviation", "timezone.utc_offset"} if kind.name == "ip" else set[str]()
    spoken = {"email": {"registered_services.asked"}, "darkweb": {"message"}}.get(kind.name, set[str]())
    assert counted(watch(kind.name, fields_of(kind))) == named(kind) - clocks - spoken


def test_what_clocks_show_does_not_count_even_where_it_is_tracked() -> None:
    known = fields_of(KINDS["ip"])
    assert watch("ip", known, ["timezone"]).keys() == {"timezone.name"}
    assert not watch("ip", known, ["timezone.utc_offset"])


def test_what_every_answer_has_cannot_be_watched() -> None:
    for name in ("credits", "cached", "partial", "providers", "sources", "conflicts"):
        assert find_unmatched([name], fields_of(KINDS["ip"]))


@pytest.mark.parametrize(
    ("tracked", "ignored", "watched"),
    [
        (["whois.*"], ["whois.*s"], {"whois.registered", "whois.registrar", "whois.created"}),
        (["dns"], ["dns.a*", "dns.txt"], {"dns.mx", "dns.ns", "dns.soa", "dns.caa", "dns.dmarc"}),
        (
            ["hosting.ip", "threat"], ["threat.*_count", "threat.is_*"],
            {"hosting.ip", "threat.malicious", "threat.categories"},
        ),
        (["verdict"], ["*.reasons"], {"verdict.level"}),
        (["*"], ["whois", "dns", "ssl", "threat", "hosting", "verdict"], {"domain"}),
        (["whois.created"], ["whois"], set()),
    ],
)  # fmt: skip
def test_fields_are_tracked_and_ignored_by_name_block_and_pattern(
    tracked: list[str], ignored: list[str], watched: set[str]
) -> None:
    assert watch("domain", fields_of(KINDS["domain"]), tracked, ignored).keys() == watched


def test_ignored_fields_are_left_out_of_the_default() -> None:
    known = fields_of(KINDS["domain"])
    usual, fewer = watch("domain", known), watch("domain", known, ignored=["dns"])
    assert {field for field in usual if not field.startswith("dns.")} == fewer.keys()


def test_members_of_objects_in_lists_have_names_too() -> None:
    forms = watch("company", fields_of(KINDS["company"]), ["profile.officers.role", "*.score"])
    assert {field: list(form.members) for field, form in forms.items()} == {
        "profile.officers": ["role"],
        "candidates": ["score"],
    }


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("whois.registar", "whois.registrar"),
        ("dnss", "dns"),
        ("profile.officers.rle", "profile.officers.role"),
        ("whois.*x", None),
        ("", None),
        ("[", None),
        ("*" * 500 + "_", None),
    ],
)
def test_a_name_that_matches_nothing_is_told_with_the_nearest(pattern: str, nearest: str | None) -> None:
    known = {**fields_of(KINDS["domain"]), **fields_of(KINDS["company"])}
    found = find_unmatched(["dns", pattern, "*.role"], known)
    assert [one.pattern for one in found] == [pattern]
    if nearest:
        assert found == [Unmatched(pattern, nearest)]


def test_of_many_unknown_names_the_nearest_is_looked_for_of_the_first_five() -> None:
    found = find_unmatched([f"whois.registrar{n}" for n in range(6)], fields_of(KINDS["domain"]))
    assert [one.nearest for one in found] == ["whois.registrar"] * 5 + [None]
