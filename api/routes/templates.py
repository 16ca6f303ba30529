"""Templates: workflows to begin with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from api.deps import Caller, require_scope
from api.http.strict_route import StrictRoute
from models.automations import templates
from models.automations.templates import Category, Template

router = APIRouter(prefix="/api/workflows", tags=["templates"], route_class=StrictRoute)


class TemplateList(BaseModel):
    """Templates, those of a category together."""

    templates: list[Template] = Field(description="The templates.")


@router.get("/templates")
async def list_workflow_templates(
    caller: Annotated[Caller, require_scope("workflows")],
    category: Annotated[Category | None, Query(description="Only those of this category.")] = None,
) -> TemplateList:
    """List workflows to begin with: `POST /api/workflows` with the `template_id` of one makes a copy."""
    found = [one for one in templates.load_templates().values() if category in (None, one.category)]
    return TemplateList(templates=found)
