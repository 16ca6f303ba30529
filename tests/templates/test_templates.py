"""Each template is a workflow that raises no doubt, and says what it needs; the documentation lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models.automations import definitions, templates
from models.automations.templates import CATEGORIES
from providers.registry import answer_shapes, lookup_fields
from tests.api_server import Api, Person
from tests.templates.copies import secrets_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "templates.md").read_text()


@pytest.mark.parametrize("template_id", templates.load_templates())
def test_a_template_is_a_valid_workflow_without_warnings(template_id: str) -> None:
    document, secrets = templates.load_templates()[template_id].document(), secrets_of(template_id)
    report = definitions.validate(document, secrets, (), lookup_fields(), answer_shapes())
    assert (report.status, report.errors, report.warnings) == ("active", [], [])


@pytest.mark.parametrize("template_id", templates.load_templates())
def test_the_description_names_every_secret_that_the_template_needs(template_id: str) -> None:
    named = re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", templates.load_templates()[template_id].description)
    assert sorted(named) == secrets_of(template_id)


def test_most_templates_need_nothing() -> None:
    needy = [template_id for template_id in templates.load_templates() if secrets_of(template_id)]
    assert needy == [
        "enrich-crm-contact", "triage-alerts", "approve-by-link", "failed-runs", "github-first-contribution"
    ]  # fmt: skip


@pytest.mark.parametrize("template_id", templates.load_templates())
def test_what_a_template_emits_has_a_text_for_people(template_id: str) -> None:
    steps = templates.load_templates()[template_id].steps
    assert all(step["config"]["data"]["text"] for step in steps if step["type"] == "emit")


def test_there_are_templates_of_every_category() -> None:
    assert {template.category for template in templates.load_templates().values()} == {*CATEGORIES}
    assert len(templates.load_templates()) >= 22


def test_the_documentation_lists_every_template() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (
            one.id,
            one.name,
            one.trigger["type"],
            ", ".join(f"`{name}`" for name in secrets_of(one.id)) or "none",
        )
        for one in templates.load_templates().values()
    ]


async def test_the_list_has_all_templates_or_those_of_a_category(api: Api, person: Person) -> None:
    every = (await person.key.get("/api/workflows/templates")).json()["templates"]
    assert [one["id"] for one in every] == [*templates.load_templates()]
    assert every[0].keys() == {"id", "name", "description", "category", "trigger", "steps"}
    answer = await person.key.get("/api/workflows/templates", params={"category": "sales"})
    found = answer.json()["templates"]
    assert found and found == [one for one in every if one["category"] == "sales"]


async def test_an_unknown_category_is_refused_with_those_that_there_are(person: Person) -> None:
    answer = await person.key.get("/api/workflows/templates", params={"category": "saels"})
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["code"]) == (400, "not_allowed")
    assert all(category in error["message"] for category in CATEGORIES)
