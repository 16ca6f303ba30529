"""How the fields of many sources become one answer."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from models.lookups.lookups import LookupAnswer
from providers.ip.answer import IpAnswer
from providers.sources.aggregate import check_declared, merge, nest, paths
from providers.sources.base import Fields, Spec, Unsure

SPEC = Spec(name="a", kind="test", fields=frozenset({"x.one", "x.two"}), licence="-", attribution="-")


@pytest.mark.parametrize("unknown", [None, "", math.nan, math.inf, -math.inf])
def test_what_is_unknown_is_left_out(unknown: Any) -> None:
    assert check_declared(SPEC, {"x.one": unknown, "x.two": 2}) == ({"x.two": 2}, set(), [], {})


@pytest.mark.parametrize("known", [False, 0, 0.0, [], "0"])
def test_what_is_known_to_be_nothing_is_kept(known: Any) -> None:
    assert check_declared(SPEC, {"x.one": known}) == ({"x.one": known}, set(), [], {})


def test_an_undeclared_field_is_dropped_and_named() -> None:
    assert check_declared(SPEC, {"x.one": 1, "x.new": 2}) == ({"x.one": 1}, set(), ["x.new"], {})


@pytest.mark.parametrize(("value", "known"), [(Unsure(), {}), (Unsure(1), {"x.one": 1})])
def test_what_a_source_is_unsure_of_is_named(value: Unsure, known: Fields) -> None:
    assert check_declared(SPEC, {"x.one": value}) == (known, {"x.one"}, [], {})


def test_other_fields_or_another_parser_make_another_edition() -> None:
    others = [replace(SPEC, fields=frozenset({"x.one"})), replace(SPEC, parser_version=2)]
    assert len({one.edition for one in (SPEC, *others)}) == 3
    assert SPEC.edition == replace(SPEC, licence="other").edition


def test_the_first_source_that_knows_wins_and_the_others_are_a_conflict() -> None:
    merged = merge(
        [("a", {"city": "Bonn"}), ("b", {"city": "Berlin", "zip": "1"}), ("c", {"city": "Bonn"})], {}
    )
    assert merged.fields == {"city": "Bonn", "zip": "1"}
    assert merged.sources == {"city": ["a", "c"], "zip": ["b"]}
    assert merged.conflicts == {"city": {"a": "Bonn", "b": "Berlin", "c": "Bonn"}}


NAME = frozenset({"first", "last"})


def test_fields_that_belong_together_come_from_one_source() -> None:
    answers = [("a", {"first": "Ada", "city": "Bonn"}), ("b", {"first": "Augusta", "last": "Byron"})]
    merged = merge(answers, {}, [NAME])
    assert merged.fields == {"first": "Ada", "city": "Bonn"}
    assert merged.conflicts == {"first": {"a": "Ada", "b": "Augusta"}}


def test_fields_that_belong_together_come_from_the_first_that_has_any_of_them() -> None:
    merged = merge([("a", {"city": "Bonn"}), ("b", {"first": "Ada", "last": "Byron"})], {}, [NAME])
    assert merged.fields == {"city": "Bonn", "first": "Ada", "last": "Byron"}


def test_sources_that_agree_are_no_conflict() -> None:
    merged = merge([("a", {"city": "Bonn"}), ("b", {"city": "Bonn"})], {})
    assert (merged.sources, merged.conflicts) == ({"city": ["a", "b"]}, {})


@pytest.mark.parametrize(
    ("rule", "values", "value", "sources"),
    [
        ("any_true", [False, True, False], True, ["b"]),
        ("any_true", [False, False, False], False, ["a", "b", "c"]),
        ("max", [3, 7, 7], 7, ["b", "c"]),
        ("union", [["x"], ["y", "x"], []], ["x", "y"], ["a", "b", "c"]),
        ("first", [1, 2, 3], 1, ["a"]),
    ],
)
def test_a_field_is_merged_by_its_rule(rule: Any, values: list[Any], value: Any, sources: list[str]) -> None:
    answers = [(name, {"field": one}) for name, one in zip("abc", values, strict=True)]
    merged = merge(answers, {"field": rule})
    assert (merged.fields["field"], merged.sources["field"]) == (value, sources)


NAMES = ["a", "b", "c", "d"]
ANSWERS = {name: {"shared": name, f"own.{name}": name} for name in NAMES}


@pytest.mark.parametrize(
    "answering", [chosen for size in range(len(NAMES) + 1) for chosen in combinations(NAMES, size)]
)
def test_whoever_fails_the_rest_is_all_there(answering: tuple[str, ...]) -> None:
    merged = merge([(name, ANSWERS[name] if name in answering else {}) for name in NAMES], {})
    assert {path for path in merged.fields if path != "shared"} == {f"own.{name}" for name in answering}
    assert merged.fields.get("shared") == (answering[0] if answering else None)


FIELDS = st.dictionaries(st.sampled_from(["p", "q", "r"]), st.integers(0, 3))


@given(st.lists(FIELDS, max_size=5))
def test_every_value_is_one_that_its_sources_gave(answers: list[dict[str, int]]) -> None:
    named = [(str(index), fields) for index, fields in enumerate(answers)]
    merged = merge(named, {"q": "max"})
    by_name = dict(named)
    for path, value in merged.fields.items():
        assert merged.sources[path]
        assert all(by_name[name][path] == value for name in merged.sources[path])
    assert merged.fields.keys() == {path for fields in answers for path in fields}
    assert set(merged.conflicts) == {
        path for path in merged.fields if len({f[path] for f in answers if path in f}) > 1
    }


# The nested object


class Inner(BaseModel):
    names: list[str]
    score: float | None


class Item(BaseModel):
    name: str


class Outer(BaseModel):
    inner: Inner
    deep: Inner


class Answer(LookupAnswer):
    title: str | None
    block: Inner
    outer: Outer
    profile: Inner | None
    items: list[Item]


def test_the_paths_of_an_answer_are_all_fields_that_sources_can_fill() -> None:
    assert paths(Answer) == {
        "title", "items", "block.names", "block.score", "profile.names", "profile.score",
        "outer.inner.names", "outer.inner.score", "outer.deep.names", "outer.deep.score",
    }  # fmt: skip


def test_blocks_are_objects_arrays_are_arrays_and_the_rest_is_null() -> None:
    nothing = {"names": [], "score": None}
    assert nest({}, Answer) == {
        "title": None,
        "block": nothing,
        "outer": {"inner": nothing, "deep": nothing},
        "profile": None,
        "items": [],
    }


def test_values_are_put_in_their_place() -> None:
    nested = nest(
        {"title": "t", "outer.deep.score": 1.0, "profile.score": 2.0, "items": [{"name": "n"}]}, Answer
    )
    assert nested["title"] == "t"
    assert nested["outer"]["deep"] == {"names": [], "score": 1.0}
    assert nested["profile"] == {"names": [], "score": 2.0}
    assert nested["items"] == [{"name": "n"}]


def test_the_json_of_an_answer_begins_with_the_fields_of_its_kind() -> None:
    common: dict[str, Any] = {
        "credits": 0,
        "cached": False,
        "partial": False,
        "providers": [],
        "sources": {},
        "conflicts": {},
    }
    told = Answer.model_validate({**common, **nest({}, Answer)}).model_dump(mode="json")
    assert list(told) == ["title", "block", "outer", "profile", "items", *common]


def test_two_answers_share_nothing() -> None:
    nest({}, Answer)["block"]["names"].append("x")
    assert nest({}, Answer)["block"]["names"] == []


def test_an_ip_answer_has_every_field_of_the_interface() -> None:
    expected = {
        "security": "is_vpn is_proxy is_tor is_hosting is_relay is_mobile is_abuse",
        "asn": "asn name domain type",
        "company": "name domain type",
        "location": "city region country country_code postal_code continent longitude latitude accuracy_km "
        "is_anycast",
        "timezone": "name abbreviation utc_offset",
        "threat": "abuse_score total_reports last_reported_at usage_type is_tor is_whitelisted "
        "distinct_users is_scanner is_known_service classification scanner_name last_seen",
        "malware": "malicious_count suspicious_count harmless_count undetected_count reputation network",
    }
    nested = nest({}, IpAnswer)
    assert {block: " ".join(nested[block]) for block in expected} == expected
    assert nested.keys() - expected.keys() == {"ip_address", "hostname"}
