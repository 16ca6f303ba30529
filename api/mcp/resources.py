"""Resources: the pages of the documentation, as /docs has them."""

from __future__ import annotations

from functools import partial

from mcp.server.mcpserver.resources import FunctionResource, Resource

from services import documentation
from services.documentation import FOLDER

_ADDRESS = "vedette://docs/"
_SCHEMA = "workflow.schema.json"


def pages() -> list[Resource]:
    """List all pages, by name, and the JSON Schema of workflows."""
    found: list[Resource] = [
        FunctionResource.from_function(
            partial(_text, page.name),
            f"{_ADDRESS}{page.name}",
            name=page.name,
            title=page.title,
            description=page.summary,
            mime_type="text/markdown",
        )
        for page in documentation.pages()
    ]
    schema = FunctionResource.from_function(
        (FOLDER / _SCHEMA).read_text,
        f"{_ADDRESS}{_SCHEMA}",
        name=_SCHEMA,
        title="JSON Schema of workflows",
        description="What create_workflow takes, with all bounds.",
        mime_type="application/schema+json",
    )
    return [*found, schema]


def _text(page: str) -> str:
    text = documentation.read_page(page)
    assert text is not None, f"{page} is in the list of pages, and has no text"
    return text
