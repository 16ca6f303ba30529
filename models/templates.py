"""Templates: workflows to begin with, each a JSON document in the folder `templates`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal, cast, get_args

import orjson
from pydantic import Field

from language.validation.findings import Finding, suggestion
from models.views import View

Category = Literal["enrichment", "monitoring", "security", "sales", "integration"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


class Template(View):
    """A workflow to begin with."""

    id: str = Field(description="What `template_id` of a new workflow names.")
    name: str = Field(description="What it is called.")
    description: str = Field(description="What it does, which secrets it needs, and what to change.")
    category: Category = Field(description="What it is about.")
    trigger: dict[str, Any] = Field(description="What starts its runs.")
    steps: list[dict[str, Any]] = Field(description="What a run does.")

    def document(self) -> dict[str, Any]:
        """Give the document of a workflow like it."""
        return self.model_dump(include={"name", "description", "trigger", "steps"})


@cache
def every() -> Mapping[str, Template]:
    """Read all templates: id → template, those of a category together."""
    files = [file for file in resources.files("templates").iterdir() if file.name.endswith(".json")]
    found = [
        Template(id=file.name.removesuffix(".json"), **orjson.loads(file.read_bytes())) for file in files
    ]
    found.sort(key=lambda template: (CATEGORIES.index(template.category), template.id))
    return {template.id: template for template in found}


def fill_in(document: Any) -> Any:
    """Put what a template says into a document that names one by `template_id`.

    Args:
        document: of a new workflow: JSON, of any shape. Its own fields stand.

    Returns:
        The document with the other fields of the template, a document that names none as it is, or what is
        wrong with the name.
    """
    if not isinstance(document, dict) or "template_id" not in document:
        return cast(Any, document)
    own = cast(dict[str, Any], document).copy()
    template_id = own.pop("template_id")
    if template_id is None:
        return own
    template = every().get(template_id) if isinstance(template_id, str) else None
    if template is None:
        hint = suggestion(str(template_id), every()) or " GET /api/workflows/templates lists them."
        return Finding("/template_id", "unknown_template", f"There is no such template.{hint}")
    return template.document() | own
