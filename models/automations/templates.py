"""Templates: workflows to begin with, each a JSON document in the folder `templates`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal, cast, get_args

import orjson
from pydantic import Field

from language.findings import Finding, suggestion
from models.views import View

Category = Literal["enrichment", "monitoring", "security", "sales", "integration"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
SLACK = "SLACK_WEBHOOK_URL"
"""The secret whose presence makes copies post to Slack instead of emitting alerts."""
_UNTIL_SLACK_IS_BACK = {"max_attempts": 10, "initial_seconds": 1, "backoff": 3, "max_seconds": 3600}
"""Slack messages are retried for some two hours: a step that remembers a message as sent must send it."""


class Template(View):
    """A workflow to begin with."""

    id: str = Field(description="What `template_id` of a new workflow names.")
    name: str = Field(description="What it is called.")
    description: str = Field(description="What it does, which secrets it needs, and what to change.")
    category: Category = Field(description="What it is about.")
    trigger: dict[str, Any] = Field(description="What starts its runs.")
    steps: list[dict[str, Any]] = Field(description="What a run does.")

    def document(self) -> dict[str, Any]:
        """Return the document of a workflow that copies the template."""
        return self.model_dump(include={"name", "description", "trigger", "steps"})


@cache
def load_templates() -> Mapping[str, Template]:
    """Read all templates: id → template, grouped by category."""
    files = [file for file in resources.files("templates").iterdir() if file.name.endswith(".json")]
    found = [
        Template(id=file.name.removesuffix(".json"), **orjson.loads(file.read_bytes())) for file in files
    ]
    found.sort(key=lambda template: (CATEGORIES.index(template.category), template.id))
    return {template.id: template for template in found}


def fill_in(document: Any, secrets: Collection[str]) -> Any:
    """Fill the fields of a template into a document that names one by `template_id`.

    Its alerts go to Slack if the account has the secret `SLACK_WEBHOOK_URL`.

    Args:
        document: of a new workflow: JSON, of any shape. Its own fields take precedence; a `trigger` without a
        type
            changes the template's trigger.
        secrets: the names of the secrets that the workflow may use.

    Returns:
        The document with the other fields of the template; the document unchanged if it names no template; or
        a finding if there is no such template.
    """
    if not isinstance(document, dict) or "template_id" not in document:
        return cast(Any, document)
    own = cast(dict[str, Any], document).copy()
    template_id = own.pop("template_id")
    if template_id is None:
        return own
    template = load_templates().get(template_id) if isinstance(template_id, str) else None
    if template is None:
        hint = suggestion(str(template_id), load_templates()) or " GET /api/workflows/templates lists them."
        return Finding("/template_id", "unknown_template", f"There is no such template.{hint}")
    whole = template.document()
    trigger: Any = own.get("trigger")
    if isinstance(trigger, dict) and "type" not in trigger:
        own["trigger"] = whole["trigger"] | cast(dict[str, Any], trigger)
    if SLACK in secrets:
        whole["steps"] = [_as_slack_message(step) for step in whole["steps"]]
    return whole | own


def _as_slack_message(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step that emits an alert as one that posts its text to Slack; other steps unchanged."""
    if step["type"] != "emit":
        return step
    url, body = f"{{{{ secrets.{SLACK} }}}}", {"text": step["config"]["data"]["text"]}
    return step | {"type": "webhook", "retry": _UNTIL_SLACK_IS_BACK, "config": {"url": url, "body": body}}


def missing_inputs(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Find the empty inputs that a copy of a template with a schedule must fill."""
    trigger: Any = document["trigger"]
    given: Any = trigger.get("input") if trigger["type"] == "schedule" else None
    for name, value in cast(dict[str, Any], given).items() if isinstance(given, dict) else ():
        if value == []:
            message = f"The template needs {name}, an array."
            yield Finding(f"/trigger/input/{name}", "missing_input", message)
