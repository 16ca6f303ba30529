"""The lookup of objects by name, because users type names and not ids."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Any

from cli.client import Service, part
from cli.errors import BadInput, Refused
from cli.printing import moment

_ID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PAGE = 100


def find_workflow(service: Service, id_or_name: str, shown: str) -> dict[str, Any]:
    """Return the workflow with an id or a name.

    Args:
        service: the service to ask.
        id_or_name: an id or a name.
        shown: the option or argument of the input.

    Raises:
        BadInput: there is none, or several have the name.
    """
    if _ID.fullmatch(id_or_name):
        return service.get(f"/api/workflows/{part(id_or_name)}")
    return _only(find_by_name(service, id_or_name), "workflow", shown)


def find_monitor(service: Service, id_or_name: str, shown: str) -> dict[str, Any]:
    """Return the monitor with an id or a name; as `find_workflow`."""
    if _ID.fullmatch(id_or_name):
        return _with_id(service, f"/api/monitors/{part(id_or_name)}", "monitor", shown)
    found = service.get("/api/monitors")["monitors"]
    return _only((one for one in found if one["name"] == id_or_name), "monitor", shown)


def find_list(service: Service, id_or_name: str, shown: str) -> dict[str, Any]:
    """Return the contact list with an id or a name; as `find_workflow`."""
    if _ID.fullmatch(id_or_name):
        return _with_id(service, f"/api/lists/{part(id_or_name)}", "list", shown)
    return _only((one for one in service.get("/api/lists") if one["name"] == id_or_name), "list", shown)


def find_webhook(service: Service, id_or_url: str, shown: str) -> dict[str, Any]:
    """Return the webhook with an id or a URL; as `find_workflow`."""
    if _ID.fullmatch(id_or_url):
        return _with_id(service, f"/api/webhooks/{part(id_or_url)}", "webhook", shown)
    found = service.get("/api/webhooks")["webhooks"]
    return _only((one for one in found if one["url"] == id_or_url), "webhook", shown)


def _with_id(service: Service, path: str, noun: str, shown: str) -> dict[str, Any]:
    try:
        return service.get(path)
    except Refused as refused:
        if refused.code != "not_found":
            raise
        raise BadInput(f"{shown}: There is no such {noun}.") from None


def _only(named: Iterable[dict[str, Any]], noun: str, shown: str) -> dict[str, Any]:
    found = list(named)
    if not found:
        raise BadInput(f"{shown}: There is no such {noun}.")
    if len(found) > 1:
        lines = [f"{shown}: Several {noun}s are called this. Give one of their ids in its place:"]
        lines += [f"{one['id']}  created {moment(one['created_at'])}" for one in found]
        raise BadInput("\n".join(lines))
    return found[0]


def find_by_name(service: Service, name: str) -> list[dict[str, Any]]:
    """Return all workflows with a name."""
    return [one for one in all_workflows(service) if one["name"] == name]


def all_workflows(service: Service, status: str | None = None) -> Generator[dict[str, Any]]:
    """Yield all workflows, newest first, page by page."""
    page, seen, total = 1, 0, 1
    while seen < total:
        answer = service.get("/api/workflows", page=page, limit=_PAGE, status=status)
        yield from answer["workflows"]
        page, seen, total = page + 1, seen + _PAGE, answer["total"]
