"""Workflows by their names: who types a command knows those, and not the ids."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

from cli.client import Service, part
from cli.errors import BadInput

_ID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PAGE = 100


def find_workflow(service: Service, id_or_name: str, shown: str) -> dict[str, Any]:
    """Find the workflow with an id or a name.

    Args:
        service: to ask.
        id_or_name: either.
        shown: the option or argument that it came in by.

    Raises:
        BadInput: there is none, or several have the name.
    """
    if _ID.fullmatch(id_or_name):
        return service.get(f"/api/workflows/{part(id_or_name)}")
    found = named(service, id_or_name)
    if not found:
        raise BadInput(f"{shown}: There is no such workflow.")
    if len(found) > 1:
        ids = ", ".join(str(one["id"]) for one in found)
        raise BadInput(f"{shown}: Several workflows have this name; give the id of one: {ids}.")
    return found[0]


def named(service: Service, name: str) -> list[dict[str, Any]]:
    """All workflows with a name."""
    return [one for one in all_workflows(service) if one["name"] == name]


def all_workflows(service: Service, status: str | None = None) -> Generator[dict[str, Any]]:
    """All workflows, newest first, page by page."""
    page, seen, total = 1, 0, 1
    while seen < total:
        answer = service.get("/api/workflows", page=page, limit=_PAGE, status=status)
        yield from answer["workflows"]
        page, seen, total = page + 1, seen + _PAGE, answer["total"]
