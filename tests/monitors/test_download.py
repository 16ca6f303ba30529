"""Results of a run as a CSV file."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from database import Database
from models.monitors.fields import known_fields
from providers.registry import KINDS
from tests.api_server import Api, Person
from tests.monitors.asking import CHANGED, ERROR, create, run

STATUS = ["target", "has_changes", "changed_fields", "error", "silent"]
A, B, C = "a.example.com", "b.example.com", "c.example.com"


async def rows(person: Person, monitor_id: str, run_id: str, **query: Any) -> list[dict[str, str]]:
    path = f"/api/monitors/{monitor_id}/runs/{run_id}/results/download"
    response = await person.key.get(path, params=query)
    assert response.status_code == 200, response.text
    return list(csv.DictReader(io.StringIO(response.text, newline=""), strict=True))


async def test_a_file_has_a_row_for_each_target_and_a_column_for_each_field(
    api: Api, database: Database
) -> None:
    person = await api.person(credits=5)
    monitor_id = (await create(person.key, monitor_type="domain", targets=[A, B, C]))["id"]
    whois = {
        "registrar": "R, Inc.",
        "registered": True,
        "name_servers": ["ns1.example.com", "ns2.example.com"],
    }
    verdict = {"level": "clean", "reasons": [{"code": "c", "source": "s"}]}
    data: dict[str, Any] = {
        "domain": A, "whois": whois, "ssl": None, "hosting": {"asn": 64500}, "verdict": verdict,
        "credits": 1, "cached": False, "providers": [], "sources": {"whois.registrar": ["rdap"]},
    }  # fmt: skip
    changes = {**CHANGED, "dns.a": {"old": [], "new": ["192.0.2.1"]}}
    found = {A: {"data": data, "changes": changes}, B: {}, C: {"error": ERROR}}
    run_id = await run(person, database, monitor_id, found)
    first, second, third = await rows(person, monitor_id, run_id)
    assert list(first) == [*STATUS, *known_fields(KINDS["domain"].answer)]
    assert {name: text for name, text in first.items() if text} == {
        "target": A, "has_changes": "true", "changed_fields": "whois.registrar; dns.a", "domain": A,
        "whois.registrar": "R, Inc.", "whois.registered": "true",
        "whois.name_servers": "ns1.example.com; ns2.example.com", "hosting.asn": "64500",
        "verdict.level": "clean", "verdict.reasons": '[{"code":"c","source":"s"}]',
    }  # fmt: skip
    assert {name: text for name, text in second.items() if text} == {"target": B, "has_changes": "false"}
    assert third["error"] == "all_providers_failed: Every source that was asked failed."


async def test_a_file_can_be_had_of_the_changes_alone(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = (await create(person.key, monitor_type="domain", targets=[A, B]))["id"]
    run_id = await run(person, database, monitor_id, {A: {}, B: {"changes": CHANGED}})
    assert [row["target"] for row in await rows(person, monitor_id, run_id, changes_only=True)] == [B]


async def test_a_spreadsheet_executes_nothing_of_a_file(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = (await create(person.key, monitor_type="company", targets=["=1+1", "+Co"]))["id"]
    data = {"company": "@x", "profile": {"name": "-x", "sic_codes": ["=1", "2"], "employee_count": -5}}
    run_id = await run(person, database, monitor_id, {"=1+1": {"data": data}, "+Co": {}})
    first, second = await rows(person, monitor_id, run_id)
    assert (first["target"], second["target"]) == ("'=1+1", "'+Co")
    assert (first["company"], first["profile.name"], first["profile.sic_codes"]) == ("'@x", "'-x", "'=1; 2")
    assert first["profile.employee_count"] == "-5"


@pytest.mark.parametrize("type", ["email", "phone", "domain", "ip", "company", "darkweb"])
async def test_a_file_says_what_it_is_and_never_what_is_not_of_the_target(
    api: Api, database: Database, type: str
) -> None:
    person = await api.person(credits=5)
    targets = {"ip": "192.0.2.1", "phone": "+14155552671", "email": "ada@example.com"}
    target = targets.get(type, "example.com")
    monitor_id = (await create(person.key, monitor_type=type, targets=[target]))["id"]
    run_id = await run(person, database, monitor_id, {target: {}})
    response = await person.key.get(f"/api/monitors/{monitor_id}/runs/{run_id}/results/download")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["content-disposition"] == f'attachment; filename="monitor-run-{run_id}.csv"'
    header = response.text.partition("\r\n")[0].split(",")
    assert header[:5] == STATUS
    assert not {"providers", "sources", "conflicts", "credits", "cached", "partial"} & set(header)


async def test_the_file_of_a_run_without_results_has_a_header_alone(api: Api, database: Database) -> None:
    person = await api.person(credits=5)
    monitor_id = (await create(person.key, targets=["ada@example.com"]))["id"]
    run_id = await run(person, database, monitor_id, {}, end=False)
    assert await rows(person, monitor_id, run_id) == []
