"""How collections are read page by page: all alike, but for those that are named here with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from api.http.openapi import operations
from tests.api_server import openapi_document

# What every client of this interface expects, as its users know it.
NUMBERED = {
    "list_workflows": "page and limit, as its users know it",
}
BOTH = {"list_runs": "page and limit, as its users know it; a cursor goes on whatever is accepted meanwhile"}
SKIPPED = {
    "list_monitor_runs": "limit and offset, as its users know it; the total says how many there are",
    "list_monitoring_runs": "as list_monitor_runs",
    "list_monitoring_results": "as list_monitor_runs",
    "list_monitoring_targets": "as list_monitor_runs",
    "list_run_results": "an array as its users know it; with limit or offset an object with the total",
}
NEWEST = {"list_approvals": "what waits now, the newest: who answers one sees the next"}
WHOLE = {
    "list_lists": "an array, as its users know it",
    "list_targets": "an array of texts, as its users know it: 100,000 at most",
    "list_monitor_targets": "an array of texts, as list_targets",
    "list_monitors": "an account has 1,000 at most",
    "list_webhooks": "there is a bound on how many an account has",
    "list_sessions": "they end by themselves, and an account has few",
    "list_keys": "there is a bound on how many an account has",
    "list_secrets": "there is a bound on how many an account has",
    "list_providers": "what the service is made of",
    "list_workflow_templates": "what the service is made of",
    "list_event_types": "what the service is made of",
}


@pytest.fixture(scope="module")
def collections() -> dict[str, dict[str, Any]]:
    """The operations that answer several of something, by name; their parameters and their answer."""
    document = openapi_document()
    found: dict[str, dict[str, Any]] = {}
    for _, method, operation in operations(document):
        content = operation["responses"].get("200", {}).get("content", {})
        if "text/csv" in content:
            continue  # a file, of which a part can be had
        schema = resolved(document, content.get("application/json", {}).get("schema", {}))
        arrays = [one for one in schema.get("properties", {}).values() if one.get("type") == "array"]
        several = operation["operationId"].startswith(("list_", "get_ledger"))
        if method == "get" and "x-same-as" not in operation and (several or schema.get("type") == "array"):
            assert arrays or schema.get("type") == "array" or "anyOf" in schema, operation["operationId"]
            names = {one["name"]: one for one in operation.get("parameters", [])}
            found[operation["operationId"]] = {"parameters": names, "schema": schema}
    return found


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def paged(one: dict[str, Any]) -> set[str]:
    return {"limit", "cursor", "page", "offset"} & one["parameters"].keys()


def test_a_collection_is_read_by_limit_and_cursor(collections: dict[str, dict[str, Any]]) -> None:
    others = {*NUMBERED, *SKIPPED, *WHOLE, *BOTH, *NEWEST}
    for name in collections.keys() - others:
        one = collections[name]
        assert paged(one) == {"limit", "cursor"}, name
        assert "next_cursor" in one["schema"]["required"], name


def test_the_exceptions_are_those_that_are_named(collections: dict[str, dict[str, Any]]) -> None:
    assert {name for name in collections if paged(collections[name]) == {"limit", "page"}} == NUMBERED.keys()
    assert {name for name in collections if paged(collections[name]) == {"limit", "offset"}} == SKIPPED.keys()
    both = {name for name in collections if paged(collections[name]) == {"limit", "page", "cursor"}}
    assert both == BOTH.keys()
    assert {name for name in collections if paged(collections[name]) == {"limit"}} == NEWEST.keys()
    whole = {name for name in collections if not paged(collections[name])}
    assert whole == WHOLE.keys()


def test_a_limit_is_a_hundred_at_most_and_says_its_default(collections: dict[str, dict[str, Any]]) -> None:
    for name, one in collections.items():
        if "limit" in one["parameters"]:
            schema = one["parameters"]["limit"]["schema"]
            choices = schema.get("anyOf", [schema])
            assert (choices[0]["minimum"], choices[0]["maximum"]) == (1, 100), name
            assert schema.get("default") in ((None,) if name == "list_run_results" else (20, 100)), name
